"""Operations on operands that are parts, mirror images and turns of other tensors, or one value read twice: kernels
read them where they lie, as the interpreter does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array, Composite, OpDef
from sexpgpu.dialects.ops import OPS
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.base import graphs
from sexpgpu.sim import Checks
from sexpgpu.tensortype import TensorType
from tests.building import function
from tests.gpu.agreement import same
from tests.gpu.kernels import ALONE, FUSED, Device
from tests.gpu.test_ops import Case, cases_of

FORMS = ("turned", "part", "steps", "mirrored", "repeated", "as it is")
ONE_OF_A_KIND = list({type(op.kind): op for op in reversed(OPS.values())}.values())


@frozen(eq=False)
class Seen:
    """An operand as what `given` holds shows it: by movements, one after another."""

    given: Array
    type: TensorType
    moves: Sequence[tuple[str, dict[str, Any]]] = ()

    def build(self, b: Builder, value: Val) -> Val:
        for name, attrs in self.moves:
            value = b(name, value, **attrs)
        return value


def seen(rng: random.Random, array: Array, type: TensorType, forms: Sequence[str]) -> Seen:
    """A tensor that shows the array; `repeated`, its first elements along some axes."""
    form, shape, rank = rng.choice(forms), type.shape, type.rank
    if rank == 0 or form == "as it is":
        return Seen(array, type)

    def of(given: Array, *moves: tuple[str, dict[str, Any]]) -> Seen:
        return Seen(np.ascontiguousarray(given), TensorType(given.shape, type.dtype), moves)

    match form:
        case "turned":
            perm = rng.sample(range(rank), rank)
            return of(array.transpose(np.argsort(perm)), ("transpose", {"perm": tuple(perm)}))
        case "mirrored":
            axes = tuple(sorted(rng.sample(range(rank), rng.randint(1, rank))))
            return of(np.flip(array, axes), ("flip", {"axes": axes}))
        case "repeated":
            firsts = tuple([slice(0, rng.choice((1, n))) for n in shape])
            return of(array[firsts], ("broadcast", {"shape": shape}))
        case _:
            step = tuple([rng.randint(1, 3) if form == "steps" else 1 for _ in shape])
            start = tuple([rng.randrange(3) for _ in shape])
            stop = tuple([a + max(n - 1, 0) * s + min(n, 1) for a, n, s in zip(start, shape, step, strict=True)])
            around = np.ones([end + rng.randrange(3) for end in stop], array.dtype)
            around[tuple([slice(*each) for each in zip(start, stop, step, strict=True)])] = array
            return of(around, ("slice", {"start": start, "stop": stop, "step": step}))


def check(op: OpDef, seed: int, passes: Sequence[str]) -> None:
    """Compares every small sample of an operation, its operands seen in forms that `seed` decides."""
    rng = random.Random(f"{op.name} {seed}")
    # What a derivative of attention reads was saved for just these operands.
    saved = isinstance(op.kind, Composite) and op.kind.backward and op.kind.family == "attention"
    forms = [form for form in FORMS if form != "repeated" or not saved]
    cases = cases_of(op)
    operands = [[seen(rng, x, t, forms) for x, t in zip(c.arrays, c.sample.types, strict=True)] for c in cases]
    twice = not saved and rng.random() < 0.5
    given = [each for case in operands for each in case]
    # An argument that nothing reads: a graph without any is one for the host.
    types = [TensorType((), "f32"), *[each.type for each in given]]
    arrays = [np.zeros((), np.float32), *[each.given for each in given]]

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        left = iter(values[1:])
        shown = [[each.build(b, next(left)) for each in case] for case in operands]
        return [v for case, own in zip(cases, shown, strict=True) for v in _results(b, op, case, own, twice)]

    with open_context() as context:
        module = function(context, types, build)
        with np.errstate(all="ignore"):
            wanted = [np.array(value) for value in evaluate(graphs(module)[0], arrays)]
        device = Device.of(context, module, passes, Checks(uninitialised=True))
        found = device(arrays)
    for place, (got, want) in enumerate(zip(found, wanted, strict=True)):
        try:
            same(got, want, device.plan.slots[device.plan.results[place]].type)
        except AssertionError as fault:
            number = place // op.results
            moves = [each.moves for each in operands[number]]
            raise AssertionError(f"{op.name}, {cases[number].sample.types}, {moves}") from fault


def _results(b: Builder, op: OpDef, case: Case, operands: list[Val], twice: bool) -> Sequence[Val]:
    """The operation; with `twice` an operand of the first's type is the first once more."""
    types = case.sample.types
    given = [operands[0] if twice and t == types[0] else v for v, t in zip(operands, types, strict=True)]
    emit: Callable[..., Any] = b.several if op.results > 1 else b
    made = emit(op.name, *given, **case.sample.attrs)
    return list(made) if op.results > 1 else [made]


@pytest.mark.parametrize("op", ONE_OF_A_KIND, ids=lambda op: op.name)
def test_one_operation_of_every_kind(op: OpDef) -> None:
    check(op, 0, ALONE)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_every_operation(op: OpDef) -> None:
    for seed in range(1, 7):
        check(op, seed, FUSED if seed % 2 else ALONE)
