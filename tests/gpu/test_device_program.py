"""Plans of launches on the simulated device: arguments, constants, loops, copied results, captured calls."""

from __future__ import annotations

import numpy as np
import pytest

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.experiment import Graph, Input, Output
from sexpgpu.gpu.memory import DeviceArray
from sexpgpu.gpu.program import DeviceProgram
from sexpgpu.gpu.transfer import upload
from sexpgpu.plan.arena import aligned
from sexpgpu.plan.build import askew_bytes
from sexpgpu.plan.records import At, Given, GraphPlan, Into, Memory, Slot, Step, Turns
from tests.gpu.devices import Simulated, compiled, type_of

VECTOR = type_of((96,))
NUMBER = type_of(())


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a_graph_of_kernels_and_constants() -> None:
    plans = compiled(
        [VECTOR, NUMBER],
        lambda b, v: (v[0] * 2.5 + b("broadcast", v[1], shape=(96,)), b("square", v[0])),
    )
    x, a = numbers((96,)), np.array(0.75, np.float32)
    total, square = Simulated().program(plans)([x, a])
    assert np.allclose(total.numpy(), x * np.float32(2.5) + a, rtol=1e-6)
    assert np.array_equal(square.numpy(), x * x)


def test_results_may_be_arguments_and_views_of_them() -> None:
    plans = compiled(
        [type_of((4, 24))],
        lambda b, v: (
            v[0],
            b("reshape", v[0], shape=(96,)),
            b("transpose", v[0], perm=(1, 0)),
            b("slice", v[0], start=(0, 0), stop=(2, 24), step=(1, 1)),
            b("slice", v[0], start=(1, 4), stop=(4, 20), step=(1, 2)),
            b("flip", v[0], axes=(1,)),
            b("neg", v[0]),
        ),
    )
    x = numbers((4, 24))
    wanted = [x, x.reshape(96), x.T, x[:2], x[1:4, 4:20:2], x[:, ::-1], -x]
    for found, array in zip(Simulated().program(plans)([x]), wanted, strict=True):
        assert np.array_equal(found.numpy(), array)


def test_bf16_values_are_rounded_on_the_device() -> None:
    half = type_of((64,), "bf16")
    plans = compiled([half, half], lambda b, v: (v[0] + v[1],))
    x, y = np.full(64, 256.0, np.float32), np.full(64, 1.0, np.float32)
    (total,) = Simulated().program(plans)([x, y])
    assert total.numpy().tolist() == [256.0] * 64


def test_results_lie_where_the_caller_says() -> None:
    plans = compiled([VECTOR], lambda b, v: (b("neg", v[0]),))
    device = Simulated()
    target = device.pool.array(VECTOR)
    x = numbers((96,))
    (result,) = device.program(plans)([x], [target])
    assert result is target
    assert np.array_equal(target.numpy(), -x)


def test_parts_of_arrays_that_lie_askew_are_given_straight() -> None:
    odd = type_of((3, 5))
    plans = compiled([type_of((5,))], lambda b, v: (b("neg", v[0]),))
    device = Simulated()
    x = numbers((3, 5))
    rows = upload(device.pool, x, odd)
    assert rows[1].address % 16
    (result,) = device.program(plans)([rows[1]])
    assert np.array_equal(result.numpy(), -x[1])


def test_an_input_of_another_type_is_refused() -> None:
    plans = compiled([VECTOR], lambda b, v: (b("neg", v[0]),))
    device = Simulated()
    with pytest.raises(ValueError, match="f32"):
        device.program(plans)([upload(device.pool, numbers((4,)), type_of((4,)))])


def two_kernels() -> tuple[Simulated, DeviceProgram, list[DeviceArray]]:
    """A program of two launches, since its results differ in shape, and its arguments."""
    short = type_of((64,))
    plans = compiled([VECTOR, short], lambda b, v: (b("neg", v[0]), b("square", v[1])))
    device = Simulated()
    given = [upload(device.pool, numbers((96,)), VECTOR), upload(device.pool, numbers((64,), 1), short)]
    return device, device.program(plans), given


def targets(device: Simulated) -> list[DeviceArray]:
    return [device.pool.array(VECTOR), device.pool.array(type_of((64,)))]


def test_repeated_addresses_are_captured_and_give_the_same() -> None:
    device, program, given = two_kernels()
    into = targets(device)
    for seed in range(4):
        device.driver.copy_in(given[0].address, numbers((96,), seed))
        negative, square = program(given, into)
        assert np.array_equal(negative.numpy(), -numbers((96,), seed))
        assert np.array_equal(square.numpy(), numbers((64,), 1) ** 2)
    assert program.captured == 1


def recurrence(b: Builder, v: list[Val]) -> list[Val]:
    """state · decay + row, and twice that."""
    state = v[0] * b("broadcast", v[2], shape=v[0].type.shape) + v[1]
    return [state, state * 2.0]


def over_rows(body: GraphPlan, reverse: bool, turns: int, width: int) -> GraphPlan:
    """A loop over the rows of an argument; its body lies behind the first 64 bytes of the arena."""
    row, rows = type_of((width,)), type_of((turns, width))
    spec = Graph(
        "loop",
        "loop",
        (Input("param", "s", row), Input("field", "x", rows), Input("ctx", "decay", NUMBER)),
        (Output("value", "last", row), Output("value", "rows", rows)),
    )
    given = (Slot(row, Given(0)), Slot(rows, Given(1)), Slot(NUMBER, Given(2)))
    slots = (*given, Slot(row, Into(0)), Slot(rows, Into(1)))
    assert body.memory is not None
    size = body.memory.arena + 2 * aligned(row.nbytes) + 2 * askew_bytes(row)
    how = Turns(1, (0,), (0,), reverse, turns)
    step = Step("scan", (0, 1, 2), (3, 4), how=how, bodies=(body,), workspace=(64, size))
    return GraphPlan(spec, slots, (step,), (), (3, 4), Memory(64 + size, 0, 0))


@pytest.mark.parametrize("turns", [1, 2, 5])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("width", [96, 6], ids=["straight", "askew"])
def test_a_loop_reads_rows_and_keeps_its_state(reverse: bool, turns: int, width: int) -> None:
    """Rows of six numbers do not all begin where vectors may."""
    plans = compiled([type_of((width,)), type_of((width,)), NUMBER], recurrence)
    plan = over_rows(plans.plans["f"], reverse, turns, width)
    start, x, decay = numbers((width,)), numbers((turns, width), 1), np.array(0.5, np.float32)
    last, rows = Simulated().program(plans, plan)([start, x, decay])
    state, wanted = start, np.empty_like(x)
    for turn in reversed(range(turns)) if reverse else range(turns):
        state = state * decay + x[turn]
        wanted[turn] = state * 2
    assert np.allclose(last.numpy(), state, rtol=1e-6)
    assert np.allclose(rows.numpy(), wanted, rtol=1e-6)


def plan_of_one(slot: Slot, result: int) -> GraphPlan:
    spec = Graph("g", "g", (Input("field", "x", VECTOR),), (Output("value", "y", slot.type),))
    return GraphPlan(spec, (Slot(VECTOR, Given(0)), slot), (), (), (result,), Memory(0, 0, 0))


def test_a_step_without_kernels_is_refused() -> None:
    plans = compiled([VECTOR], lambda b, v: (b("neg", v[0]),))
    plan = plan_of_one(Slot(VECTOR, At(0)), 1)
    spoilt = GraphPlan(plan.spec, plan.slots, (Step("exp", (0,), (1,)),), (), (1,), Memory(384, 0, 0))
    with pytest.raises(ValueError, match="no kernel runs exp"):
        Simulated().program(plans, spoilt)([numbers((96,))])
