"""The event stream and what stands beside it: valid JSON always, status, progress, the run's directory."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from attrs import evolve

from sexpgpu.cli.report import print_json
from sexpgpu.diag import Diagnostic
from sexpgpu.diag.strict import json_text
from sexpgpu.experiment import KnobValue, Manifest, RunConfig
from sexpgpu.runtime.directory import RunDirectory, choose_directory
from sexpgpu.runtime.events import EventStream
from sexpgpu.runtime.manifest import Change, changes, manifest_json, slug
from sexpgpu.runtime.progress import Pace, Progress
from sexpgpu.runtime.run import RunOptions, run
from tests.runtime.line_fit import NumpyEngine, make_engine, options
from tests.runtime.reading import events, status, validator

CONFIG = RunConfig(3, None, 1, precision="f64")


@pytest.fixture
def engine(folder: Path) -> NumpyEngine:
    return make_engine(folder, CONFIG)


def test_numbers_are_written_in_full_and_valid() -> None:
    values = [0.1, 1e-310, 2.0**60, math.nan, math.inf, -math.inf]
    text = json_text({"values": values, "deep": {"x": (math.nan, "Ünïcode")}})
    back = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert back["values"] == [0.1, 1e-310, 2.0**60, "NaN", "Infinity", "-Infinity"]
    assert back["deep"] == {"x": ["NaN", "Ünïcode"]}
    assert "\n" not in text


def test_the_schema_refuses_what_it_should() -> None:
    good = {
        "event": "checkpoint",
        "time": 1.5,
        "step": 3,
        "path": "p",
        "nonce": "n",
        "bytes": 1,
        "seconds": 0.1,
    }
    validator().validate(good)
    bad: list[dict[str, Any]] = [
        good | {"step": -1},
        good | {"step": 1.5},
        good | {"event": "unheard-of"},
        good | {"extra": 1},
        {key: value for key, value in good.items() if key != "nonce"},
    ]
    for event in bad:
        with pytest.raises(jsonschema.ValidationError):
            validator().validate(event)


def test_a_run_tells_everything(engine: NumpyEngine, folder: Path) -> None:
    run(engine, options(folder / "out"))
    kinds = [event["event"] for event in events(folder / "out")]
    assert kinds == [
        "open",
        "annotation",
        "eval",
        "step",
        "step",
        "step",
        "eval",
        "eval",
        "checkpoint",
        "close",
    ]
    opened = events(folder / "out", "open")[0]
    assert opened["device"] == "numpy"
    assert opened["manifest"] == json.loads(json.dumps(manifest_json(engine.experiment.manifest)))
    step = events(folder / "out", "step")[0]
    assert {
        "train/loss",
        "train/residual",
        "optim/grad_norm",
        "optim/lr",
        "runtime/step_seconds",
        "runtime/records_per_second",
        "runtime/points_per_second",
        "runtime/peak_bytes",
        "runtime/held_bytes",
    } <= set(step["metrics"])
    assert step["metrics"]["optim/lr"] == 0.2
    final = status(folder / "out")
    assert (final["state"], final["step"], final["steps"]) == ("finished", 3, 3)
    assert final["metrics"]["val/loss"] == events(folder / "out", "eval")[-2]["metrics"]["val/loss"]
    manifest = json.loads((folder / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["run"] == opened["run"]


def test_rates_are_reported_by_group_where_there_are_several(engine: NumpyEngine, folder: Path) -> None:
    e = engine.experiment
    updates = (e.updates[0], evolve(e.updates[1], group="biases"))
    groups = (e.groups[0], evolve(e.groups[0], name="biases"))
    run(evolve(engine, experiment=evolve(e, updates=updates, groups=groups)), options(folder / "out"))
    metrics = events(folder / "out", "step")[0]["metrics"]
    assert {"optim/lr.default", "optim/lr.biases"} <= set(metrics)


def test_bad_data_are_a_failed_run_that_leaves_nothing(engine: NumpyEngine, folder: Path) -> None:
    (folder / "y.npy").unlink()
    out = folder / "out"
    result = run(engine, options(out))
    assert result.code == 1
    assert result.error is not None
    assert result.error.code == "E-LOAD-001"
    assert str(result.error.span) == "line.sx:3:1"
    assert not out.exists()
    np.save(folder / "y.npy", np.zeros(23, np.float32))
    again = run(engine, options(out))
    assert again.error is not None
    assert again.error.code == "E-LOAD-007"


def test_an_index_file_that_ends_too_soon_ends_the_run(folder: Path) -> None:
    np.save(folder / "order.npy", np.array([[1, 2, 3, 4], [5, 6, -1, -1]]))
    out = folder / "out"
    result = run(make_engine(folder, CONFIG, order="index-file", evaluations=()), options(out))
    assert result.error is not None
    assert result.error.code == "E-LOAD-009"
    assert [event["counters"]["points"] for event in events(out, "step")] == [4, 2]
    assert events(out)[-1]["event"] == "error"
    assert (result.step, result.steps) == (2, 3)
    assert status(out)["step"] == 2


def test_a_directory_is_not_shared(engine: NumpyEngine, folder: Path) -> None:
    out = folder / "out"
    with RunDirectory(out) as held:
        held.create()
        result = run(engine, options(out))
    assert result.error is not None
    assert result.error.code == "E-IO-003"
    assert run(engine, options(out)).code == 0
    again = run(engine, options(out))
    assert again.error is not None
    assert again.error.code == "E-IO-002"


def test_a_directory_that_cannot_be(engine: NumpyEngine, folder: Path) -> None:
    for place in (folder / "x.npy", folder / "x.npy" / "below", Path("/proc/none")):
        result = run(engine, options(place))
        assert result.error is not None
        assert (result.code, result.error.code) == (4, "E-IO-001")
        assert place.parts[1] == "proc" or result.error.actual == f"{folder / 'x.npy'} is a file"


def test_runs_are_named_and_never_overwritten(engine: NumpyEngine, folder: Path) -> None:
    e = engine.experiment
    knobs = (
        KnobValue("lr", "0.5", "set"),
        KnobValue("width", "8", "default"),
        KnobValue("order", "/a b/c", "point"),
    )
    chosen = evolve(e, manifest=evolve(e.manifest, knobs=knobs, variant="smoke"))
    name = slug(chosen)
    assert name.startswith("line-smoke-lr=0.5-order=_a_b_c-")
    assert slug(e) != name
    runs = folder / "runs"
    plain = RunOptions(runs=runs, quiet=True)
    first = run(engine, plain)
    second = run(engine, plain)
    assert first.directory == runs / slug(e)
    assert second.directory == runs / f"{slug(e)}-2"
    assert run(engine, evolve(plain, resume="latest")).directory == second.directory
    checkpoint = first.directory / "checkpoints" / "step-00000003"
    assert choose_directory(e, runs, None, str(checkpoint)) == first.directory


def manifest(**changed: Any) -> Manifest:
    usual: dict[str, Any] = {
        "entry": "dir/a.sx",
        "sources": (("dir/a.sx", "1" * 64), ("dir/lib/b.sx", "2" * 64)),
        "knobs": (KnobValue("lr", "1", "default"),),
        "variant": None,
        "point": None,
        "version": "1",
    }
    return Manifest(**(usual | changed))


def test_what_changed_between_two_manifests() -> None:
    old = manifest_json(manifest())
    moved = manifest(entry="/x/a.sx", sources=(("/x/a.sx", "1" * 64), ("/x/lib/b.sx", "2" * 64)), variant="v")
    assert changes(old, manifest_json(moved)) == []
    other = manifest(sources=(("dir/a.sx", "3" * 64),), knobs=(KnobValue("n", "2", "set"),), version="2")
    assert changes(old, manifest_json(other)) == [
        Change("lr", "1", "-"),
        Change("n", "-", "2"),
        Change("a.sx", "1" * 12, "3" * 12),
        Change("lib/b.sx", "2" * 12, "-"),
        Change("version", "1", "2"),
    ]


def test_sources_are_kept_as_they_were_compiled(engine: NumpyEngine, folder: Path) -> None:
    sources = {"line.sx": "(def a 1)", "lib/b.sx": "(def b \u03b2)"}
    run(engine, options(folder / "out", sources=sources))
    kept = folder / "out" / "source"
    assert {name: (kept / name).read_text(encoding="utf-8") for name in sources} == sources


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report(stream: io.StringIO, color: bool) -> str:
    progress = Progress(stream, 3, color=color)
    for done in (1, 2, 3):
        progress.step(done, 1.25, {"tokens": 2_500_000.0}, eta=3700)
    progress.say("val/loss 1.0")
    progress.finish()
    return stream.getvalue()


def test_progress_on_a_terminal_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm-256color")
    for color in (True, False):
        text = report(Terminal(), color)
        for part in ("step 3/3", "loss 1.2500", "2.5M tokens/s", "eta 1:01:40", "val/loss 1.0"):
            assert part in text
        assert ("\x1b[3" in text or "\x1b[9" in text) == color


def test_progress_elsewhere_is_plain_lines() -> None:
    first, last, said = report(io.StringIO(), True).splitlines()
    assert first == "step 1/3  loss 1.2500  2.5M tokens/s  eta 1:01:40"
    assert last == "step 3/3  loss 1.2500  2.5M tokens/s"
    assert said == "val/loss 1.0"


def test_quiet_progress_says_nothing() -> None:
    for stream in (io.StringIO(), Terminal()):
        quiet = Progress(stream, 3, quiet=True)
        quiet.step(3, 1.0, {}, 0.0)
        quiet.say("x")
        quiet.finish()
        assert stream.getvalue() == ""


def test_the_pace_is_a_median() -> None:
    pace = Pace()
    for seconds in (0.1, 0.1, 9.0, 0.1):
        pace.add(seconds)
    assert pace.remaining(10) == pytest.approx(1.0)


def test_quiet_runs_write_nothing_and_others_only_to_their_stream(
    engine: NumpyEngine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = io.StringIO()
    run(engine, RunOptions(out=folder / "a", stream=stream))
    run(engine, options(folder / "b"))
    assert capsys.readouterr() == ("", "")
    assert "step 3/3" in stream.getvalue()


def unexpected(diagnostic: Diagnostic) -> None:
    pytest.fail(diagnostic.message)


def test_a_stream_appends_where_it_left_off(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    first = EventStream(path, 0, unexpected)
    first.write("annotation", 0, name="a", data={})
    length = first.sync()
    first.close()
    assert length == path.stat().st_size
    second = EventStream(path, length, unexpected)
    second.write("annotation", 1, name="b", data={})
    second.close()
    assert [event["name"] for event in events(tmp_path)] == ["a", "b"]


def test_documents_write_numbers_as_events_do(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"nan": math.nan, "up": math.inf, "down": [-math.inf, (np.float64("nan"), 1.5)], "where": Path("a")}
    print_json({"metrics": values})
    shown = capsys.readouterr().out
    found = json.loads(shown, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["metrics"]
    assert found == {"nan": "NaN", "up": "Infinity", "down": ["-Infinity", ["NaN", 1.5]], "where": "a"}
    assert found["down"] == json.loads(json_text(values["down"]))


def test_statistics_of_spoilt_data_are_valid_json_in_the_manifest(engine: NumpyEngine, folder: Path) -> None:
    directory = RunDirectory(folder / "out", "run")
    directory.path.mkdir()
    directory.write_manifest(engine.experiment, "cpu", {"train-loader": {"x": {"zscore": {"mean": [math.nan]}}}}, {})
    text = (directory.path / "manifest.json").read_text()
    found = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["fitted"]["train-loader"]["x"]["zscore"]["mean"] == ["NaN"]
