"""Microbatches that find no memory: tried once more, and the run ends where that does not help or happens too often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from sexpgpu.diag import SxError
from sexpgpu.experiment import RunConfig
from sexpgpu.runtime.arrays import HostArrays, NoMemory
from sexpgpu.runtime.planned import Captured, Planned, peak_line
from sexpgpu.runtime.room import Retry
from sexpgpu.runtime.run import run
from tests.runtime.line_fit import NumpyEngine, make_engine, options
from tests.runtime.reading import events, last_tensors

GIB = 1 << 30


@define
class Small(HostArrays):
    """Arrays of a device that says what was planned; `released` counts how often it was to let go."""

    released: int = 0
    told: list[int] = field(factory=list)

    @property
    def planned(self) -> Planned:
        return Planned({"parameters": GIB, "arena": 2 * GIB}, {"phase": "microbatches", "graph": "train"})

    def free_bytes(self) -> int | None:
        return GIB

    def refusals(self) -> list[int]:
        told, self.told = self.told, []
        return told

    def release(self) -> None:
        self.released += 1


def attempts(retry: Retry, *answers: bool) -> int:
    """Run one microbatch a call; a False answer is one that finds no memory."""
    left = iter(answers)

    def call() -> int:
        if not next(left):
            raise NoMemory(512 << 20)
        return 7

    return retry.run(4, range(2, 3), call)


def test_a_microbatch_is_tried_once_more() -> None:
    arrays = Small()
    assert attempts(Retry(arrays), False, True) == 7
    assert arrays.released == 1


def test_the_second_failure_ends_the_run() -> None:
    with pytest.raises(SxError) as raised:
        attempts(Retry(Small()), False, False)
    told = raised.value.diagnostic
    assert told.code == "E-MEM-003"
    assert "step 4, microbatch 2" in told.message
    assert (told.expected, told.actual) == ("a block of 512.0 MiB", "3.0 GiB planned, 1.0 GiB free")


def test_a_stacked_call_is_one_attempt() -> None:
    def call() -> int:
        raise NoMemory(1 << 20)

    with pytest.raises(SxError, match="step 4, microbatches 4 to 7: the device has no memory for it; it was tried"):
        Retry(Small()).run(4, range(4, 8), call)


def test_the_third_in_a_row_ends_the_run() -> None:
    retry = Retry(Small())
    for _ in range(2):
        assert attempts(retry, False, True) == 7
    assert attempts(retry, True) == 7
    for _ in range(2):
        assert attempts(retry, False, True) == 7
    with pytest.raises(SxError) as raised:
        attempts(retry, False, True)
    assert raised.value.diagnostic.code == "E-MEM-003"


class Refusing:
    """The train function of a line, which finds no memory at the calls in `when`."""

    def __init__(self, function: Any, arrays: Small, *when: int) -> None:
        self.function, self.arrays, self.when, self.calls = function, arrays, when, 0

    def __call__(self, *inputs: Any) -> Any:
        self.calls += 1
        if self.calls in self.when:
            self.arrays.told.append(1 << 20)
            raise NoMemory(1 << 20)
        return self.function(*inputs)


def engine_of(folder: Path, arrays: Small, *when: int) -> NumpyEngine:
    engine = make_engine(folder, RunConfig(3, None, 2, precision="f64"), order="sequential", evaluations=())
    graph = engine.experiment.train_graph
    engine.functions[graph] = Refusing(engine.functions[graph], arrays, *when)
    return engine


def test_a_run_with_a_refusal_ends_as_one_without_and_says_so(folder: Path) -> None:
    whole, spoilt = Small(), Small()
    assert run(engine_of(folder, whole), options(folder / "whole"), whole).code == 0
    assert run(engine_of(folder, spoilt, 2), options(folder / "spoilt"), spoilt).code == 0
    assert last_tensors(folder / "spoilt") == last_tensors(folder / "whole")
    notes = [e["data"] for e in events(folder / "spoilt", "annotation") if e["name"] == "memory"]
    parts, peak = {"parameters": GIB, "arena": 2 * GIB}, {"phase": "microbatches", "graph": "train"}
    assert notes[0] == {"planned": 3 * GIB, "free": GIB, "parts": parts, "peak": peak}
    assert notes[1] == {"refused": 1 << 20, "free": GIB}
    assert notes[-1]["planned"] == 3 * GIB


def test_a_run_without_memory_stops_with_its_error(folder: Path) -> None:
    arrays = Small()
    result = run(engine_of(folder, arrays, 3, 4), options(folder / "out"), arrays)
    assert result.code == 1
    assert result.error is not None
    assert result.error.code == "E-MEM-003"
    assert "step 1, microbatch 0" in result.error.message


def test_the_peak_is_told_against_the_plan() -> None:
    assert peak_line(2867 << 20, 2816 << 20, None) == "memory: peak 2.8 GiB of 2.8 GiB planned (+1.8%)"
    told = peak_line(1 << 20, 2 << 20, Captured(held=1 << 10, peak=2 << 20, reserved=256 << 20))
    assert told == "memory: peak 1.0 MiB of 2.0 MiB planned (-50.0%); captured launches 2.0 MiB of 256.0 MiB reserved"
