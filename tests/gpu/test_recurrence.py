"""Loops whose turns compute every element by itself are one kernel; others are kernels a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.loops import Loop, call_loop, close_body, new_body
from sexpgpu.dialects.signature import type_of
from sexpgpu.plan.records import Launches, Turns
from sexpgpu.sim import Checks
from tests.gpu.agreement import Build, agrees
from tests.gpu.kernels import FUSED, Device

Turn = Callable[[Builder, list[Val]], Sequence[Val]]


def looped(
    turn: Turn, states: int, items: Sequence[int], outs: Sequence[int], types: Sequence[str], reverse: bool = False
) -> Build:
    """A loop over its arguments, whose body is what `turn` makes of arguments of `types`."""

    def build(b: Builder, given: Sequence[Val]) -> Sequence[Val]:
        module = b.ip.block.owner.operation.parent.operation
        loop = Loop("", states, tuple(items), tuple(outs), reverse)
        symbol, block = new_body(module, b, "turn", loop.body_types([v.type for v in given]))
        inner = Builder(b.context, ir.InsertionPoint(block), b.location)
        made = turn(inner, [Val(inner, a, type_of(a)) for a in block.arguments])
        close_body(block, [v.value for v in made], b.location)
        return call_loop(b, module, Loop(symbol, states, tuple(items), tuple(outs), reverse), "loop", list(given))

    return build


def gated(b: Builder, v: list[Val]) -> list[Val]:
    """h <- a h + (1 - a) x, and tanh of it; the decay is that of a channel."""
    h, x, decay = v
    a = b("broadcast", b("sigmoid", decay), shape=h.type.shape)
    following = a * h + (1.0 - a) * x
    return [following, b("tanh", following)]


def one_kernel(device: Device) -> Launches:
    """The launch of the only step that computes anything."""
    steps = [step for step in device.plan.steps if isinstance(step.how, Launches | Turns)]
    (step,) = steps
    assert isinstance(step.how, Launches)
    assert len(step.how.kernels) == 1
    return step.how


@pytest.mark.parametrize("turns", [1, 3, 4, 9])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_a_recurrence_is_one_kernel(dtype: str, turns: int) -> None:
    shapes = [f"{dtype}[3, 37]", f"{dtype}[{turns}, 3, 37]", f"{dtype}[37]"]
    one_kernel(agrees(shapes, looped(gated, 1, [0], [0], shapes)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("item", "out"), [(0, 2), (1, 0), (2, 1)])
def test_turns_may_run_along_any_axis_and_backwards(item: int, out: int, reverse: bool) -> None:
    shape = [3, 40]
    shape.insert(item, 6)
    shapes = ["f32[3, 40]", f"f32{shape}", "f32[40]"]
    one_kernel(agrees(shapes, looped(gated, 1, [item], [out], shapes, reverse)))


def test_blocks_of_many_elements_race_with_nothing() -> None:
    shapes = ["f32[40, 300]", "f32[5, 40, 300]", "f32[300]"]
    checks = Checks.every(race=3)
    launches = one_kernel(agrees(shapes, looped(gated, 1, [0], [0], shapes), checks=checks))
    assert launches.kernels[0].grid[0] > 1


def test_several_states_and_an_out_that_no_state_is_in() -> None:
    def turn(b: Builder, v: list[Val]) -> list[Val]:
        first, second, x, y = v
        moved = b("transpose", y, perm=(1, 0))  # of an item any element may be read
        return [second, first * x + moved, x - moved]

    shapes = ["f32[4, 6]", "f32[4, 6]", "f32[5, 4, 6]", "f32[5, 6, 4]"]
    one_kernel(agrees(shapes, looped(turn, 2, [0, 0], [0], shapes)))


def test_a_view_is_read_where_it_lies() -> None:
    shapes = ["f32[3, 40]", "f32[3, 40, 7]", "f32[40]"]

    def build(b: Builder, v: Sequence[Val]) -> Sequence[Val]:
        seen = b("transpose", v[1], perm=(2, 0, 1))
        return looped(gated, 1, [0], [0], shapes)(b, [v[0], seen, v[2]])

    one_kernel(agrees(shapes, build))


@pytest.mark.parametrize("what", ["a product", "another place", "a sum"])
def test_a_loop_whose_turns_look_at_other_elements_stays_one(what: str) -> None:
    def turn(b: Builder, v: list[Val]) -> list[Val]:
        h, x = v
        if what == "a product":
            return [b("tanh", b("matmul", h, x))]
        if what == "another place":
            return [b("flip", h, axes=(1,)) + x]
        return [h + b("broadcast", b("sum", h * x, axes=(1,), keepdims=True), shape=h.type.shape)]

    shapes = ["f32[4, 4]", "f32[5, 4, 4]"]
    device = agrees(shapes, looped(turn, 1, [0], [], shapes), passes=FUSED)
    assert any(isinstance(step.how, Turns) for step in device.plan.steps)


@pytest.mark.parametrize("types", [("f32[3]", "f32[0, 3]", "f32[3]"), ("f32[0]", "f32[4, 0]", "f32[0]")])
def test_no_turns_and_no_elements(types: Sequence[str]) -> None:
    agrees(types, looped(gated, 1, [0], [0], types))
