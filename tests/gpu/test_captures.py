"""Calls that are kept as one: which are captured, which go when room is short, and how much is set aside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sexpgpu.experiment import Graph
from sexpgpu.gpu.captures import ALTERNATE, LARGE, LAUNCH, SMALL, Captures, Queued, launches_of, reservation
from sexpgpu.gpu.driver import Command, Copy
from sexpgpu.gpu.memory import Pool
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.plan.records import GraphPlan, Launch, Launches, Step, Turns

COMMANDS = 3
NBYTES = COMMANDS * 16


class Counting(SimDriver):
    """Counts what was captured."""

    captured = 0

    def capture(self, commands: Iterable[Command], uploads: int) -> tuple[Any, int]:
        self.captured += 1
        return super().capture(commands, uploads)


class Calls:
    """Copies of four bytes on a simulated device, named by the owner and the number of a call."""

    def __init__(self, reserved: int) -> None:
        self.driver = Counting()
        self.pool = Pool(self.driver)
        self.captures: Captures = self.pool.stream.captures
        self.captures.reserved = reserved
        self.block = self.pool.block(1 << 12)
        self.ran = 0

    def __call__(self, *numbers: int, owner: object = "train") -> bool:
        """Whether the calls with these numbers were launched as one. What they copy has to be there afterwards."""
        self.ran += 1
        before = self.captures.replayed
        source = self.block.address
        self.driver.copy_in(source, np.array([self.ran], np.int32))
        self.captures.run([Queued(owner, bytes([number]), self.copies(number)) for number in numbers])
        found = np.zeros(1, np.int32)
        for target in [target for number in numbers for target in self.targets(number)]:
            self.driver.copy_out(found, target)
            assert found[0] == self.ran
        return self.captures.replayed == before + 1

    def targets(self, number: int) -> list[int]:
        return [self.block.address + 256 * (1 + number % 4) + 8 * place for place in range(COMMANDS)]

    def copies(self, number: int) -> list[Command]:
        return [Copy(np.array([target, self.block.address], np.uint64), 4) for target in self.targets(number)]


def test_a_call_is_captured_when_its_addresses_come_again() -> None:
    calls = Calls(SMALL)
    assert [calls(0), calls(0), calls(0), calls(1), calls(0)] == [False, True, True, False, True]
    assert calls.captures.count("train") == 1
    assert (calls.captures.held, calls.captures.peak) == (NBYTES, NBYTES)


def test_those_that_came_no_more_make_room() -> None:
    calls = Calls(2 * NBYTES)
    for number in (0, 0, 1, 1, 2, 3, 2, 3, 2, 3):
        calls(number)
    assert calls(2)
    assert calls(3)
    assert not calls(0)
    assert calls.captures.held == 2 * NBYTES == calls.captures.peak


def test_calls_in_full_swing_do_not_take_each_others_place() -> None:
    """Three calls by turns with room for two: two stay captured, and the third is never captured again."""
    calls = Calls(2 * NBYTES)
    replayed = [calls(number) for _ in range(8) for number in range(3)]
    assert replayed[-3:] == [True, True, False]
    assert calls.driver.captured == 3


def test_calls_that_come_together_are_captured_as_one() -> None:
    calls = Calls(SMALL)
    assert [calls(0, 1), calls(1, 0), calls(0, 1), calls(0, 1), calls(0)] == [False, False, True, True, False]
    assert calls.driver.captured == 1
    assert calls.captures.count("train") == 1


def test_what_comes_between_two_steps_does_not_make_them_forgotten() -> None:
    """As the batches of an evaluation, each of which puts its metrics elsewhere."""
    calls = Calls(SMALL)
    for step in range(3):
        assert calls(0, 1) == (step > 0)
        for batch in range(1000):
            calls.captures.run([Queued("eval", bytes(f"{step} {batch}", "ascii"), calls.copies(2))])


def test_where_all_have_no_room_together_each_is_captured() -> None:
    """Here for two of three."""
    calls = Calls(2 * NBYTES)
    for _ in range(4):
        before = calls.captures.replayed
        calls(0, 1, 2)
    assert calls.captures.replayed == before + 2
    assert calls.captures.held == 2 * NBYTES


def test_what_one_owner_had_is_forgotten() -> None:
    calls = Calls(SMALL)
    for owner in ("train", "eval"):
        calls(0, owner=owner)
        calls(0, owner=owner)
    calls.captures.forget("train")
    assert calls.captures.count("train") == 0
    assert calls.captures.held == NBYTES
    assert calls(0, owner="eval")
    assert not calls(0, owner="train")


def plan(*steps: Step) -> GraphPlan:
    return GraphPlan(Graph("train", "train", (), ()), (), steps, (), (), None)


def launching(count: int) -> Step:
    kernel = Launch("k", (1, 1, 1), (32, 1, 1), 0, ())
    return Step("fused", (), (), how=Launches((kernel,) * count))


def test_large_graphs_have_more_set_aside() -> None:
    loop = Step("scan", (), (), how=Turns(1, (), (), False, 1000), bodies=(plan(launching(3)),))
    assert launches_of(plan(launching(2), loop)) == 3002
    most = SMALL // LAUNCH // ALTERNATE
    assert reservation(most) == SMALL
    assert reservation(most + 1) == LARGE
