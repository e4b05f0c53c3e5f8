"""Reductions: `:axis` is an axis, a list of axes, or nil for all of them; `:keepdims t` keeps reduced axes as 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL
from sexpgpu.trace.arguments import axes, flag, integer
from sexpgpu.trace.arguments import axis as one_axis
from sexpgpu.trace.builtins.movement import reshape_to
from sexpgpu.trace.tensor import Tensor, as_tensor, float_tensor, pointwise

library = Library("reductions")


def reduce_axes(op: str, what: str, x: Tensor, axis: Any, keepdims: Any) -> Tensor:
    """Emit reduction `op` over the axes that `axis` means."""
    found = axes(what, axis, x.type.rank)
    return x.graph.emit(op, x, axes=found, keepdims=flag(keepdims))


def counted(x: Tensor) -> Tensor:
    """x in a dtype that holds its sums: bool and u8 count in i32."""
    return x.graph.emit("cast", x, dtype="i32") if x.type.dtype in ("bool", "u8") else x


def _count(x: Tensor, axis: Any, what: str) -> int:
    return math.prod(x.type.shape[a] for a in axes(what, axis, x.type.rank))


@library.builtin("sum", "(x &key axis keepdims)")
def sum_(x: Any, *, axis: Any = NIL, keepdims: Any = NIL) -> Tensor:
    """The sum; integers and bools sum in i32 and wider as they are.

    Shapes: the axes of `:axis` (an integer, a list, or nil for all) go, or become 1 with `:keepdims`.
    Dtypes: numbers and bool.
    Errors: E-SHAPE-002, E-SHAPE-003.
    Source: NumPy `sum`. Of nothing it is 0.
    """
    return reduce_axes("sum", "sum", counted(as_tensor(x, "sum")), axis, keepdims)


@library.builtin("prod", "(x &key axis keepdims)")
def prod(x: Any, *, axis: Any = NIL, keepdims: Any = NIL) -> Tensor:
    """The product; of nothing it is 1.

    Shapes: as for `sum`.
    Dtypes: numbers and bool, which multiply as `sum` adds them.
    Errors: E-SHAPE-002, E-SHAPE-003.
    Source: NumPy `prod`. Its derivative is exact where elements are 0.
    """
    return reduce_axes("prod", "prod", counted(as_tensor(x, "prod")), axis, keepdims)


@library.builtin("mean", "(x &key axis keepdims)")
def mean(x: Any, *, axis: Any = NIL, keepdims: Any = NIL) -> Tensor:
    """Sum divided by count; E-VALUE-011 over no elements.

    Shapes: as for `sum`.
    Dtypes: floats.
    Errors: E-VALUE-011 of no elements; E-DTYPE-001; E-SHAPE-002, E-SHAPE-003.
    Source: NumPy `mean`.
    """
    tensor = float_tensor("mean", x)
    count = _count(tensor, axis, "mean")
    if count == 0:
        raise error("E-VALUE-011", "`mean` of no elements", actual=str(tensor.type), notes=tensor.provenance())
    return pointwise("div", "mean", reduce_axes("sum", "mean", tensor, axis, keepdims), float(count))


@library.builtin("var", "(x &key axis keepdims ddof)")
def var(x: Any, *, axis: Any = NIL, keepdims: Any = NIL, ddof: Any = 0) -> Tensor:
    """mean((x - mean(x))^2), biased; `:ddof 1` divides by n - 1.

    Shapes: as for `sum`.
    Dtypes: floats.
    Errors: E-VALUE-011 of too few elements; E-DTYPE-001; E-SHAPE-002, E-SHAPE-003.
    Source: NumPy `var`, in two passes.
    """
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


def _labelled(doc: str, shapes: str, dtypes: str, errors: str, source: str) -> str:
    lines = (f"Shapes: {shapes}.", f"Dtypes: {dtypes}.", f"Errors: {errors}.", f"Source: {source}.")
    return doc + "\n\n" + "\n".join(lines)


def _plain(name: str, doc: str, dtypes: str, errors: str) -> None:
    def rule(x: Any, *, axis: Any = NIL, keepdims: Any = NIL) -> Tensor:
        return reduce_axes(name, name, as_tensor(x, name), axis, keepdims)

    errors += "; E-SHAPE-002, E-SHAPE-003"
    rule.__doc__ = _labelled(doc, "as for `sum`", dtypes, errors, f"NumPy `{name}`")
    library.builtin(name, "(x &key axis keepdims)")(rule)


for _name, _doc, _dtypes, _errors in (
    ("amax", "The greatest element, NaN if one is; equals share the derivative.", "numbers", "E-SHAPE-011 of nothing"),
    ("amin", "The least element, NaN if one is; equals share the derivative.", "numbers", "E-SHAPE-011 of nothing"),
    ("any", "Whether some element is true.", "bool", "E-DTYPE-001 what is not bool"),
    ("all", "Whether every element is true.", "bool", "E-DTYPE-001 what is not bool"),
):
    _plain(_name, _doc, _dtypes, _errors)


def _arg(name: str, which: str) -> None:
    def rule(x: Any, *, axis: Any = -1, keepdims: Any = NIL) -> Tensor:
        tensor = as_tensor(x, name)
        if tensor.type.dtype == "bool":
            tensor = counted(tensor)
        return tensor.graph.emit(name, tensor, axis=one_axis(name, axis, tensor.type.rank), keepdims=flag(keepdims))

    rule.__doc__ = _labelled(
        f"The index of the {which} element along `:axis` (the last); of equals the lowest.",
        "one axis goes, or becomes 1 with `:keepdims`",
        "numbers and bool -> i32",
        "E-SHAPE-011 of nothing; E-SHAPE-002",
        f"NumPy `{name}`",
    )
    library.builtin(name, "(x &key axis keepdims)")(rule)


_arg("argmax", "greatest")
_arg("argmin", "least")


def _one_line(what: str, x: Tensor, axis: Any) -> tuple[Tensor, int, Callable[[Tensor], Tensor]]:
    """x with the axes that `axis` means as one, which axis that is, and what brings a result of x's shape back."""
    found = axes(what, axis, x.type.rank)
    if len(found) == 1:
        return x, found[0], lambda y: y
    rest = [a for a in range(x.type.rank) if a not in found]
    perm = (*rest, *found)
    moved = x.graph.emit("transpose", x, perm=perm)
    shape = moved.type.shape
    flat = reshape_to(moved, (*shape[: len(rest)], math.prod(shape[len(rest) :])))

    def back(y: Tensor) -> Tensor:
        inverse = tuple(perm.index(a) for a in range(len(perm)))
        return y.graph.emit("transpose", reshape_to(y, shape), perm=inverse)

    return flat, len(rest), back


def _along(name: str, op: str, doc: str, source: str) -> None:
    def rule(x: Any, *, axis: Any = -1) -> Tensor:
        lines, at, back = _one_line(name, float_tensor(name, x), axis)
        return back(lines.graph.emit(op, lines, axis=at))

    errors = "E-DTYPE-001; E-SHAPE-002, E-SHAPE-003"
    rule.__doc__ = _labelled(doc, "any -> the same; lines along one axis or several", "floats", errors, source)
    library.builtin(name, "(x &key axis)")(rule)


_along(
    "softmax", "softmax", "exp(x) / sum(exp(x)) along `:axis` (the last), shifted by the maximum.", "PyTorch `softmax`"
)
_along("log-softmax", "log_softmax", "x - logsumexp(x) along `:axis` (the last).", "PyTorch `log_softmax`")


@library.builtin("logsumexp", "(x &key axis keepdims)")
def logsumexp(x: Any, *, axis: Any = -1, keepdims: Any = NIL) -> Tensor:
    """log(sum(exp(x))) along `:axis` (the last), shifted by the maximum.

    Shapes: as for `sum`, but along the last axis unless `:axis` says otherwise.
    Dtypes: floats.
    Errors: E-DTYPE-001; E-SHAPE-002, E-SHAPE-003.
    Source: PyTorch `logsumexp`.
    """
    tensor = float_tensor("logsumexp", x)
    lines, at, _ = _one_line("logsumexp", tensor, axis)
    total = lines.graph.emit("logsumexp", lines, axis=at, keepdims=False)
    if not flag(keepdims):
        return total
    folded = axes("logsumexp", axis, tensor.type.rank)
    return reshape_to(total, tuple(1 if i in folded else n for i, n in enumerate(tensor.type.shape)))


@library.builtin("cumsum", "(x &key axis reverse)")
def cumsum(x: Any, *, axis: Any = -1, reverse: Any = NIL) -> Tensor:
    """Running sums along `:axis` (the last), from the end back with `:reverse`.

    Shapes: any -> the same; one axis.
    Dtypes: numbers; bool and u8 count in i32.
    Errors: E-SHAPE-002; E-DTYPE-001.
    Source: NumPy `cumsum`.
    """
    tensor = counted(as_tensor(x, "cumsum"))
    at = one_axis("cumsum", axis, tensor.type.rank)
    if not flag(reverse):
        return tensor.graph.emit("cumsum", tensor, axis=at)
    turned = tensor.graph.emit("flip", tensor, axes=(at,))
    return turned.graph.emit("flip", turned.graph.emit("cumsum", turned, axis=at), axes=(at,))
