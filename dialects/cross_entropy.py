"""The tail of a classifier: for each line of logits along the last axis minus the log-probability of its label.

    loss = lse - x[label], lse = log(sum of e^x along the line)
    dx   = e^(x - lse) (g + h) - g at the label, with the cotangents g of the loss and h of lse

The derivative reads the saved lse: no exponential is summed twice, and neither the log-probabilities nor a one-hot
tensor exist. `outside` says what a label is that is no class: an `error`, as for a gather, or, as for a product with a
one-hot tensor, a loss of `zero` (log-probabilities) or of the whole `logsumexp` (logits). bf16 logits are taken as they
are, and everything else is f32. Milakov & Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sexpgpu.diag import error
from sexpgpu.dialects.arrays import deliver_all, targets
from sexpgpu.dialects.indexing import within
from sexpgpu.dialects.opdef import Array, Attr, Composite, OpDef, sample
from sexpgpu.dialects.rules import INDICES, require_dtype, require_same
from sexpgpu.tensortype import FLOATS, TensorType

_BLOCK_ELEMENTS = 1 << 16
_OUTSIDE = ("error", "zero", "logsumexp")


def _line(op: str, logits: TensorType, labels: TensorType, outside: str) -> TensorType:
    """The type of one number a line, after checking the operands."""
    require_dtype(op, "logits", logits, FLOATS)
    require_dtype(op, "labels", labels, INDICES)
    if outside not in _OUTSIDE:
        raise error("E-ARG-101", f"{op}: no such treatment of a label that is no class",
                    expected=", ".join(_OUTSIDE), actual=outside)  # fmt: skip
    if logits.rank == 0 or logits.shape[:-1] != labels.shape or logits.shape[-1] == 0:
        raise error("E-SHAPE-015", f"{op}: there is not one label for each line of logits",
                    expected=f"labels: {TensorType(logits.shape[:-1], labels.dtype)}",
                    actual=f"labels: {labels}")  # fmt: skip
    return TensorType(labels.shape, "f32" if logits.dtype == "bf16" else logits.dtype)


def _infer(logits: TensorType, labels: TensorType, *, outside: str) -> tuple[TensorType, TensorType]:
    line = _line("cross_entropy", logits, labels, outside)
    return line, line


def _grad_infer(
    g: TensorType, h: TensorType, logits: TensorType, labels: TensorType, lse: TensorType, *, outside: str
) -> TensorType:
    line = _line("cross_entropy_grad", logits, labels, outside)
    require_same("cross_entropy_grad", ("a number a line", "g", "h", "lse"), (line, g, h, lse))
    return logits


def _inside(labels: Array, classes: int, outside: str) -> Array:
    """Which labels are classes; an error where all have to be."""
    if outside == "error":
        within("cross_entropy", labels, classes)
    return np.asarray((labels >= 0) & (labels < classes))


def _blocks(logits: Array, *lines: Array) -> Iterator[tuple[Array, ...]]:
    """A few lines of the logits as a matrix, and the numbers that belong to them."""
    flat = [logits.reshape(-1, logits.shape[-1]), *[line.reshape(-1) for line in lines]]
    rows = max(1, _BLOCK_ELEMENTS // logits.shape[-1])
    for start in range(0, flat[0].shape[0], rows):
        yield tuple(array[start : start + rows] for array in flat)


def _cross_entropy(
    logits: Array, labels: Array, *, outside: str, out: tuple[Array, ...] | None = None
) -> tuple[Array, ...]:
    inside = _inside(labels, logits.shape[-1], outside)
    loss, lse = targets(out, (labels.shape, logits.dtype), (labels.shape, logits.dtype))
    for x, label, ok, row, total in _blocks(logits, labels, inside, loss, lse):
        peak = np.max(x, axis=1, keepdims=True)
        peak = np.where(np.isfinite(peak), peak, peak.dtype.type(0))
        powers = x - peak
        np.sum(np.exp(powers, out=powers), axis=1, out=total)
        np.log(total, out=total)
        total += peak[:, 0]
        picked = x[np.arange(len(x)), np.where(ok, label, 0)]
        row[...] = total - np.where(ok, picked, picked.dtype.type(0))
        if outside == "zero":
            row[~ok] = 0
    return deliver_all((loss, lse), out)


def _grad(
    g: Array, h: Array, logits: Array, labels: Array, lse: Array, *, outside: str, out: Array | None = None
) -> Array:
    inside = _inside(labels, logits.shape[-1], outside)
    of_label = g * inside
    of_all = (g if outside == "logsumexp" else of_label) + h
    into = None if out is None else (out,)
    (result,) = targets(into, (logits.shape, logits.dtype))
    for x, dx, label, ok, shift, one, many in _blocks_of(logits, result, labels, inside, lse, of_label, of_all):
        np.subtract(x, shift[:, None], out=dx)
        np.exp(dx, out=dx)
        dx *= many[:, None]
        dx[np.arange(len(x)), np.where(ok, label, 0)] -= one
    return deliver_all((result,), into)[0]


def _blocks_of(logits: Array, result: Array, *lines: Array) -> Iterator[tuple[Array, ...]]:
    for (x, *rest), (dx,) in zip(_blocks(logits, *lines), _blocks(result), strict=True):
        yield x, dx, *rest


def _wide(b: Any, x: Any) -> Any:
    return b("cast", x, dtype="f32") if x.type.dtype == "bf16" else x


def _hits(b: Any, x: Any, labels: Any) -> Any:
    """True where the place along the last axis is the label."""
    shape = x.type.shape
    column = b("broadcast", b("reshape", labels, shape=(*shape[:-1], 1)), shape=shape)
    return b("eq", column, b("iota", shape=shape, axis=len(shape) - 1, dtype=labels.type.dtype))


def _classes(b: Any, x: Any, labels: Any) -> Any:
    """Which labels are classes, as 1 and 0."""
    low = b("ge", labels, b.constant(0, labels.type))
    high = b("lt", labels, b.constant(x.type.shape[-1], labels.type))
    return b("cast", b("logical_and", low, high), dtype=x.type.dtype)


def _parts(b: Any, logits: Any, labels: Any, *, outside: str) -> tuple[Any, Any]:
    x = _wide(b, logits)
    last = x.type.rank - 1
    lse = b("logsumexp", x, axis=last, keepdims=False)
    if outside == "error":
        column = b("reshape", labels, shape=(*labels.type.shape, 1))
        picked = b("reshape", b("take_along_axis", x, column, axis=last), shape=labels.type.shape)
    else:
        chosen = b("where", _hits(b, x, labels), x, b.constant(0, x.type))
        picked = b("sum", chosen, axes=(last,), keepdims=False)
    whole = lse * _classes(b, x, labels) if outside == "zero" else lse
    return whole - picked, lse


def _grad_parts(b: Any, g: Any, h: Any, logits: Any, labels: Any, lse: Any, *, outside: str) -> Any:
    x = _wide(b, logits)
    shape = x.type.shape

    def across(v: Any) -> Any:
        return b("broadcast", b("reshape", v, shape=(*shape[:-1], 1)), shape=shape)

    of_all = (g * _classes(b, x, labels) if outside == "zero" else g) + h
    probabilities = b("exp", x - across(lse))
    chosen = b("where", _hits(b, x, labels), across(g), b.constant(0, x.type))
    result = probabilities * across(of_all) - chosen
    return b("cast", result, dtype="bf16") if logits.type.dtype == "bf16" else result


def _vjp(b: Any, g: tuple[Any, Any], out: tuple[Any, Any], logits: Any, labels: Any, *, outside: str) -> Any:
    return b("cross_entropy_grad", *g, logits, labels, out[1], outside=outside), None


_ATTRS = (Attr("outside", "str"),)

OPERATIONS = (
    OpDef(
        name="cross_entropy",
        kind=Composite("cross_entropy"),
        operands=("logits", "labels"),
        attrs=_ATTRS,
        results=2,
        infer=_infer,
        numpy=_cross_entropy,
        vjp=_vjp,
        decompose=_parts,
        samples=(
            sample("f64[3, 4]", "i32[3]", below=4, outside="error"),
            sample("f64[2, 3, 2]", "i64[2, 3]", below=2, outside="error"),
            sample("f64[4]", "i32[]", below=4, outside="error"),
            sample("f64[6, 2]", "i32[6]", below=4, outside="zero"),
            sample("f64[6, 2]", "i64[6]", below=4, outside="logsumexp"),
            sample("f32[3, 40]", "i32[3]", below=40, domain=(-30.0, 30.0), outside="error"),
            sample("f32[0, 3]", "i32[0]", outside="error"),
            sample("bf16[3, 4]", "i32[3]", below=4, outside="error"),
        ),
        doc="log(sum of e^logits along the last axis) less the logit at the label; that logarithm",
    ),
    OpDef(
        name="cross_entropy_grad",
        kind=Composite("cross_entropy", backward=True),
        operands=("g", "h", "logits", "labels", "lse"),
        attrs=_ATTRS,
        infer=_grad_infer,
        numpy=_grad,
        vjp=None,
        decompose=_grad_parts,
        samples=(
            sample("f64[3]", "f64[3]", "f64[3, 4]", "i32[3]", "f64[3]", below=4, outside="error"),
            sample("f64[2, 3]", "f64[2, 3]", "f64[2, 3, 2]", "i64[2, 3]", "f64[2, 3]", outside="error"),
            sample("f64[]", "f64[]", "f64[4]", "i32[]", "f64[]", below=4, outside="error"),
            sample("f64[6]", "f64[6]", "f64[6, 2]", "i32[6]", "f64[6]", below=4, outside="zero"),
            sample("f64[6]", "f64[6]", "f64[6, 2]", "i64[6]", "f64[6]", below=4, outside="logsumexp"),
            sample("f32[3]", "f32[3]", "f32[3, 40]", "i32[3]", "f32[3]", below=40, outside="error"),
            sample("f32[0]", "f32[0]", "f32[0, 3]", "i32[0]", "f32[0]", outside="error"),
            sample("f32[3]", "f32[3]", "bf16[3, 4]", "i32[3]", "f32[3]", below=4, outside="error"),
        ),
        doc="the derivative of cross_entropy to the logits, from the cotangents of its results and the saved logarithm",
        inplace=True,
    ),
)
