"""Tensors as the language sees them, and how ordinary values and tensors meet.

A `Tensor` is a node of one graph. A `Reference` (a parameter, a buffer, a scalar of the loop) has no node until a graph
reads it. Both are `Foreign` values whose arithmetic goes through `GENERIC`, the table of generic functions.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from mlir import ir

from sexpgpu.diag import Note, Span, SxError, error
from sexpgpu.dialects.builder import Val
from sexpgpu.dialects.opdef import Array
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.rules import marked
from sexpgpu.lang.conditions import Poisoned
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import Symbol
from sexpgpu.lang.poison import Poison
from sexpgpu.tensortype import DType, TensorType
from sexpgpu.trace.graph import GraphTrace, active_graph, current_graph

GENERIC: dict[str, Callable[..., Any]] = {}
"""Generic functions by Lisp name; each takes the arguments as the call wrote them."""


class TensorLike(Foreign):
    """What a tensor and a reference to one have in common."""

    __slots__ = ()

    @property
    def type(self) -> TensorType:
        raise TypeError("a subclass gives the type")

    def lisp_generic(self, name: str, args: tuple[Any, ...], /) -> Any:
        rule = GENERIC.get(name)
        if rule is None:
            raise error("E-TYPE-010", f"`{name}` does not take a tensor", actual=str(self.type))
        return rule(*args)

    def lisp_test(self) -> bool:
        raise error(
            "E-FLOW-001",
            "a tensor cannot be a test: its value is known only when the graph runs",
            expected="an ordinary value",
            actual=f"{self.lisp_print()}",
            help="(where test a b) computes both and picks by element; (dim x i), (rank x), (null x) are ordinary",
        )

    def lisp_refused(self, message: str, needs: str, /) -> SxError:
        rank = self.type.rank
        loop = "(dotimes (i (dim x 0)) ...) counts its rows, (gather x i) reads one" if rank else None
        return error(
            "E-FLOW-001",
            f"{message}: what a tensor holds is known only when the graph runs",
            expected=needs,
            actual=self.lisp_print(),
            help=f"(shape x) is a list and (dim x 0) an integer, both known now; {loop}" if loop else None,
        )

    def lisp_print(self) -> str:
        return f"#<tensor {self.type}>"


class Tensor(TensorLike):
    """A value of `graph`; `span` and `source` say which form made it and with what."""

    __slots__ = ("graph", "source", "span", "val", "weight")

    def __init__(self, graph: GraphTrace, val: Val, span: Span | None, source: str) -> None:
        self.graph = graph
        self.val = val
        self.span = span
        self.source = source
        self.weight: Tensor | None = None  # the denominator of a masked mean: how a metric weighs it

    @property
    def type(self) -> TensorType:
        return self.val.type

    def provenance(self) -> list[Note]:
        """Where the tensor and its sizes come from, for an error about it."""
        known = self.graph.tracer.sizes
        sizes = [f"{size} is the value of {known[size]}" for size in dict.fromkeys(self.type.shape) if size in known]
        return [Note(f"{self.type} is {self.source}" + "".join(f"; {s}" for s in sizes), self.span)]


class Reference(TensorLike):
    """A named value that each graph reading it gets as an argument."""

    __slots__ = ()

    def resolve(self, graph: GraphTrace) -> Tensor:
        raise TypeError("a subclass resolves itself")


def as_tensor(value: Any, what: str, *, like: TensorType | None = None) -> Tensor:
    """`value` as a tensor of the current graph; a Lisp number becomes a scalar of dtype `like` or the run's float.

    E-FLOW-002: a tensor of another graph. E-TYPE-011: neither tensor nor number.
    """
    if isinstance(value, Tensor):
        graph = active_graph()
        if value.graph is graph:
            return value
        if graph is not None:
            return graph.reach(value)
        raise error(
            "E-FLOW-002",
            f"this tensor belongs to graph `{value.graph.name}`, but no graph is being traced",
            help="pass it as an argument, or compute it again inside this function",
            notes=value.provenance(),
        )
    if isinstance(value, Reference):
        return value.resolve(current_graph(what))
    if isinstance(value, Poison):
        raise Poisoned(value.diagnostic)
    if isinstance(value, int | float | Fraction):
        graph = current_graph(what)
        dtype = like.dtype if like else graph.float_type if isinstance(value, float | Fraction) else "i32"
        return number(graph, value, TensorType((), dtype), what)
    raise error("E-TYPE-011", f"`{what}` needs a tensor", actual=described(value))


def number(graph: GraphTrace, value: Any, type: TensorType, what: str) -> Tensor:
    """A Lisp number as a constant of `type`.

    E-TYPE-011: no number. E-DTYPE-008: a fraction meets an integer tensor. E-VALUE-012: the dtype does not hold it.
    """
    if not isinstance(value, int | float | Fraction):
        raise error("E-TYPE-011", f"`{what}` needs a number", actual=described(value))
    if type.is_float:
        return graph.constant(float(value), type)
    if not (isinstance(value, int) or (float(value).is_integer() and type.dtype == "bool")):
        raise error(
            "E-DTYPE-008",
            f"`{what}`: the float {float(value)!r} meets a tensor of {type.dtype}",
            expected="a whole number, or a float tensor",
            actual=f"{float(value)!r} and {type}",
            help="(cast x :float) makes the tensor a float one",
        )
    require_held(what, int(value), int(value), type.dtype)
    return graph.constant(int(value), type)


def require_held(what: str, least: int, greatest: int, dtype: DType) -> None:
    """E-VALUE-012 unless an integer dtype, or bool, holds the numbers from `least` to `greatest`."""
    low, high = _HELD[dtype]
    if least < low or greatest > high:
        raise error(
            "E-VALUE-012",
            f"`{what}`: {least if least < low else greatest} is no number of {dtype}",
            expected=f"{low} to {high}",
            actual=str(least if least < low else greatest),
        )


_HELD: dict[DType, tuple[int, int]] = {
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u8": (0, 255),
    "bool": (0, 1),
}


def constant_of(x: Tensor) -> Array | None:
    """The value of a tensor that is a constant, None for any other."""
    made = x.val.value.owner
    if isinstance(made, ir.Block) or op_name(made) != "constant":
        return None
    value: Array = attrs_of(made)["value"].array()
    return value


def tensors(what: str, *values: Any) -> list[Tensor]:
    """`values` as tensors of one dtype: Lisp numbers take the dtype of the first tensor among them.

    E-DTYPE-002 when two tensors differ in dtype: nothing promotes silently.
    """
    like = next((v.type for v in values if isinstance(v, TensorLike)), None)
    found = [as_tensor(v, what, like=like) for v in values]
    first = found[0]
    for other in found[1:]:
        if other.type.dtype != first.type.dtype:
            # Integers become floats, never the other way: that would lose the fractions and the gradient.
            kept, where = (other, "other") if other.type.is_float and not first.type.is_float else (first, "first")
            raise error(
                "E-DTYPE-002",
                f"`{what}`: the operands differ in dtype",
                expected=f"{kept.type.dtype}, as the {where} operand",
                actual=f"{first.type} and {other.type}",
                help=f"(cast x :{kept.type.dtype})",
                notes=[*first.provenance(), *other.provenance()],
            )
    return found


def float_tensor(what: str, value: Any) -> Tensor:
    """`value` as a tensor, which must be a float one (E-DTYPE-001)."""
    tensor = as_tensor(value, what)
    if not tensor.type.is_float:
        raise error(
            "E-DTYPE-001",
            f"`{what}` needs a float tensor",
            expected="f32, f64 or bf16",
            actual=str(tensor.type),
            help="(cast x :float)",
            notes=tensor.provenance(),
        )
    return tensor


def broadcast_shape(what: str, *operands: Tensor) -> tuple[int, ...]:
    """The common shape by NumPy's rule; E-SHAPE-001 names the axis that does not fit and where the sizes come from."""
    shapes = {t.type.shape for t in operands}
    if len(shapes) == 1:
        return shapes.pop()
    rank = max(map(len, shapes))
    result = [1] * rank
    for operand in operands:
        shape = operand.type.shape
        for i, size in enumerate(shape, rank - len(shape)):
            if size == 1 or size == result[i]:
                continue
            if result[i] != 1:
                raise error(
                    "E-SHAPE-001",
                    f"`{what}`: the shapes do not broadcast: axis {i - rank} is {result[i]} in one, {size} in another",
                    expected="equal sizes, or 1, on every axis counted from the right",
                    actual=" and ".join(marked(t.type, i - rank) for t in operands),
                    notes=[note for t in operands for note in t.provenance()],
                )
            result[i] = size
    return tuple(result)


def broadcast_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`x` stretched to `shape` (its own shape: itself)."""
    return x if x.type.shape == shape else x.graph.emit("broadcast", x, shape=shape)


def _weight(op: str, values: tuple[Any, ...], operands: list[Tensor]) -> Tensor | None:
    """The weight of the result: scaling, shifting and adding keep a weighted mean one; nothing else does."""
    given = [t.weight for t, v in zip(operands, values, strict=True) if isinstance(v, TensorLike)]
    if not given or given[0] is None or any(w is not given[0] for w in given):
        return None
    scaled = len(given) == 1 and (op == "mul" or (op == "div" and isinstance(values[0], TensorLike)))
    return given[0] if op in ("add", "sub", "neg") or scaled else None


def pointwise(op: str, what: str, *values: Any) -> Tensor:
    """One elementwise operation over broadcast operands of one dtype."""
    operands = tensors(what, *values)
    weight = _weight(op, values, operands)
    if len(operands) > 1:
        shape = broadcast_shape(what, *operands)
        operands = [broadcast_to(t, shape) for t in operands]
    result = operands[0].graph.emit(op, *operands)
    result.weight = weight
    return result


def described(value: Any) -> str:
    """A value that is no tensor as an error tells it."""
    if isinstance(value, Foreign):
        return value.lisp_print()
    if isinstance(value, Symbol):
        return f"the symbol {value!r}"
    if isinstance(value, str):
        return f'the string "{value[:40]}"'
    from sexpgpu.lang.printer import print_form

    return print_form(value)[:60]
