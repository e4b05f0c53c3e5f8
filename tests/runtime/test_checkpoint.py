"""Checkpoints under damage: flipped bits, full disks, kills at every system call; and which ones are kept."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.experiment import RunConfig
from sexpgpu.runtime.calls import Tensors
from sexpgpu.runtime.checkpoint import INDEX, Position, numbered, surplus, write_checkpoint
from sexpgpu.runtime.engine import Array
from sexpgpu.runtime.restore import newest_good, restore, verify
from sexpgpu.runtime.run import run
from tests.runtime.killing import CALLS, die, in_child, run_until_call
from tests.runtime.line_fit import NumpyEngine, make_engine, options, write_data
from tests.runtime.reading import events, last_tensors, status, tensors, timeless

CONFIG = RunConfig(6, None, 2, precision="f64", checkpoint_every=2)


@pytest.fixture
def engine(folder: Path) -> NumpyEngine:
    return make_engine(folder, CONFIG)


@pytest.fixture
def out(engine: NumpyEngine, folder: Path) -> Path:
    assert run(engine, options(folder / "out")).code == 0
    return folder / "out"


def kept(out: Path) -> list[int]:
    return [step for step, path in numbered(out / "checkpoints") if (path / INDEX).exists()]


def test_values_come_back_bit_by_bit(folder: Path) -> None:
    """Scalars keep shape (), non-contiguous arrays their order, odd floats their bits."""
    odd = np.array([1e-45, -0.0, np.inf, np.nan, 3.4e38, 1e-310])
    params: dict[str, Array] = {"model.w": odd[::-2], "model.b": np.array(0.1)}
    params["model.t"] = np.arange(6.0).reshape(2, 3).T
    buffers = {"model.seen": np.array(2**31 - 1, np.int32), "flag": np.array([True, False])}
    written = write_checkpoint(
        folder / "c", Position(1, 0, (), 0), Tensors(params, buffers, {}), {"run": "r", "manifest": {}}
    )
    found = tensors(written.path)
    assert found["param/model.w"] == ("float64", (3,), np.ascontiguousarray(odd[::-2]).tobytes())
    assert found["param/model.b"][1] == ()
    assert found["param/model.t"] == ("float64", (3, 2), np.arange(6.0).reshape(2, 3).T.copy().tobytes())
    assert found["buffer/model.seen"][:2] == ("int32", ())
    assert found["buffer/flag"][0] == "bool"
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in written.path.iterdir())


def test_large_tensors_make_several_shards(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexpgpu.runtime.checkpoint._SHARD_BYTES", 100)
    params = {f"p{i}": np.full(10, i, np.float64) for i in range(5)}
    written = write_checkpoint(
        folder / "c", Position(1, 0, (), 0), Tensors(params, {}, {}), {"run": "r", "manifest": {}}
    )
    assert len(verify(written.path)["files"]) == 5
    assert len(tensors(written.path)) == 5


def test_a_flipped_bit_anywhere_is_found(out: Path, engine: NumpyEngine) -> None:
    path = out / "checkpoints" / "step-00000006"
    draw = random.Random(1)
    for file in sorted(path.iterdir()):
        good = file.read_bytes()
        places = draw.sample(range(len(good) * 8), 60) if len(good) < 4000 else draw.sample(range(len(good) * 8), 30)
        for place in places:
            bad = bytearray(good)
            bad[place // 8] ^= 1 << place % 8
            file.write_bytes(bad)
            with pytest.raises(SxError) as caught:
                verify(path)
            assert caught.value.diagnostic.code == "E-CKPT-002"
            with pytest.raises(SxError):
                restore(path, engine.experiment)
        file.write_bytes(good)
    verify(path)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "emptied": lambda file: file.write_bytes(b""),
    "halved": lambda file: os.truncate(file, file.stat().st_size // 2),
    "zeroed": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("which", ["index", "shard"])
def test_latest_falls_back_loudly(damage: str, which: str, out: Path, engine: NumpyEngine) -> None:
    whole = last_tensors(out)
    lines = timeless(out)
    path = out / "checkpoints" / "step-00000006"
    (file,) = path.glob("*.json" if which == "index" else "*.safetensors")
    DAMAGE[damage](file)
    result = run(engine, options(out, resume="latest"))
    assert result.code == 0
    silent = which == "index" and damage == "gone"  # without an index it is no checkpoint
    assert [d.code for d in result.warnings] == ([] if silent else ["W-CKPT-002"])
    assert last_tensors(out) == whole
    assert timeless(out) == lines
    (aside,) = (out / "checkpoints" / "superseded").iterdir()
    assert aside.name.startswith("step-00000006-")


def test_no_whole_checkpoint_is_an_error_that_lists_them(out: Path, engine: NumpyEngine) -> None:
    for _, path in numbered(out / "checkpoints"):
        next(path.glob("*.safetensors")).write_bytes(b"")
    before = (out / "events.jsonl").read_bytes()
    result = run(engine, options(out, resume="latest"))
    assert result.error is not None
    assert result.error.code == "E-CKPT-001"
    assert len(result.error.notes) == 3
    assert (out / "events.jsonl").read_bytes() == before


def test_a_copied_checkpoint_is_whole(out: Path, folder: Path, engine: NumpyEngine) -> None:
    shutil.copytree(out / "checkpoints" / "step-00000004", folder / "elsewhere")
    assert run(engine, options(folder / "on", resume=str(folder / "elsewhere"))).code == 0
    assert last_tensors(folder / "on") == last_tensors(out)


@pytest.mark.parametrize("name", CALLS)
def test_a_kill_at_every_system_call(name: str, engine: NumpyEngine, out: Path, folder: Path) -> None:
    """Whatever call a process dies in, what it leaves resumes to the same end."""
    whole, lines = last_tensors(out), timeless(out)
    count, reached = 0, 0
    while True:
        count += 1 if name in ("replace", "fsync") else 3
        died = folder / f"died-{count}"
        if run_until_call(engine, options(died), name, count, die) == 0:
            break
        reached += 1
        best = newest_good(died / "checkpoints", lambda d: pytest.fail(d.message))
        assert best is None or verify(best)["step"] in (2, 4, 6)
        assert run(engine, options(died, resume="latest")).code == 0
        assert last_tensors(died) == whole
        assert timeless(died) == lines
        shutil.rmtree(died)
    assert reached >= 3


@pytest.mark.parametrize("name", ["open", "write", "fsync", "replace"])
@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_costs_one_checkpoint(
    name: str, fault: int, engine: NumpyEngine, out: Path, folder: Path
) -> None:
    def fail() -> None:
        raise OSError(fault, os.strerror(fault))

    whole, lines = last_tensors(out), timeless(out, "step", "eval")
    for count in range(2, 40, 4):
        failed = folder / f"failed-{count}"
        code = run_until_call(engine, options(failed), name, count, fail)
        assert code in (0, 4)
        for _, path in numbered(failed / "checkpoints"):
            verify(path)
            assert {p.name for p in path.iterdir()} == {INDEX, *verify(path)["files"]}
        assert run(engine, options(failed, resume="latest")).code == 0
        assert last_tensors(failed) == whole
        assert timeless(failed, "step", "eval") == lines
        shutil.rmtree(failed)


def test_a_disk_that_stays_full(tmp_path: Path) -> None:
    """Shards larger than a file may be: every checkpoint fails, training goes on to the end, and says so."""
    write_data(tmp_path, width=20_000)
    engine = make_engine(tmp_path, CONFIG, width=20_000, evaluations=())
    out = tmp_path / "out"

    def work() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        result = run(engine, options(out))
        assert result.error is not None
        assert result.error.code == "E-CKPT-005"
        return result.code

    assert in_child(work) == 4
    assert [event["step"] for event in events(out, "step")] == [0, 1, 2, 3, 4, 5]
    assert [event["code"] for event in events(out, "warning")] == ["W-CKPT-001"] * 4  # the last is tried again
    assert events(out)[-1]["code"] == "E-CKPT-005"
    assert list((out / "checkpoints").iterdir()) == []


def test_events_wait_for_room(tmp_path: Path) -> None:
    from sexpgpu.runtime.events import EventStream

    path = tmp_path / "events.jsonl"

    def work() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
        reported: list[Diagnostic] = []
        stream = EventStream(path, 0, reported.append)
        for step in range(9):
            stream.write("annotation", step, name="n", data={})
        whole = path.read_bytes()
        assert whole.endswith(b"\n")
        assert 0 < whole.count(b"\n") < 9
        assert len(stream.waiting) == 9 - whole.count(b"\n")
        lost = stream.lost()
        assert lost is not None
        assert lost.diagnostic.code == "E-IO-004"
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        stream.write("annotation", 9, name="n", data={})
        assert [d.code for d in reported] == ["W-IO-001"]
        assert stream.lost() is None
        return 0

    assert in_child(work) == 0
    assert [event["step"] for event in events(tmp_path)] == list(range(10))


def limit_files(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize(("limit", "kept"), [(8_000, True), (5_000, False)])
def test_a_stream_without_room_is_a_failed_run_that_resumes_whole(limit: int, kept: bool, folder: Path) -> None:
    """Checkpoints carry the events that wait; where they have no room for them, the tensors come first."""
    engine = make_engine(folder, RunConfig(18, None, 1, precision="f64", checkpoint_every=1), evaluations=())
    whole, out = folder / "whole", folder / "out"
    assert run(engine, options(whole)).code == 0

    def work() -> int:
        limit_files(limit)
        result = run(engine, options(out))
        assert result.error is not None
        assert result.error.code == "E-IO-004"
        assert [d.code for d in result.warnings] == ["W-IO-001"]
        return result.code

    assert in_child(work) == 4
    assert [event["step"] for event in events(out, "step")] != list(range(18))
    assert events(out)[-1]["event"] != "close"
    assert status(out)["error"]["code"] == "E-IO-004"
    assert last_tensors(out) == last_tensors(whole)
    resumed = run(engine, options(out, resume="latest"))
    assert resumed.code == 0
    if kept:
        assert not resumed.warnings
        assert timeless(out) == timeless(whole)
    else:
        assert [d.code for d in resumed.warnings] == ["W-CKPT-005"]
    assert events(out)[-1]["state"] == "finished"


def test_which_checkpoints_are_surplus() -> None:
    steps = [900, 1000, 1100, 200, 99]
    assert surplus(steps, None, None, None) == []
    assert surplus(steps, 2, None, None) == [99, 200, 900]
    assert surplus(steps, 2, 100, None) == [99]
    assert surplus(steps, 1, None, 200) == [99, 900, 1000]


def test_retention(folder: Path) -> None:
    config = RunConfig(9, None, 1, precision="f64", checkpoint_every=1, keep=2, keep_every=4)
    engine = make_engine(folder, config, evaluations=())
    out = folder / "out"
    run(engine, options(out, steps=3))
    assert kept(out) == [2, 3]
    foreign = out / "checkpoints" / "step-00005000"
    shutil.copytree(out / "checkpoints" / "step-00000002", foreign)
    (foreign / INDEX).write_bytes(b"not of this run")
    shutil.move(foreign, out / "checkpoints" / "step-00000000")
    run(engine, options(out, resume=str(out / "checkpoints" / "step-00000003")))
    assert kept(out) == [0, 3, 4, 8, 9]  # 3 was resumed from; what cannot be read is left alone


def test_retention_never_outruns_a_failed_write(folder: Path) -> None:
    config = RunConfig(4, None, 1, precision="f64", checkpoint_every=1, keep=1)
    engine = make_engine(folder, config, evaluations=())
    out = folder / "out"
    run(engine, options(out, steps=2))

    def fail() -> None:
        raise OSError(errno.ENOSPC, "no space left")

    code = run_until_call(engine, options(out, resume="latest", steps=3), "fsync", 1, fail, lasting=True)
    assert code == 4
    assert kept(out) == [2]


def test_an_old_one_that_cannot_go_is_no_reason_to_stop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EPERM, "not permitted", str(path))

    monkeypatch.setattr("sexpgpu.runtime.keep.remove_checkpoint", refuse)
    config = RunConfig(2, None, 1, precision="f64", checkpoint_every=1, keep=1)
    result = run(make_engine(folder, config, evaluations=()), options(folder / "out"))
    assert result.code == 0
    assert [d.code for d in result.warnings] == ["W-CKPT-004"]
    assert kept(folder / "out") == [1, 2]


def test_leftovers_of_an_attempt_are_cleared(engine: NumpyEngine, folder: Path) -> None:
    out = folder / "out"
    stale = out / "checkpoints" / "step-00000002"
    stale.mkdir(parents=True)
    (stale / "tensors-0000-dead.safetensors").write_bytes(b"half")
    (stale / f"{INDEX}.dead.tmp").write_bytes(b"{")
    assert run(engine, options(out, resume="latest")).code == 0
    assert sorted(path.name for path in stale.iterdir()) == sorted([INDEX, *verify(stale)["files"]])


def test_a_run_without_a_cadence_keeps_its_end(folder: Path) -> None:
    engine = make_engine(folder, evolve(CONFIG, checkpoint_every=None))
    run(engine, options(folder / "out"))
    assert kept(folder / "out") == [6]
