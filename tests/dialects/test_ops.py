"""What holds for every operation, driven by the table: each sample is inferred, computed, derived and
printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sexpgpu.diag import SxError
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.opdef import Composite, Dense, Move, OpDef, Sample, numpy_dtype
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, check_op, op_name
from sexpgpu.dialects.reverse import cotangents
from sexpgpu.tensortype import TensorType

Array = NDArray[Any]
Draw = Callable[[OpDef, Sample], list[Array]]
Graph = Callable[..., Any]

# bf16 operands are computed in f32, and rounded by the interpreter only.
TOLERANCE = {"f64": 1e-12, "f32": 2e-6, "bf16": 2e-6}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def each_sample(wanted: Callable[[OpDef, Sample], bool] = lambda op, sample: True) -> pytest.MarkDecorator:
    cases = [
        pytest.param(op, sample, id=f"{op.name}-{i}")
        for op in OPS.values()
        for i, sample in enumerate(op.samples)
        if wanted(op, sample)
    ]
    return pytest.mark.parametrize(("op", "sample"), cases)


def differentiable(op: OpDef) -> bool:
    """By a rule of its own or, a composite, by its parts."""
    return op.vjp is not None or op.decompose is not None


each_op = pytest.mark.parametrize("op", OPS.values(), ids=OPS.keys())


def result_types(op: OpDef, sample: Sample) -> tuple[TensorType, ...]:
    inferred = op.infer(*sample.types, **sample.attrs)
    return inferred if isinstance(inferred, tuple) else (inferred,)


def computed(op: OpDef, arrays: Sequence[Array], sample: Sample, **out: Any) -> tuple[Array, ...]:
    value = op.numpy(*arrays, **sample.attrs, **out)
    return value if isinstance(value, tuple) else (value,)


def applied(b: Builder, op: OpDef, operands: Sequence[Val], sample: Sample) -> tuple[Val, ...]:
    if op.results > 1:
        return b.several(op.name, *operands, **sample.attrs)
    return (b(op.name, *operands, **sample.attrs),)


@each_op
def test_a_record_is_complete(op: OpDef) -> None:
    assert op.doc
    assert len(op.samples) >= 3
    assert all(len(sample.types) == len(op.operands) for sample in op.samples)
    assert all(set(sample.attrs) == {attr.name for attr in op.attrs} for sample in op.samples)
    takes_floats = any(t.is_float for sample in op.samples for t in sample.types)
    gives_floats = any(t.is_float for sample in op.samples for t in result_types(op, sample))
    assert differentiable(op) or not (takes_floats and gives_floats), "a float function needs its derivative"


@each_sample()
def test_infer_says_what_numpy_computes(op: OpDef, sample: Sample, draw: Draw) -> None:
    values = computed(op, draw(op, sample), sample)
    types = result_types(op, sample)
    assert len(values) == len(types) == op.results
    for value, type in zip(values, types, strict=True):
        assert isinstance(value, np.ndarray)
        assert (value.shape, value.dtype) == (type.shape, numpy_dtype(type.dtype))


@each_sample()
def test_operands_are_left_alone(op: OpDef, sample: Sample, draw: Draw) -> None:
    arrays = draw(op, sample)
    for array in arrays:
        array.flags.writeable = False
    computed(op, arrays, sample)
    for array, before in zip(arrays, draw(op, sample), strict=True):
        np.testing.assert_array_equal(array, before)


@each_sample(lambda op, sample: op.results == 1)
def test_the_result_goes_where_out_says(op: OpDef, sample: Sample, draw: Draw) -> None:
    arrays = draw(op, sample)
    (wanted,) = computed(op, arrays, sample)
    outs = [np.full(wanted.shape, 1, wanted.dtype), np.ones((*wanted.shape, 2), wanted.dtype)[..., 0]]
    for out in outs:
        (given,) = computed(op, arrays, sample, out=out)
        assert given is out
        np.testing.assert_array_equal(given, wanted)


@each_sample(lambda op, sample: isinstance(op.kind, Composite))
def test_a_composite_puts_all_of_its_results_where_out_says(op: OpDef, sample: Sample, draw: Draw) -> None:
    arrays = draw(op, sample)
    wanted = computed(op, arrays, sample)
    for outs in (
        tuple(np.full(w.shape, 1, w.dtype) for w in wanted),
        tuple(np.ones((*w.shape, 2), w.dtype)[..., 0] for w in wanted),
    ):
        given = computed(op, arrays, sample, out=outs if op.results > 1 else outs[0])
        for value, target, expected in zip(given, outs, wanted, strict=True):
            assert value is target
            np.testing.assert_array_equal(value, expected)


@each_sample(lambda op, sample: op.inplace)
def test_out_may_be_an_operand(op: OpDef, sample: Sample, draw: Draw) -> None:
    (wanted,) = computed(op, draw(op, sample), sample)
    for i in range(len(op.operands)):
        arrays = draw(op, sample)
        if (arrays[i].shape, arrays[i].dtype) == (wanted.shape, wanted.dtype):
            (given,) = computed(op, arrays, sample, out=arrays[i])
            np.testing.assert_array_equal(given, wanted)


@each_sample()
def test_only_moves_that_say_so_share_memory(op: OpDef, sample: Sample, draw: Draw) -> None:
    arrays = draw(op, sample)
    shared = [
        np.may_share_memory(value, array) for value in computed(op, arrays, sample) for array in arrays if value.size
    ]
    assert all(shared) if isinstance(op.kind, Move) and op.kind.views else not any(shared)


@each_sample()
def test_strided_operands_give_the_same(op: OpDef, sample: Sample, draw: Draw) -> None:
    arrays = draw(op, sample)
    strided = [np.stack([a, a], axis=-1)[..., 0] for a in arrays]
    for value, wanted in zip(computed(op, strided, sample), computed(op, arrays, sample), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


@each_sample()
def test_the_module_prints_and_parses_to_itself(op: OpDef, sample: Sample, context: Context, graph: Graph) -> None:
    made = graph(sample.types, lambda b, *xs: applied(b, op, xs, sample))
    text = str(made.module)
    again = context.parse_module(text, "again.mlir")
    assert str(again) == text
    parsed = again.body.operations[0].regions[0].blocks[0].operations[0]
    assert op_name(parsed) == op.name
    assert check_op(parsed) is None
    for name, value in attrs_of(parsed).items():
        wanted = sample.attrs[name]
        if isinstance(wanted, Dense):
            assert value.type == wanted.type
            np.testing.assert_array_equal(value.array(), wanted.array())
        elif name == "key":
            assert value == (wanted + 2**63) % 2**64 - 2**63
        else:
            assert (value, type(value)) == (wanted, type(wanted))


@each_sample(lambda op, sample: differentiable(op) and any(t.is_float for t in result_types(op, sample)))
def test_cotangents_have_the_types_of_the_operands(op: OpDef, sample: Sample, graph: Graph) -> None:
    types = result_types(op, sample)
    made = graph((*types, *sample.types), lambda b, *values: derived(b, op, sample, values))
    assert len(made.results) == len(op.operands)
    for cotangent, type in zip(made.results, sample.types, strict=True):
        assert cotangent is None or cotangent.type == type
        assert cotangent is None or type.is_float


@each_sample(lambda op, sample: differentiable(op) and sample.smooth and result_types(op, sample)[0].dtype == "f64")
def test_vjp_is_the_derivative(op: OpDef, sample: Sample, draw: Draw, graph: Graph) -> None:
    """The derivative of sum(g * f) against central differences, all in f64."""
    types = result_types(op, sample)
    arrays = draw(op, sample)
    rng = np.random.default_rng(5)
    weights = [rng.uniform(-1, 1, type.shape) for type in types]
    made = graph((*types, *sample.types), lambda b, *values: derived(b, op, sample, values))

    def total(*inputs: Array) -> float:
        return sum(float((w * v).sum()) for w, v in zip(weights, computed(op, inputs, sample), strict=True))

    cotangents = made.evaluate([*weights, *arrays])
    for i, (cotangent, type) in enumerate(zip(cotangents, sample.types, strict=True)):
        if not type.is_float:
            assert cotangent is None
            continue
        given = np.zeros(type.shape) if cotangent is None else cotangent
        np.testing.assert_allclose(given, differences(total, arrays, i), rtol=2e-7, atol=2e-8)


def derived(b: Builder, op: OpDef, sample: Sample, values: Sequence[Val]) -> Sequence[Val | None]:
    """Cotangents from (cotangents of the results, operands)."""
    given, operands = values[: op.results], values[op.results :]
    out = applied(b, op, operands, sample)
    if op.vjp is None:
        seeds = {o.value: g for o, g in zip(out, given, strict=True)}
        found = cotangents(b, [out[0].value.owner.operation], seeds, [v.value for v in operands])
        return [found.get(v.value) for v in operands]
    if op.results == 1:
        return op.vjp(b, given[0], out[0], *operands, **sample.attrs)
    return op.vjp(b, given, out, *operands, **sample.attrs)


def differences(function: Callable[..., float], arrays: list[Array], which: int) -> Array:
    step = 1e-5
    result = np.zeros(arrays[which].shape)
    for place in np.ndindex(result.shape):
        sides = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[which][place] += sign * step
            sides.append(function(*moved))
        result[place] = (sides[0] - sides[1]) / (2 * step)
    return result


@each_sample(lambda op, sample: op.decompose is not None)
def test_the_parts_of_a_composite_compute_it(op: OpDef, sample: Sample, draw: Draw, graph: Graph) -> None:
    def build(b: Builder, *xs: Val) -> Sequence[Val]:
        assert op.decompose is not None
        made = op.decompose(b, *xs, **sample.attrs)
        return made if isinstance(made, tuple) else (made,)

    arrays = draw(op, sample)
    made = graph(sample.types, build)
    for value, wanted, type in zip(
        made.evaluate(arrays), computed(op, arrays, sample), result_types(op, sample), strict=True
    ):
        assert value is not None
        tolerance = TOLERANCE[type.dtype]
        np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.attrs], ids=lambda op: op.name)
def test_a_missing_attribute_is_refused(op: OpDef, context: Context) -> None:
    sample = op.samples[0]
    arguments = ", ".join(f"%{i}: {context.type(type)}" for i, type in enumerate(sample.types))
    operands = ", ".join(f"%{i}" for i in range(len(sample.types)))
    takes = ", ".join(str(context.type(type)) for type in sample.types)
    gives = ", ".join(str(context.type(type)) for type in result_types(op, sample))
    call = f'"sx.{op.name}"({operands}) : ({takes}) -> ({gives})'
    with pytest.raises(SxError, match="E-IR-001") as caught:
        context.parse_module(f"func.func @f({arguments}) {{ {call} return }}", "bare.mlir")
    assert "attribute" in str(caught.value.diagnostic.actual)
