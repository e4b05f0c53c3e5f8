"""A run that was stopped, anywhere and any number of times, equals the run that never was."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from attrs import evolve

from sexpgpu.diag import SxError
from sexpgpu.experiment import KnobValue, RunConfig
from sexpgpu.runtime.checkpoint import numbered
from sexpgpu.runtime.restore import read_index
from sexpgpu.runtime.run import run
from tests.runtime.killing import run_until_event
from tests.runtime.line_fit import NumpyEngine, make_engine, options
from tests.runtime.reading import events, last_tensors, timeless

STEPS = 14  # 3 microbatches of 4, epochs of 5 * 4 + 3 records, a checkpoint every third step


@pytest.fixture
def engine(folder: Path) -> NumpyEngine:
    return make_engine(folder, RunConfig(STEPS, None, 3, precision="f64", checkpoint_every=3))


@pytest.fixture
def whole(engine: NumpyEngine, folder: Path) -> Path:
    """A run that was never stopped."""
    out = folder / "whole"
    assert run(engine, options(out)).code == 0
    return out


def assert_equal_runs(out: Path, whole: Path) -> None:
    assert last_tensors(out) == last_tensors(whole)
    assert timeless(out) == timeless(whole)


@pytest.mark.parametrize("stop", range(1, STEPS))
def test_stopping_at_any_step(stop: int, engine: NumpyEngine, whole: Path, folder: Path) -> None:
    out = folder / "out"
    assert run(engine, options(out, steps=stop)).code == 0
    assert run(engine, options(out, resume="latest")).code == 0
    assert last_tensors(out) == last_tensors(whole)
    assert timeless(out, "step") == timeless(whole, "step")
    # An evaluation belongs to the end of a run, also to one that stops sooner; the others are the same.
    planned = [event for event in timeless(out, "eval") if event in timeless(whole, "eval")]
    assert planned == timeless(whole, "eval")


def test_ten_kills_at_moments_of_the_stream(engine: NumpyEngine, folder: Path) -> None:
    engine = evolve(engine, experiment=evolve(engine.experiment, run=evolve(engine.experiment.run, steps=60)))
    assert run(engine, options(folder / "whole")).code == 0
    out = folder / "out"
    draw = random.Random(3)
    resumed = 0
    for _ in range(10):
        code = run_until_event(engine, options(out, resume="latest"), draw.randrange(1, 25))
        assert code == -9
        resumed += any(event["resumed"] for event in events(out, "open"))
    assert resumed > 3
    assert run(engine, options(out, resume="latest")).code == 0
    assert_equal_runs(out, folder / "whole")


@pytest.mark.parametrize("moment", range(1, 40, 2))
def test_a_kill_after_any_event(moment: int, engine: NumpyEngine, whole: Path, folder: Path) -> None:
    out = folder / "out"
    assert run_until_event(engine, options(out), moment) in (-9, 0)
    assert run(engine, options(out, resume="latest")).code == 0
    assert_equal_runs(out, whole)
    steps = [event["step"] for event in events(out, "step")]
    assert steps == list(range(STEPS))
    assert [e["step"] for e in events(out, "checkpoint")] == [e["step"] for e in events(whole, "checkpoint")]


def test_no_line_is_ever_lost(engine: NumpyEngine, whole: Path, folder: Path) -> None:
    """What is run again is set aside, not deleted."""
    out = folder / "out"
    run_until_event(engine, options(out), 22)
    before = (out / "events.jsonl").read_bytes()
    assert run(engine, options(out, resume="latest")).code == 0
    (aside,) = out.glob("events.superseded-*.jsonl")
    tail = aside.read_bytes()
    assert tail
    assert before.endswith(tail)
    assert (out / "events.jsonl").read_bytes().startswith(before.removesuffix(tail))


def test_a_torn_last_line_is_set_aside(engine: NumpyEngine, whole: Path, folder: Path) -> None:
    out = folder / "out"
    run_until_event(engine, options(out), 22)
    with (out / "events.jsonl").open("ab") as stream:
        stream.write(b'{"event":"st')
    assert run(engine, options(out, resume="latest")).code == 0
    assert_equal_runs(out, whole)


def test_a_stream_that_lost_lines_is_said_to_have(engine: NumpyEngine, folder: Path) -> None:
    out = folder / "out"
    run(engine, options(out, steps=6))
    stream = out / "events.jsonl"
    stream.write_bytes(b"".join(stream.read_bytes().splitlines(keepends=True)[:4]))
    result = run(engine, options(out, resume="latest"))
    assert result.code == 0
    assert [d.code for d in result.warnings] == ["W-CKPT-005"]


def test_going_back_to_an_older_checkpoint(engine: NumpyEngine, whole: Path, folder: Path) -> None:
    out = folder / "out"
    assert run(engine, options(out)).code == 0
    old = out / "checkpoints" / "step-00000006"
    assert run(engine, options(out, resume=str(old), steps=8)).code == 0
    assert [step for step, _ in numbered(out / "checkpoints")] == [3, 6, 8]
    assert len(list((out / "checkpoints" / "superseded").iterdir())) == 3  # 9, 12 and 14 are kept elsewhere
    assert run(engine, options(out, resume="latest")).code == 0
    assert last_tensors(out) == last_tensors(whole)


def test_a_new_history_from_a_checkpoint_of_another_run(engine: NumpyEngine, whole: Path, folder: Path) -> None:
    out = folder / "branch"
    source = whole / "checkpoints" / "step-00000009"
    assert run(engine, options(out, resume=str(source))).code == 0
    assert last_tensors(out) == last_tensors(whole)
    assert [event["step"] for event in events(out, "step")] == list(range(9, STEPS))
    assert events(out, "open")[0]["resumed"] == str(source)
    again = run(engine, options(out, resume=str(source)))
    assert again.error is not None
    assert again.error.code == "E-IO-002"


def test_latest_with_nothing_to_resume_starts(engine: NumpyEngine, whole: Path, folder: Path) -> None:
    result = run(engine, options(folder / "out", resume="latest"))
    assert result.code == 0
    assert [d.code for d in result.warnings] == ["W-CKPT-003"]
    assert_equal_runs(folder / "out", whole)
    run(engine, options(folder / "line-first", steps=2))
    warned = run(engine, options(folder / "line-second", resume="latest")).warnings
    assert warned[0].help == f"other runs of this file: {folder / 'line-first'}"


def test_a_finished_run_has_nothing_left_to_do(engine: NumpyEngine, whole: Path) -> None:
    before = timeless(whole)
    assert run(engine, options(whole, resume="latest")).code == 0
    assert timeless(whole) == before
    assert events(whole)[-1]["state"] == "finished"


def knob(value: str) -> tuple[KnobValue, ...]:
    return (KnobValue("lr", value, "default"),)


def test_a_changed_experiment_is_refused_with_the_difference(folder: Path) -> None:
    out = folder / "out"
    config = RunConfig(4, None, 1, precision="f64")
    run(make_engine(folder, config, knobs=knob("0.5")), options(out, steps=2))
    changed = make_engine(folder, config, knobs=knob("0.25"))
    before = (out / "events.jsonl").read_bytes()
    result = run(changed, options(out, resume="latest"))
    assert result.code == 1
    assert result.error is not None
    assert result.error.code == "E-CKPT-003"
    assert [note.text for note in result.error.notes] == ["lr: 0.5 in the checkpoint, 0.25 now"]
    assert (out / "events.jsonl").read_bytes() == before
    assert run(changed, options(out, resume="latest", allow_changed=True)).code == 0
    assert events(out, "open")[-1]["changed"] == ["lr: 0.5 in the checkpoint, 0.25 now"]


def test_other_tensors_are_refused_by_name(folder: Path) -> None:
    out = folder / "out"
    engine = make_engine(folder, RunConfig(2, None, 1, precision="f64"))
    run(engine, options(out, steps=1))
    e = engine.experiment
    other = evolve(
        engine,
        experiment=evolve(e, buffers=e.buffers[:1], states=(*e.states, evolve(e.states[0], name="model.w/second"))),
    )
    result = run(other, options(out, resume="latest"))
    assert result.error is not None
    assert result.error.code == "E-CKPT-004"
    notes = {note.text for note in result.error.notes}
    assert notes == {
        "missing: state/model.w/second",
        "not in the experiment: buffer/model.seen",
        "not in the experiment: buffer/model.carry",
    }


def test_what_is_not_a_checkpoint_starts_nothing(engine: NumpyEngine, whole: Path, folder: Path) -> None:
    beside = [f"a checkpoint: {whole / 'checkpoints' / f'step-{step:08d}'}" for step in (3, 6, 9, 12, 14)]
    begun = folder / "begun"
    begun.mkdir()
    (begun / "manifest.json").write_text("{}", "utf-8")
    for given, actual, near in (
        (folder / "nothing", "nothing is there", []),
        (folder / "x.npy", "a file", []),
        (begun, "the directory of a run that has no checkpoint yet", []),
        (whole, "a directory without checkpoint.json", beside),
        (whole / "checkpoints", "a directory without checkpoint.json", beside),
        (whole / "checkpoints" / "step-00000007", "nothing is there", beside),
    ):
        result = run(engine, options(folder / "out", resume=str(given)))
        assert result.error is not None
        assert (result.code, result.error.code) == (1, "E-CKPT-008")
        assert result.error.message == f"{given} is not a checkpoint"
        assert result.error.actual == actual
        assert [note.text for note in result.error.notes] == near
        assert not (folder / "out").exists()
    with pytest.raises(SxError):
        read_index(folder)


def test_a_checkpoint_past_the_end_is_refused_and_nothing_changes(engine: NumpyEngine, whole: Path) -> None:
    before = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
    result = run(engine, options(whole, resume="latest", steps=10))
    assert result.error is not None
    assert (result.code, result.error.code) == (1, "E-RUN-102")
    assert result.error.message == (
        f"{whole / 'checkpoints' / 'step-00000014'} is of step 14, and the run is to end at step 10"
    )
    assert (result.directory, result.steps) == (None, 0)
    assert {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()} == before


def test_a_lost_manifest_is_written_again(engine: NumpyEngine, whole: Path, folder: Path) -> None:
    out = folder / "out"
    assert run(engine, options(out, steps=6)).code == 0
    known = json.loads((out / "manifest.json").read_bytes())["run"]
    (out / "manifest.json").unlink()
    (out / "status.json").unlink()
    assert run(engine, options(out, resume="latest")).code == 0
    assert json.loads((out / "manifest.json").read_bytes())["run"] == known
    assert last_tensors(out) == last_tensors(whole)
    assert [event["step"] for event in events(out, "step")] == list(range(STEPS))
