"""Reductions: `:axis` is an axis, a list of axes, or nil for all of them; `:keepdims t` keeps reduced axes as 1."""

from __future__ import annotations

import math
from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL
from sexpgpu.trace.arguments import axes, flag, integer
from sexpgpu.trace.arguments import axis as one_axis
from sexpgpu.trace.tensor import Tensor, as_tensor, float_tensor, pointwise

library = Library("reductions")


def reduce_axes(op: str, what: str, x: Tensor, axis: Any, keepdims: Any) -> Tensor:
    """Emit reduction `op` over the axes that `axis` means."""
    found = axes(what, axis, x.type.rank)
    return x.graph.emit(op, x, axes=found, keepdims=flag(keepdims))


def _count(x: Tensor, axis: Any, what: str) -> int:
    return math.prod(x.type.shape[a] for a in axes(what, axis, x.type.rank))


@library.builtin("sum", "(x &key axis keepdims)")
def sum_(x: Any, *, axis: Any = NIL, keepdims: Any = NIL) -> Tensor:
    """The sum; integers and bools sum in i32 and wider as they are."""
    tensor = as_tensor(x, "sum")
    if tensor.type.dtype in ("bool", "u8"):
        tensor = tensor.graph.emit("cast", tensor, dtype="i32")
    return reduce_axes("sum", "sum", tensor, axis, keepdims)


@library.builtin("mean", "(x &key axis keepdims)")
def mean(x: Any, *, axis: Any = NIL, keepdims: Any = NIL) -> Tensor:
    """Sum divided by count; E-VALUE-011 over no elements."""
    tensor = float_tensor("mean", x)
    count = _count(tensor, axis, "mean")
    if count == 0:
        raise error("E-VALUE-011", "`mean` of no elements", actual=str(tensor.type), notes=tensor.provenance())
    return pointwise("div", "mean", reduce_axes("sum", "mean", tensor, axis, keepdims), float(count))


@library.builtin("var", "(x &key axis keepdims ddof)")
def var(x: Any, *, axis: Any = NIL, keepdims: Any = NIL, ddof: Any = 0) -> Tensor:
    """mean((x - mean(x))^2), biased; `:ddof 1` divides by n - 1."""
    tensor = float_tensor("var", x)
    count = _count(tensor, axis, "var") - integer("var", ddof, ":ddof")
    if count <= 0:
        raise error("E-VALUE-011", "`var` of too few elements", actual=str(tensor.type), notes=tensor.provenance())
    center = pointwise("sub", "var", tensor, mean(tensor, axis=axis, keepdims=True))
    return pointwise(
        "div",
        "var",
        reduce_axes("sum", "var", pointwise("square", "var", center), axis, keepdims),
        float(count),
    )


def _plain(name: str, op: str, doc: str) -> None:
    def rule(x: Any, *, axis: Any = NIL, keepdims: Any = NIL) -> Tensor:
        return reduce_axes(op, name, as_tensor(x, name), axis, keepdims)

    rule.__doc__ = doc
    library.builtin(name, "(x &key axis keepdims)")(rule)


for _name, _op, _doc in (
    ("amax", "amax", "The greatest element."),
    ("amin", "amin", "The least element."),
    ("prod", "prod", "The product."),
    ("any", "any", "bool: whether some element is true."),
    ("all", "all", "bool: whether every element is true."),
):
    _plain(_name, _op, _doc)


def _arg(name: str, op: str, doc: str) -> None:
    def rule(x: Any, *, axis: Any = -1, keepdims: Any = NIL) -> Tensor:
        tensor = as_tensor(x, name)
        return tensor.graph.emit(op, tensor, axis=one_axis(name, axis, tensor.type.rank), keepdims=flag(keepdims))

    rule.__doc__ = doc
    library.builtin(name, "(x &key axis keepdims)")(rule)


_arg("argmax", "argmax", "i32 index of the greatest element along `:axis` (the last); ties give the lowest.")
_arg("argmin", "argmin", "i32 index of the least element along `:axis` (the last); ties give the lowest.")


def _along(name: str, op: str, doc: str) -> None:
    def rule(x: Any, *, axis: Any = -1) -> Tensor:
        tensor = float_tensor(name, x)
        return tensor.graph.emit(op, tensor, axis=one_axis(name, axis, tensor.type.rank))

    rule.__doc__ = doc
    library.builtin(name, "(x &key axis)")(rule)


_along("softmax", "softmax", "exp(x) / sum(exp(x)) along `:axis` (the last), shifted by the maximum.")
_along("log-softmax", "log_softmax", "x - logsumexp(x) along `:axis` (the last).")
_along("cumsum", "cumsum", "Running sums along `:axis` (the last).")


@library.builtin("logsumexp", "(x &key axis keepdims)")
def logsumexp(x: Any, *, axis: Any = -1, keepdims: Any = NIL) -> Tensor:
    """log(sum(exp(x))) along one axis (the last), shifted by the maximum."""
    tensor = float_tensor("logsumexp", x)
    at = one_axis("logsumexp", axis, tensor.type.rank)
    return tensor.graph.emit("logsumexp", tensor, axis=at, keepdims=flag(keepdims))
