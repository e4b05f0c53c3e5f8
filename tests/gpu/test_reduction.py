"""Kernels of reductions on the simulator: lines of any length, along any axes, in any dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Composite, OpDef, Reduce, Row, Sample
from sexpgpu.dialects.ops import OPS
from sexpgpu.plan.records import Launches
from sexpgpu.sim import Checks
from tests.gpu.agreement import agrees, sample_agrees
from tests.gpu.kernels import ALONE, FUSED

FAMILIES = ("norm", "cross_entropy")


def _reduces(op: OpDef) -> bool:
    composite = isinstance(op.kind, Composite) and op.kind.family in FAMILIES
    return composite or isinstance(op.kind, Reduce | Row)


SAMPLES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in OPS.values()
    if _reduces(op)
    for i, sample in enumerate(op.samples)
]


@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_samples_alone_and_in_groups(op: OpDef, sample: Sample) -> None:
    sample_agrees(op, sample, ALONE)
    sample_agrees(op, sample, FUSED)


def reduction(name: str, **attrs: Any) -> Any:
    return lambda b, v: (b(name, v[0], **attrs),)


SHAPES = [
    ((5, 64), (1,)),
    ((3, 100), (1,)),
    ((300, 3), (1,)),
    ((4, 1000), (1,)),
    ((3, 1027), (1,)),
    ((2, 5000), (1,)),
    ((1, 16390), (1,)),
    ((40000,), (0,)),
    ((2, 3, 16), (0, 2)),
    ((7, 33), (0,)),
    ((1000, 64), (0,)),
    ((999, 6), (0,)),
    ((3, 40, 5), (1,)),
    ((2, 300, 64), (1,)),
    ((2, 3, 4, 5), (0, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((3, 8, 5, 8), (0, 2, 3)),
    ((4, 4, 4000), (0, 2)),
    ((3, 2, 5, 8), (0, 2)),
    ((4, 7000, 3), (1,)),
    ((6, 1, 4), (1,)),
    ((6, 1, 4), (0, 1)),
]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_sums_of_any_axes(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    agrees([f"{dtype}{list(shape)}"], reduction("sum", axes=axes, keepdims=False))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["argmax", "argmin", "amax", "amin", "prod"])
def test_ties_and_missing_numbers(name: str, axis: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 4, (6, 70, 5)).astype(np.float32)
    x[1, 2, 3] = x[1, 5, 3] = x[2, 60, 0] = np.nan
    x[4] = -np.inf
    axes = {"axis": axis} if name.startswith("arg") else {"axes": (axis,)}
    agrees(["f32[6, 70, 5]"], reduction(name, **axes, keepdims=True), [x])


@pytest.mark.parametrize("dtype", ["i32", "i64", "u8", "f64"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "argmax"])
def test_dtypes_of_long_lines(name: str, dtype: str) -> None:
    for shape, axis in (((3, 300), 1), ((300, 8), 0), ((1, 20000), 1)):
        axes = {"axis": axis} if name.startswith("arg") else {"axes": (axis,)}
        agrees([f"{dtype}{list(shape)}"], reduction(name, **axes, keepdims=False))


@pytest.mark.parametrize("name", ["sum", "amax", "argmax", "argmin"])
def test_lines_of_one_element_beside_what_is_made_element_by_element(name: str) -> None:
    axes: dict[str, Any] = {"axis": 1} if name.startswith("arg") else {"axes": (1,)}

    def both(b: Builder, v: Sequence[Val]) -> tuple[Val, ...]:
        bent = b("sigmoid", v[0])
        return bent, b(name, bent * 4.0, **axes, keepdims=False)

    agrees(["f64[3, 1]"], both)


@pytest.mark.parametrize("name", ["any", "all"])
def test_bools(name: str) -> None:
    x = np.random.default_rng(0).random((4, 200)) < (0.01 if name == "any" else 0.99)
    for axes in ((1,), (0,), (0, 1)):
        agrees(["bool[4, 200]"], reduction(name, axes=axes, keepdims=False), [x])


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 40), 1), ((3, 1100), 1), ((2, 17000), 1), ((3, 50, 8), 1), ((9, 7), 0)]
)
def test_softmax_of_any_lines(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    agrees([f"{dtype}{list(shape)}"], lambda b, v: (b("softmax", v[0], axis=axis),))


@pytest.mark.parametrize("width", [12, 65, 768, 2500])
def test_a_norm_with_what_stands_around_it(width: int) -> None:
    def build(b: Any, v: Any) -> Any:
        whole = v[1] + b("broadcast", v[0], shape=(2, 3, width))
        return (whole, *b.several("layer_norm", whole, v[2], v[3], eps=1e-5))

    device = agrees([f"f32[3, {width}]", f"f32[2, 3, {width}]", f"f32[{width}]", f"f32[{width}]"], build)
    assert len(device.launches()) == 1


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("lines", "classes"), [(3, 7), (3, 65), (3, 1024), (3, 5003), (2, 25129), (66, 17001), (66, 45004)]
)
def test_cross_entropy_and_its_derivative_write_one_matrix(lines: int, classes: int, dtype: str) -> None:
    def build(b: Any, v: Any) -> Any:
        loss, lse = b.several("cross_entropy", v[0], v[1], outside="error")
        one = b.constant(0.25, loss.type)
        none = b.constant(0.0, loss.type)
        return loss, b("cross_entropy_grad", one, none, v[0], v[1], lse, outside="error")

    rng = np.random.default_rng(1)
    logits = rng.standard_normal((lines, classes)).astype(np.float32) * 4
    logits = (logits.view(np.uint32) & 0xFFFF0000).view(np.float32)
    labels = rng.integers(classes, size=lines).astype(np.int32)
    device = agrees([f"{dtype}[{lines}, {classes}]", f"i32[{lines}]"], build, [logits, labels])
    assert (len(device.launches()) == 1) == (lines != 2)
    temporaries = [
        size for step in device.plan.steps if isinstance(step.how, Launches) for size in step.how.temporaries
    ]
    assert sum(temporaries) < 100 * lines


def test_a_loss_of_short_lines_is_one_kernel() -> None:
    def build(b: Any, v: Any) -> Any:
        loss, lse = b.several("cross_entropy", v[0], b("cast", v[1], dtype="i32"), outside="error")
        return lse, b("sum", loss, axes=(0,), keepdims=False) * 0.005

    device = agrees(["f64[200, 10]", "u8[200]"], build)
    assert len(device.launches()) == 1


def test_columns_of_several_sums() -> None:
    def build(b: Any, v: Any) -> Any:
        gain = b("layer_norm_gain", *v)
        return gain, b("sum", v[0], axes=(0, 1), keepdims=False)

    for shape in ((4, 70, 64), (2, 9, 31)):
        line = list((*shape[:-1], 1))
        agrees([f"f32{list(shape)}"] * 2 + [f"f32{line}"] * 2, build)


def test_reductions_of_reductions() -> None:
    def build(b: Any, v: Any) -> Any:
        rows = b("sum", v[0], axes=(2,), keepdims=False)
        return (
            b("amax", rows, axes=(0,), keepdims=False),
            b("softmax", rows, axis=1),
            b("sum", rows, axes=(0, 1), keepdims=True),
        )

    agrees(["f32[4, 30, 100]"], build)


def test_views_are_read_where_they_lie() -> None:
    def build(b: Any, v: Any) -> Any:
        turned = b("transpose", v[0], perm=(1, 0))
        cut = b("slice", v[0], start=(1, 4), stop=(9, 60), step=(1, 2))
        return b("sum", turned, axes=(1,), keepdims=False), b("softmax", cut, axis=1)

    agrees(["f32[10, 64]"], build)


@pytest.mark.parametrize(("made", "shape"), [("pad", (8,)), ("concat", (8,)), ("reshape", (4, 8))])
def test_a_part_that_begins_between_vectors_of_what_the_group_makes(made: str, shape: tuple[int, ...]) -> None:
    """A vector of it is made of two places: of what was padded and of the padding, of both joined, of two rows."""

    def build(b: Any, v: Any) -> Any:
        match made:
            case "pad":
                whole = b("pad", v[0], low=(0,), high=(6,), value=1)
            case "concat":
                whole = b("concat", v[0], v[0] * 2.0, axis=0)
            case _:
                wide = b("pad", v[0], low=(0, 0), high=(0, 8), value=0)
                whole = b("reshape", wide, shape=(64,))
        part = b("slice", whole, start=(3,), stop=(11,), step=(1,))
        return whole, b("logsumexp", part, axis=0, keepdims=False)

    agrees([f"f32{list(shape)}"], build)


@pytest.mark.parametrize("shape", [(4, 700), (1, 3000)])
def test_threads_come_in_any_order(shape: tuple[int, ...]) -> None:
    def build(b: Any, v: Any) -> Any:
        return b("softmax", v[0], axis=1), b("argmax", v[0], axis=1, keepdims=False)

    agrees([f"f32{list(shape)}"], build, checks=Checks.every(race=1))
    agrees([f"f32{list(shape)}"], reduction("sum", axes=(0,), keepdims=False), checks=Checks.every(race=2))
