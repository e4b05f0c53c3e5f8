"""Gradients on their way to other machines: rounded on the device, what that takes carried on, and memory for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.driver.device import DeviceEngine
from sexpgpu.driver.device_memory import device_needs, gradient_types
from sexpgpu.gpu.memory import SMALL
from sexpgpu.gpu.transport import DeviceTransport, transport_bytes
from sexpgpu.runtime.meeting import Place
from sexpgpu.runtime.message import Sent
from sexpgpu.runtime.peers import Gradients, Peers
from tests.gpu.stacked import prepared
from tests.trace.experiments import write

Arrays = dict[str, np.ndarray]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DeviceEngine]:
    with prepared(write(tmp_path, run="(defrun :steps 1 :microbatches 2 :seed 1)")) as (done, device, team):
        own = team.calls[0].engine
        assert isinstance(own, DeviceEngine)
        assert device.pool is not None
        yield DeviceEngine(done, own.plans, device.pool, "sim", device.chip, own.planned, rounding=True)


def gradients(engine: DeviceEngine, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    types = gradient_types(engine.experiment)
    return {name: rng.normal(size=type.shape).astype(np.float32) for name, type in types.items()}


def sent(engine: DeviceEngine, transport: DeviceTransport, arrays: Arrays) -> Arrays:
    """What other machines read of what the transport rounds."""
    bits = transport.rounded(engine.arrays.place(arrays, {}))
    return {name: Sent("gradient", name, 0, 1, each, True).values for name, each in bits.items()}


def test_what_rounding_takes_is_added_to_the_next_gradient(engine: DeviceEngine) -> None:
    transport = DeviceTransport(engine.arrays, gradient_types(engine.experiment), True)
    first, second, third = (gradients(engine, seed) for seed in range(3))
    lacking: Arrays = {name: np.zeros_like(array) for name, array in first.items()}
    for arrays, kept in ((first, True), (second, False), (third, True), (first, True)):
        found = sent(engine, transport, arrays)
        for name, array in arrays.items():
            whole = array + lacking[name]
            assert np.array_equal(found[name], round_bf16(whole)), name
            if kept:  # a step that is refused leaves what there was
                lacking[name] = whole - round_bf16(whole)
        if kept:
            transport.commit()


def test_sums_come_back_as_they_are(engine: DeviceEngine) -> None:
    transport = DeviceTransport(engine.arrays, gradient_types(engine.experiment), False)
    sums = gradients(engine, 5)
    for name, placed in transport.placed(sums).items():
        assert np.array_equal(placed.numpy(), sums[name])
        assert placed.type.nbytes <= SMALL or placed.address % 256 == 0


def test_what_came_back_stays_when_the_next_sums_come(engine: DeviceEngine) -> None:
    """An update of many parameters writes these over their gradients."""
    transport = DeviceTransport(engine.arrays, gradient_types(engine.experiment), False)
    sums = gradients(engine, 5)
    first = transport.placed(sums)
    transport.placed(gradients(engine, 6))
    for name, placed in first.items():
        assert np.array_equal(placed.numpy(), sums[name])


@pytest.mark.parametrize("rounding", [False, True])
def test_its_memory_is_what_was_said(engine: DeviceEngine, rounding: bool) -> None:
    """The errors of small tensors are among other small arrays, which are counted by themselves."""
    types = {name: type for name, type in gradient_types(engine.experiment).items() if type.nbytes > 16}
    before = engine.pool.live
    transport = DeviceTransport(engine.arrays, types, rounding)
    assert engine.pool.live - before == transport_bytes(types, rounding)
    assert transport.types is types


@pytest.mark.parametrize(("how", "parts"), [("f32", 1), ("bf16", 3)])
def test_the_plan_counts_it_where_there_are_other_machines(engine: DeviceEngine, how: Gradients, parts: int) -> None:
    """Sums, and in bf16 what is sent and what that lacks: 256 bytes each, and as many for the errors of two tensors."""
    experiment, plans = engine.experiment, engine.plans
    assert "collective buffers" not in device_needs(experiment, plans).parts
    peers = Peers(1, 2, how, Place("127.0.0.1", 1, 1))
    planned = device_needs(experiment, plans, peers)
    assert planned.parts["collective buffers"] == transport_bytes(gradient_types(experiment), how == "bf16")
    kept = planned.parts.get("new rounding errors", 0)
    assert planned.total == device_needs(experiment, plans).total + planned.parts["collective buffers"] + kept
    assert planned.parts["collective buffers"] >= 256 * parts
