"""Random graphs for `fuse`, and groups run tile by tile as their attributes say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from mlir import ir

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.groups import group_of
from sexpgpu.dialects.loops import inline
from sexpgpu.dialects.opdef import Array, numpy_dtype
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.signature import type_of
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.fusing import clusters, grow, tiling
from sexpgpu.plan.tiles import cut_attrs, tile_places
from sexpgpu.tensortype import TensorType

FOLDS = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.logical_or,
    "and": np.logical_and,
}

NAMES = (
    *("add", "mul", "sub", "where", "tanh", "exp", "constant", "iota", "argmax", "take", "cumsum"),
    *("sum", "sum", "keep", "amax", "softmax", "logsumexp", "line", "column", "matmul", "norm", "gain", "tail"),
    *("reshape", "transpose", "slice", "pad", "concat"),
)

STEPS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    min_size=2,
    max_size=24,
)


def cut_small(patch: pytest.MonkeyPatch, elements: int = 2) -> None:
    """Tiles of about so many elements, so that small tensors are cut."""
    patch.setattr(clusters, "SMALL", elements)
    patch.setattr(grow, "SMALL", elements)
    patch.setattr(clusters, "LONGEST", 32 * elements)
    patch.setattr(tiling, "BUDGET", 64 * elements)
    patch.setattr(tiling, "LEAST", elements)


def build_program(b: Builder, values: list[Val], steps: list[tuple[str, int, int]]) -> list[Val]:
    """Any operations on what there is, brought to the shapes that they need; every third value is a result."""
    pool = list(values)
    for name, i, j in steps:
        x, y = pool[-1 - i % min(len(pool), 8)], pool[-1 - j % len(pool)]
        pool.append(_step(b, name, x, y, j))
    return [*pool[len(values) :: 3], pool[-1]]


def _step(b: Builder, name: str, x: Val, y: Val, n: int) -> Val:
    shape = x.type.shape
    rank = len(shape)
    axis = (n % rank if n % 4 == 0 else rank - 1) if rank else 0  # the last axes are what tiles are for
    match name:
        case "add" | "mul" | "sub":
            return b(name, x, _as(b, y, shape))
        case "where":
            return b("where", b("gt", x, b.constant(0.1, x.type)), x, _as(b, y, shape))
        case "tanh":
            return b("tanh", x)
        case "exp":
            return b("exp", b("tanh", x))
        case "constant":
            return x * 0.5 + float(n % 3)
        case "iota" if rank:
            return x + b("iota", shape=shape, axis=axis, dtype=x.type.dtype)
        case "sum" | "amax" if rank:
            axes = (axis,) if n % 3 else tuple(a for a in range(rank) if (n >> a) & 1) or (axis,)
            return b(name, x, axes=axes, keepdims=bool(n & 8))
        case "keep" if rank:
            return b("sum", x, axes=(rank - 1,), keepdims=True)
        case "line" if rank:  # a norm
            mean = b("sum", x, axes=(rank - 1,), keepdims=True) * 0.25
            return x - b("broadcast", mean, shape=shape)
        case "column" if rank > 1:  # the gradient of a bias
            return b("sum", x, axes=tuple(range(rank - 1)), keepdims=False)
        case "norm" if rank > 1:
            gain = b("sum", x, axes=tuple(range(rank - 1)), keepdims=False)
            made, mean, r = b.several("layer_norm", x, gain, gain, eps=0.25)
            return made + b("broadcast", mean * r, shape=shape)
        case "gain" if rank > 1:  # a weight that is made by elements and read in full by every line
            given = y if y.type.shape == shape[-1:] else b("sum", x, axes=tuple(range(rank - 1)), keepdims=False)
            return b.several("rms_norm", x, given + 1.0, eps=0.25)[0]
        case "tail" if rank > 1:
            labels = b("argmax", x, axis=rank - 1, keepdims=False)
            loss, lse = b.several("cross_entropy", x, labels, outside="error")
            return loss + lse
        case "softmax" | "cumsum" if rank:
            return b(name, x, axis=axis)
        case "logsumexp" if rank:
            return b("logsumexp", x, axis=axis, keepdims=bool(n & 1))
        case "argmax" if rank:
            return b("cast", b("argmax", x, axis=axis, keepdims=True), dtype=x.type.dtype)
        case "take" if rank:
            places = b("argmax", x, axis=axis, keepdims=True)
            return b("take_along_axis", x, places, axis=axis)
        case "matmul" if rank > 1:
            turned = b("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))
            return b("tanh", b("matmul", x, turned))
        case "reshape" if rank > 1:
            flat = (shape[0] * shape[1], *shape[2:])
            return b("reshape", x, shape=flat if n % 2 else (*shape, 1))
        case "transpose" if rank > 1:
            perm = (*range(axis), *reversed(range(axis, rank)))
            return b("transpose", x, perm=perm)
        case "slice" if rank and shape[axis] > 1:
            stop = tuple(s - (a == axis) for a, s in enumerate(shape))
            return b("slice", x, start=(0,) * rank, stop=stop, step=(1,) * rank)
        case "pad" if rank and x.type.size < 4000:
            low = tuple(int(a == axis) for a in range(rank))
            return b("pad", x, low=low, high=(0,) * rank, value=0)
        case "concat" if rank and x.type.size < 4000:
            return b("concat", x, x * 2.0, axis=axis)
        case _:
            return b("neg", x)


def _as(b: Builder, y: Val, shape: tuple[int, ...]) -> Val:
    """`y`, or a part of it, in another shape: repeated where its axes fit, else by its sum."""
    if y.type.shape == shape:
        return y
    offset = len(shape) - y.type.rank
    if offset >= 0 and all(n in (1, shape[offset + i]) for i, n in enumerate(y.type.shape)):
        return b("broadcast", y, shape=shape)
    if y.type.shape == shape[: y.type.rank] and y.type.rank:
        return b("broadcast", b("reshape", y, shape=(*y.type.shape, *(1 for _ in range(offset)))), shape=shape)
    total = b("sum", y, axes=tuple(range(y.type.rank)), keepdims=False)
    return b("broadcast", total * 0.125, shape=shape)


def evaluate_tiled(func: Any, inputs: list[Array]) -> list[Array]:
    """What a graph gives when its groups run tile by tile, each operation checked against its inferred type."""
    return evaluate(func, inputs, _results)


def _results(op: Any, ins: list[Array]) -> list[Array]:
    found = group_of(op)
    return run_tiles(found[1], ins) if found is not None else _run(op, ins, attrs_of(op))


def inline_group(context: Context, call: Any) -> None:
    """Put the operations of the group that `call` runs back in its place; the function goes."""
    found = group_of(call)
    assert found is not None
    builder = Builder(context, ir.InsertionPoint(call), call.location)
    _, results = inline(builder, found[1], list(call.operands))
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.erase()
    found[1].erase()


def run_tiles(func: Any, inputs: list[Array]) -> list[Array]:
    """The results of a group: one tile after the other, results put together as `sx.tiled` and `sx.fold` say."""
    block = func.regions[0].blocks[0]
    arguments = list(block.arguments)
    *_, end = [op.operation for op in block.operations]
    types = [type_of(v) for v in end.operands]
    tile = tuple(ir.DenseI64ArrayAttr(func.attributes["sx.tile"])) if "sx.tile" in func.attributes else ()
    if not tile:
        return _body(func, inputs, (), ())
    cut = [bool(flag) for flag in ir.DenseI64ArrayAttr(func.attributes["sx.tiled"])]
    folds = [ir.StringAttr(f).value for f in func.attributes["sx.fold"]] if "sx.fold" in func.attributes else []
    folds = folds or [""] * len(types)
    assert len(cut) == len(arguments) + len(types)
    tensors = [*map(type_of, arguments), *types]
    extent = next(t.shape[: len(tile)] for t, flag in zip(tensors, cut, strict=True) if flag)
    assert all(t.shape[: len(tile)] == extent for t, flag in zip(tensors, cut, strict=True) if flag)
    assert all(flag != bool(fold) for flag, fold in zip(cut[len(arguments) :], folds, strict=True))
    outs: list[Any] = [np.empty(t.shape, numpy_dtype(t.dtype)) if not f else None
                       for t, f in zip(types, folds, strict=True)]  # fmt: skip
    for place in tile_places(extent, tile):
        parts = [x[place] if flag else x for x, flag in zip(inputs, cut, strict=False)]
        sizes = tuple(s.stop - s.start for s in place)
        for i, part in enumerate(_body(func, parts, extent, sizes)):
            if not folds[i]:
                outs[i][place] = part
            else:
                outs[i] = np.array(part) if outs[i] is None else FOLDS[folds[i]](outs[i], part)
    return outs


def _body(func: Any, inputs: list[Array], extent: tuple[int, ...], sizes: tuple[int, ...]) -> list[Array]:
    block = func.regions[0].blocks[0]
    values: dict[Any, Array] = dict(zip(block.arguments, inputs, strict=True))
    for op in [op.operation for op in block.operations]:
        ins = [values[v] for v in op.operands]
        if op.name == "func.return":
            return ins
        attrs = attrs_of(op)
        outs = _run(op, ins, cut_attrs(OPS[op_name(op)], attrs, extent, sizes) if extent else attrs)
        values.update(zip(op.results, outs, strict=True))
    raise AssertionError("a function ends with func.return")


def _run(op: Any, ins: list[Array], attrs: dict[str, Any]) -> list[Array]:
    record = OPS[op_name(op)]
    dtypes = [type_of(v).dtype for v in op.operands]
    given = [TensorType(x.shape, dtype) for x, dtype in zip(ins, dtypes, strict=True)]
    inferred = record.infer(*given, **attrs)
    with np.errstate(all="ignore"):
        made = record.numpy(*ins, **attrs)
    outs = list(made) if record.results > 1 else [made]
    types = inferred if isinstance(inferred, tuple) else (inferred,)
    assert [x.shape for x in outs] == [t.shape for t in types], op_name(op)
    return [round_bf16(x) if t.dtype == "bf16" else np.asarray(x) for x, t in zip(outs, types, strict=True)]
