"""Every operation of the table by each of its samples, between elementwise neighbours and, where the tests of no
family do so, alone: the kernels give on the simulator what the interpreter gives.

The samples of an operation go through one module, side by side: one compilation, kernels of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from attrs import frozen

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array, Composite, Index, OpDef, Random, Sample, numpy_dtype
from sexpgpu.dialects.ops import OPS
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.base import graphs
from sexpgpu.sim import Checks
from sexpgpu.tensortype import TensorType
from tests.building import function
from tests.gpu.agreement import same
from tests.gpu.kernels import ALONE, FUSED, Device

LARGEST = 1000
"""Elements of a sample's operand: larger ones say something of strides to a CPU, and take the simulator long."""
WORD = {"f64": "neg", "f32": "neg", "bf16": "neg", "i64": "neg", "i32": "neg", "u8": "neg", "bool": "logical_not"}
"""The neighbour of each dtype, its own inverse."""


@frozen(eq=False)
class Case:
    """A sample with what it is given; `inverse` are its operands as its neighbours take them."""

    sample: Sample
    arrays: list[Array]

    @property
    def inverse(self) -> list[Array]:
        return [np.logical_not(x) if x.dtype == bool else np.negative(x) for x in self.arrays]


def case_of(op: OpDef, sample: Sample) -> Case:
    """Floats from the sample's domain, indices from its range; what a forward pass saves is what that gives."""
    rng = np.random.default_rng(8)
    arrays: list[Array] = []
    for operand, type in zip(op.operands, sample.types, strict=True):
        if type.is_float:
            array = np.asarray(rng.uniform(*sample.domain, type.shape), numpy_dtype(type.dtype))
            arrays.append(round_bf16(array) if type.dtype == "bf16" else array)
        else:
            high = 2**20 if operand == "counter" else sample.below
            arrays.append(np.asarray(rng.integers(high, size=type.shape), numpy_dtype(type.dtype)))
    if isinstance(op.kind, Composite) and op.kind.family == "attention" and op.kind.backward:
        bias = "bias" in op.operands
        at = [op.operands.index(name) for name in ("q", "k", "v", *(["bias"] if bias else []))]
        with np.errstate(all="ignore"):
            saved = OPS["attention_biased" if bias else "attention"].numpy(*[arrays[i] for i in at], **sample.attrs)
        for name, array in zip(("y", "lse"), saved, strict=True):
            place = op.operands.index(name)
            arrays[place] = round_bf16(array) if sample.types[place].dtype == "bf16" else array
    return Case(sample, arrays)


def turned(b: Builder, value: Val) -> Val:
    return b(WORD[value.type.dtype], value)


def agree(op: OpDef, cases: Sequence[Case], *, neighbours: bool) -> None:
    """Compile the samples side by side and compare what each gives."""
    # An argument that nothing reads: a graph without any is one for the host.
    types = [TensorType((), "f32"), *[type for case in cases for type in case.sample.types]]
    arrays: list[Array] = [np.zeros((), np.float32)]
    arrays += [array for case in cases for array in (case.inverse if neighbours else case.arrays)]

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        made: list[Val] = []
        left = list(values[1:])
        for case in cases:
            count = len(case.sample.types)
            given, left = left[:count], left[count:]
            if neighbours:
                given = [turned(b, value) for value in given]
            attrs = case.sample.attrs
            results = b.several(op.name, *given, **attrs) if op.results > 1 else [b(op.name, *given, **attrs)]
            made += [turned(b, value) for value in results] if neighbours else results
        return made

    with open_context() as context:
        module = function(context, types, build)
        with np.errstate(all="ignore"):
            wanted = [np.array(value) for value in evaluate(graphs(module)[0], arrays)]
        device = Device.of(context, module, FUSED if neighbours else ALONE, Checks(uninitialised=True))
        found = device(arrays)
    for place, (got, want) in enumerate(zip(found, wanted, strict=True)):
        try:
            same(got, want, device.plan.slots[device.plan.results[place]].type)
        except AssertionError as fault:
            number = place // op.results
            raise AssertionError(f"{op.name}, {cases[number].sample.types}, {cases[number].sample.attrs}") from fault


def cases_of(op: OpDef) -> list[Case]:
    small = [sample for sample in op.samples if all(type.size <= LARGEST for type in sample.types)]
    return [case_of(op, sample) for sample in small]


LONE = [op for op in OPS.values() if isinstance(op.kind, Random) or op.name in ("gather", "take_along_axis")]
"""Operations whose samples no family's tests run alone."""


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_between_neighbours(op: OpDef) -> None:
    agree(op, cases_of(op), neighbours=True)


@pytest.mark.parametrize("op", LONE, ids=lambda op: op.name)
def test_alone(op: OpDef) -> None:
    assert isinstance(op.kind, Random | Index)
    agree(op, cases_of(op), neighbours=False)
