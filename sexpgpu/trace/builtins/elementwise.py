"""Elementwise functions: the generic arithmetic of the language over tensors, and what Common Lisp has no name for."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from itertools import combinations, pairwise
from typing import Any

from sexpgpu.diag import error
from sexpgpu.dialects.rules import differing
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL
from sexpgpu.tensortype import INTEGERS, TensorType
from sexpgpu.trace.arguments import choice, dtype, name
from sexpgpu.trace.tensor import (
    GENERIC,
    Tensor,
    TensorLike,
    as_tensor,
    broadcast_shape,
    broadcast_to,
    float_tensor,
    number,
    pointwise,
    tensors,
)

library = Library("elementwise")


def _chain(op: str, name: str, single: Callable[[Tensor], Tensor] | None) -> Callable[..., Tensor]:
    """`(name a b c)` as ((a op b) op c); one argument by `single`."""

    def rule(*args: Any) -> Tensor:
        if len(args) == 1 and single is not None:
            return single(as_tensor(args[0], name))
        return reduce(lambda x, y: pointwise(op, name, x, y), args)  # type: ignore[no-any-return]

    return rule


def _require_two(name: str, args: tuple[Any, ...]) -> None:
    if len(args) < 2:
        raise error("E-ARG-001", f"`{name}` of one tensor compares it with nothing", expected="two arguments or more")


def _compare(op: str, name: str) -> Callable[..., Tensor]:
    """`(name a b c)`: a op b and b op c."""

    def rule(*args: Any) -> Tensor:
        _require_two(name, args)
        pairs = [pointwise(op, name, x, y) for x, y in pairwise(args)]
        return reduce(lambda p, q: pointwise("logical_and", name, p, q), pairs)

    return rule


def _differ(*args: Any) -> Tensor:
    """`(/= a b c)`: no two are equal."""
    _require_two("/=", args)
    pairs = [pointwise("ne", "/=", x, y) for x, y in combinations(args, 2)]
    return reduce(lambda p, q: pointwise("logical_and", "/=", p, q), pairs)


def _unary(op: str, name: str) -> Callable[[Any], Tensor]:
    def rule(x: Any) -> Tensor:
        return pointwise(op, name, x)

    return rule


def _rounding(op: str, name: str) -> Callable[..., Tensor]:
    """`(floor x)` and `(floor x y)`: the quotient rounded, without its remainder."""

    def rule(x: Any, by: Any = None) -> Tensor:
        return pointwise(op, name, x if by is None else _divide(x, by))

    return rule


def _float_unary(op: str, name: str) -> Callable[[Any], Tensor]:
    def rule(x: Any) -> Tensor:
        return pointwise(op, name, float_tensor(name, x))

    return rule


def _divide(*args: Any) -> Tensor:
    if len(args) == 1:
        return pointwise("div", "/", 1.0, _check_divide(as_tensor(args[0], "/")))
    _check_divide(as_tensor(next(a for a in args if isinstance(a, TensorLike)), "/"))
    return reduce(lambda x, y: pointwise("div", "/", x, y), args)  # type: ignore[no-any-return]


def _check_divide(x: Tensor) -> Tensor:
    if x.type.is_float:
        return x
    raise error(
        "E-DTYPE-005",
        "`/` of integer tensors has no single meaning",
        expected="float operands",
        actual=str(x.type),
        help="(cast x :float) before dividing",
        notes=x.provenance(),
    )


def _expt(base: Any, power: Any) -> Tensor:
    if isinstance(power, int | float) and power in (0, 1, 2, 3):
        x = as_tensor(base, "expt")
        if power == 0:
            return number_like(x, 1)
        return reduce(lambda p, q: pointwise("mul", "expt", p, q), [x] * int(power))
    return pointwise("pow", "expt", base, power)


def number_like(x: Tensor, value: float) -> Tensor:
    """A constant of the type of `x`."""
    return broadcast_to(number(x.graph, value, TensorType((), x.type.dtype), "constant"), x.type.shape)


def _log(x: Any, base: Any = None) -> Tensor:
    if base is None:
        return pointwise("log", "log", x)
    if isinstance(base, int | float | Fraction):
        if base <= 0 or base == 1:
            raise error("E-VALUE-012", "`log`: there are no logarithms to this base", actual=show(base))
        return pointwise("div", "log", pointwise("log", "log", x), math.log(base))
    number = 1.0 * x if isinstance(x, int | Fraction) else x
    return pointwise("div", "log", pointwise("log", "log", number), pointwise("log", "log", base))


def _mod(x: Any, y: Any) -> Tensor:
    if isinstance(y, int | float | Fraction) and y == 0:
        raise error("E-VALUE-001", "`mod`: division by zero", expected="a divisor that is not 0", actual=show(y))
    return pointwise("mod", "mod", x, y)


GENERIC.update(
    {
        "+": _chain("add", "+", lambda x: x),
        "*": _chain("mul", "*", lambda x: x),
        "-": _chain("sub", "-", lambda x: pointwise("neg", "-", x)),
        "/": _divide,
        "max": _chain("maximum", "max", lambda x: x),
        "min": _chain("minimum", "min", lambda x: x),
        "1+": lambda x: pointwise("add", "1+", x, 1),
        "1-": lambda x: pointwise("sub", "1-", x, 1),
        "expt": _expt,
        "log": _log,
        "mod": _mod,
        "/=": _differ,
        "signum": _unary("sign", "signum"),
        "floor": _rounding("floor", "floor"),
        "ceiling": _rounding("ceil", "ceiling"),
        "round": _rounding("round", "round"),
        "abs": _unary("abs", "abs"),
    }
)
for _name, _op in (("=", "eq"), ("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge")):
    GENERIC[_name] = _compare(_op, _name)
for _name in ("exp", "sqrt", "sin", "cos", "tanh"):
    GENERIC[_name] = _float_unary(_name, _name)


def _define(name: str, doc: str, dtypes: str, source: str) -> None:
    """A function of one tensor, named as its operation, that Common Lisp has no name for."""
    rule = _float_unary(name, name) if dtypes == "floats" else _unary(name, name)
    lines = ("Shapes: any -> the same.", f"Dtypes: {dtypes}.", "Errors: E-DTYPE-001.", f"Source: {source}.")
    rule.__doc__ = doc + "\n\n" + "\n".join(lines)
    library.builtin(name, "(x)")(rule)


for _name, _doc, _dtypes, _source in (
    ("rsqrt", "1/sqrt(x).", "floats", "PyTorch `rsqrt`"),
    ("log1p", "log(1 + x), exact for small x.", "floats", "NumPy `log1p`"),
    ("expm1", "exp(x) - 1, exact for small x.", "floats", "NumPy `expm1`"),
    ("sigmoid", "1/(1 + exp(-x)).", "floats", "PyTorch `sigmoid`"),
    ("erf", "The error function, within 2 ulp.", "floats", "PyTorch `erf`"),
    ("relu", "max(x, 0); its derivative at 0 is 0.", "numbers", "PyTorch `relu`"),
    ("silu", "x * sigmoid(x).", "floats", 'Elfwing et al., "Sigmoid-weighted linear units" (2017)'),
    ("softplus", "log(1 + exp(x)), without overflow.", "floats", "PyTorch `softplus`, without its threshold"),
    ("square", "x * x.", "numbers", "NumPy `square`"),
):
    _define(_name, _doc, _dtypes, _source)


@library.builtin("sign", "(x)")
def sign(x: Any) -> Tensor:
    """-1, 0 or 1 by the sign of each element.

    Shapes: any -> the same.
    Dtypes: numbers.
    Errors: E-DTYPE-001.
    Source: NumPy `sign`. Its derivative is 0.
    """
    return pointwise("sign", "sign", x)


@library.builtin("gelu", "(x &key approximate)")
def gelu(x: Any, *, approximate: Any = NIL) -> Tensor:
    """x * Phi(x) by the error function; `:approximate :tanh` is the tanh form (Hendrycks & Gimpel 2016).

    Shapes: any -> the same.
    Dtypes: floats.
    Errors: E-DTYPE-001; E-ARG-011 another approximation.
    Source: Hendrycks & Gimpel, "Gaussian error linear units" (2016).
    """
    form = "none" if approximate is NIL else choice("gelu", approximate, ":approximate", ("none", "tanh"))
    tensor = float_tensor("gelu", x)
    return tensor.graph.emit("gelu", tensor, approximate=form)


@library.builtin("where", "(test a b)")
def where(test: Any, a: Any, b: Any) -> Tensor:
    """Elementwise `a` where the bool tensor `test` is true, else `b`; all three broadcast.

    Two Lisp floats make a tensor of the run's float type. E-DTYPE-006 when `test` is not bool.

    Shapes: all broadcast to one shape.
    Dtypes: `test` bool; a and b alike, two Lisp floats the run's float.
    Errors: E-DTYPE-006 a test that is not bool; E-SHAPE-001; E-DTYPE-002.
    Source: NumPy `where`.
    """
    condition = as_tensor(test, "where")
    if condition.type.dtype != "bool":
        raise error(
            "E-DTYPE-006",
            "`where` needs a bool test",
            expected="bool",
            actual=str(condition.type),
            help="compare: (where (/= x 0) a b)",
            notes=condition.provenance(),
        )
    x, y = tensors("where", a, b)
    shape = broadcast_shape("where", condition, x, y)
    return condition.graph.emit("where", *(broadcast_to(t, shape) for t in (condition, x, y)))


@library.builtin("%require-same-shape", "(what x y)")
def require_same_shape(what: Any, x: Any, y: Any) -> Any:
    """nil; E-SHAPE-025 when two tensors differ in shape: a loss that broadcast would average over the wrong pairs."""
    if isinstance(x, TensorLike) and isinstance(y, TensorLike) and x.type.shape != y.type.shape:
        first, second = (as_tensor(value, name("a loss", what)) for value in (x, y))
        raise error(
            "E-SHAPE-025",
            f"`{name('a loss', what)}` pairs its arguments element by element, and their shapes differ",
            expected="equal shapes",
            actual=" and ".join(differing(first.type, second.type)),
            help="(squeeze x -1), (unsqueeze y -1) or (broadcast-to y shape), whichever is meant",
            notes=[*first.provenance(), *second.provenance()],
        )
    return NIL


@library.builtin("%require-labels", "(what logits labels)")
def require_labels(what: Any, logits: Any, labels: Any) -> Any:
    """nil; E-DTYPE-007 where labels are no integers, E-SHAPE-026 where there is not one for each row of the logits."""
    label = name("a loss", what)
    rows, given = as_tensor(logits, label), as_tensor(labels, label)
    notes = [*rows.provenance(), *given.provenance()]
    wanted = f"{TensorType(rows.type.shape[:-1], 'i32')} for the logits {rows.type}"
    if given.type.dtype not in INTEGERS:
        message = f"`{label}` needs the numbers of the classes as labels, not {given.type.dtype}"
        raise error("E-DTYPE-007", message, expected=wanted, actual=str(given.type), notes=notes)
    if given.type.shape != rows.type.shape[:-1]:
        message = f"`{label}` needs one label for each row of the logits"
        raise error("E-SHAPE-026", message, expected=wanted, actual=str(given.type), notes=notes)
    return NIL


@library.builtin("clip", "(x low high)")
def clip(x: Any, low: Any, high: Any) -> Tensor:
    """x limited to [low, high]; a nil bound is none.

    Shapes: bounds broadcast with x.
    Dtypes: numbers, the same for all.
    Errors: E-SHAPE-001, E-DTYPE-002, E-DTYPE-008; E-VALUE-012 bounds in the other order.
    Source: NumPy `clip`; at a bound half of the derivative passes, as in JAX.
    """
    tensor = as_tensor(x, "clip")
    known = [bound for bound in (low, high) if isinstance(bound, int | float | Fraction)]
    if len(known) == 2 and not known[0] <= known[1]:
        raise error("E-VALUE-012", "`clip`: low is above high", expected=f"low <= {show(high)}", actual=show(low))
    if low is not NIL:
        tensor = pointwise("maximum", "clip", tensor, low)
    return tensor if high is NIL else pointwise("minimum", "clip", tensor, high)


@library.builtin("lerp", "(x y weight)")
def lerp(x: Any, y: Any, weight: Any) -> Tensor:
    """x + (y - x) * weight.

    Shapes: all broadcast to one shape.
    Dtypes: floats, the same for all.
    Errors: E-SHAPE-001, E-DTYPE-002.
    Source: PyTorch `lerp`.
    """
    step = pointwise("mul", "lerp", pointwise("sub", "lerp", y, x), weight)
    return pointwise("add", "lerp", x, step)


@library.builtin("cast", "(x dtype)")
def cast(x: Any, to: Any) -> Tensor:
    """x in another dtype; floats to integers truncate, numbers to bool ask for non-zero. `:float` is the run's.

    Shapes: any -> the same.
    Dtypes: any -> `dtype`: nearest for floats, towards 0 for integers, not 0 for bool. Derivatives pass between
    floats.
    Errors: E-DTYPE-003 no such dtype.
    Source: NumPy `astype`.
    """
    tensor = as_tensor(x, "cast")
    target = dtype("cast", to, tensor.graph.float_type)
    return tensor if tensor.type.dtype == target else tensor.graph.emit("cast", tensor, dtype=target)


@library.builtin("isfinite", "(x)")
def isfinite(x: Any) -> Tensor:
    """bool: neither infinite nor NaN, elementwise.

    Shapes: any -> the same.
    Dtypes: floats -> bool.
    Errors: E-DTYPE-001.
    Source: NumPy `isfinite`.
    """
    return pointwise("isfinite", "isfinite", x)


@library.builtin("stop-gradient", "(x)")
def stop_gradient(x: Any) -> Tensor:
    """x, through which no derivative flows.

    Shapes: any -> the same.
    Dtypes: any.
    Errors: E-TYPE-011 what is no tensor.
    Source: JAX `stop_gradient`.
    """
    return pointwise("stop_gradient", "stop-gradient", x)


@library.builtin("logical-and", "(x y)")
def logical_and(x: Any, y: Any) -> Tensor:
    """Elementwise conjunction of bool tensors.

    Shapes: both broadcast to one shape.
    Dtypes: bool.
    Errors: E-DTYPE-001, E-SHAPE-001.
    Source: NumPy `logical_and`.
    """
    return pointwise("logical_and", "logical-and", x, y)


@library.builtin("logical-or", "(x y)")
def logical_or(x: Any, y: Any) -> Tensor:
    """Elementwise disjunction of bool tensors.

    Shapes: both broadcast to one shape.
    Dtypes: bool.
    Errors: E-DTYPE-001, E-SHAPE-001.
    Source: NumPy `logical_or`.
    """
    return pointwise("logical_or", "logical-or", x, y)


@library.builtin("logical-not", "(x)")
def logical_not(x: Any) -> Tensor:
    """Elementwise negation of a bool tensor.

    Shapes: any -> the same.
    Dtypes: bool.
    Errors: E-DTYPE-001.
    Source: NumPy `logical_not`.
    """
    return pointwise("logical_not", "logical-not", x)
