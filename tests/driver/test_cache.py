"""Plans kept on disk: a run with one is a run without, and a bad cache is no cache."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.driver import planning
from sexpgpu.driver.compile import Compilation, finish
from sexpgpu.driver.planning import preparing
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.plan.store import digest, load
from tests.smoke import ROOT, link_data, smoke_text, train
from tests.trace.experiments import write

CLOCKS = ("time", "seconds", "nonce", "run", "step_seconds", "records_per_second", "peak_bytes", "held_bytes")
"""What two runs of one experiment need not share."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cached")
    link_data(folder)
    return folder


@pytest.fixture
def file(request: pytest.FixtureRequest, folder: Path) -> Path:
    """An example at smoke size, moons where a test does not say which."""
    file = folder / f"{getattr(request, 'param', 'moons')}.sx"
    file.write_text(smoke_text(ROOT / "examples" / file.name), "utf-8")
    return file


both = pytest.mark.parametrize("file", ["moons", "char-lstm"], indirect=True)
"""A network in f64, and a loop over characters in f32."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that SEXPGPU_CACHE names, not there yet."""
    monkeypatch.setenv("SEXPGPU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@contextmanager
def counted(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The pipelines that run within the block."""
    ran: list[str] = []

    def counting(done: Compilation, pipeline: str) -> None:
        ran.append(pipeline)
        finish(done, pipeline)

    with patch.context() as inner:
        inner.setattr(planning, "finish", counting)
        yield ran


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.plan"))


def told(file: Path) -> list[Any]:
    """What the events of a run say but for clocks and memory."""
    run = file.with_name(f"run-{file.stem}")
    if run.exists():
        run.rename(run.with_name(f"run-{file.stem}-{len(list(run.parent.glob('run-*')))}"))
    result, events = train(file.read_text("utf-8"), file, 3)
    assert result.error is None, result.error
    return [without_clocks(event) for event in events]


def without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_clocks(v) for k, v in value.items() if k.rpartition("/")[2] not in CLOCKS}
    return value


@both
def test_events_of_a_hit_are_those_of_a_miss(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch) as ran:
        first = told(file)
        assert len(ran) == len(entries(cache)) == 1
        second = told(file)
        assert len(ran) == 1, "the second run found the plan"
    monkeypatch.setenv("SEXPGPU_CACHE", "off")
    assert first == second == told(file)
    assert len(entries(cache)) == 1


def compiled(file: Path) -> tuple[dict[str, str], Any, int]:
    """The digests of a file's plans, its experiment in words, and how many passes ran."""

    def compile_it() -> tuple[dict[str, str], Any, int]:
        with preparing(file, Selection("smoke")) as done:
            assert done.plans is not None
            plans = {name: digest(plan) for name, plan in done.plans.items()}
            return plans, re.sub("0x[0-9a-f]+", "", str(done.experiment)), len(done.timings)

    return run_deep(compile_it)


@both
def test_the_experiment_and_the_plans_of_a_hit_are_those_of_a_miss(file: Path, cache: Path) -> None:
    plans, experiment, passes = compiled(file)
    assert passes > 0
    assert compiled(file) == (plans, experiment, 0)


def dumped(file: Path, into: Path, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """The stages that SEXPGPU_DUMP writes, by name; the index without what each pass took."""
    with patch.context() as inner:
        inner.setenv("SEXPGPU_DUMP", str(into))
        compiled(file)
    texts = {path.name: path.read_text("utf-8") for path in into.iterdir()}
    index = json.loads(texts["index.json"])
    for stage in index["stages"]:
        del stage["ms"]
    return {**texts, "index.json": json.dumps(index)}


@both
def test_dumps_are_the_same_with_a_warm_cache(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = dumped(file, cache.with_name("cold"), monkeypatch)
    assert len(cold) > 5
    assert not entries(cache), "who looks at the passes keeps nothing"
    compiled(file)
    assert compiled(file)[2] == 0
    assert dumped(file, cache.with_name("warm"), monkeypatch) == cold


@pytest.mark.parametrize("change", ["the text", "a pass", "the code"])
def test_what_a_plan_is_made_from_decides_whether_it_is_found(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    file = folder / "changing.sx"
    file.write_text(smoke_text(ROOT / "examples/moons.sx"), "utf-8")
    compiled(file)
    match change:
        case "the text":
            file.write_text(file.read_text("utf-8").replace("(width 4)", "(width 5)"), "utf-8")
        case "a pass":
            monkeypatch.setattr(planning, "whole", lambda device: "shared")
        case _:
            monkeypatch.setattr(planning, "code_digest", lambda: "other code")
    assert compiled(file)[2] > 0
    assert len(entries(cache)) == 2


def test_the_records_of_a_plan_are_part_of_its_code() -> None:
    digested = {path.name for path in planning.code_files()}
    assert {"records.py", "experiment.py", "tensortype.py", "record.py", "fuse.py", "opdef.py"} <= digested


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "folder"])
def test_a_damaged_entry_is_made_again(file: Path, cache: Path, damage: str) -> None:
    plans, experiment, _ = compiled(file)
    (entry,) = entries(cache)
    content = entry.read_bytes()
    match damage:
        case "cut":
            entry.write_bytes(content[:-100])
        case "empty":
            entry.write_bytes(b"")
        case "noise":
            entry.write_bytes(content[:100] + os.urandom(len(content) - 100))
        case _:
            entry.unlink()
            entry.mkdir()
    again = compiled(file)
    assert again[:2] == (plans, experiment)
    assert again[2] > 0
    assert compiled(file)[2] == (again[2] if damage == "folder" else 0), "a folder of that name stays in the way"
    assert not list(cache.glob("*.part"))


def test_an_entry_that_cannot_be_touched_is_found(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans, experiment, _ = compiled(file)

    def refused(*given: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refused)
    assert compiled(file) == (plans, experiment, 0)
    assert load(cache, entries(cache)[0].stem) is not None


@pytest.mark.parametrize("obstacle", ["a file", "below a file", "refused"])
def test_a_cache_that_cannot_be_written_changes_nothing(
    file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    monkeypatch.setenv("SEXPGPU_CACHE", "off")
    wanted = compiled(file)
    blocked = cache
    if obstacle == "refused":
        cache.mkdir()

        def refused(*given: object, **options: object) -> None:
            raise PermissionError(30, "Read-only file system")

        monkeypatch.setattr("tempfile.mkstemp", refused)
    else:
        cache.write_text("no folder", "utf-8")
        blocked = cache / "inside" if obstacle == "below a file" else cache
    monkeypatch.setenv("SEXPGPU_CACHE", str(blocked))
    assert compiled(file) == wanted
    assert compiled(file) == wanted


def test_two_processes_at_once_keep_one_plan(file: Path, cache: Path) -> None:
    outs = [file.with_name(f"at-once-{file.stem}-{number}") for number in range(3)]
    line = [sys.executable, "-m", "sexpgpu", "run", str(file), "--variant", "smoke", "--quiet", "--out"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [subprocess.Popen([*line, str(out)], env=environment) for out in outs[:2]]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    assert len(entries(cache)) == 1
    assert not list(cache.glob("*.part"))
    subprocess.run([*line, str(outs[2])], env=environment, check=True, timeout=300)
    texts = [(out / "events.jsonl").read_text("utf-8").splitlines() for out in outs]
    events = [[without_clocks(json.loads(line)) for line in lines] for lines in texts]
    assert events[0] == events[1] == events[2]


def test_a_folder_that_keeps_nothing_is_told_once(tmp_path: Path) -> None:
    """A file in the folder's place, or a system that makes none, for a superuser as well; where it is off, or can be
    made, nothing is said.
    """
    (tmp_path / "taken").write_text("", "utf-8")
    write(tmp_path)
    for cache, said in (
        ("taken", 1),
        ("taken/below", 1),
        ("/proc/none", 1),
        ("/proc", 1),
        ("off", 0),
        ("new/below", 0),
    ):
        environment = {**os.environ, "SEXPGPU_CACHE": cache}
        command = [sys.executable, "-m", "sexpgpu", "diff", "experiment.sx", "experiment.sx"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "identical\n")
        assert done.stderr.count("warning[W-IO-002]") == said, done.stderr
        reason = "/proc cannot be written" if cache.startswith("/proc") else "taken is no folder"
        assert (reason in done.stderr) == bool(said)
