"""Checks shared by the `infer` functions, and the errors a user sees when they fail.

Errors name the operand by its role in the operation, and state what was expected and what was there as facts.
None carries a span: the evaluator adds that of the calling form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from sexpgpu.diag import error
from sexpgpu.tensortype import FLOATS, INTEGERS, DType, TensorType

NUMBERS = FLOATS | INTEGERS
FULL = frozenset({"f32", "f64"})
BF16 = frozenset({"bf16"})
BOOL = frozenset({"bool"})
INDICES = frozenset({"i32", "i64"})
ANY = NUMBERS | BOOL

_CLASSES = {
    FLOATS: "a float dtype (f32, f64 or bf16)",
    INTEGERS: "an integer dtype (i32, i64 or u8)",
    NUMBERS: "a number dtype (not bool)",
    FULL: "dtype f32 or f64",
    BF16: "dtype bf16",
    BOOL: "dtype bool",
    INDICES: "an index dtype (i32 or i64)",
}
_CASTS = {
    FLOATS: ":float",
    INTEGERS: ":i32",
    NUMBERS: ":float",
    FULL: ":f32",
    BF16: ":bf16",
    BOOL: ":bool",
    INDICES: ":i32",
}


def marked(type: TensorType, *axes: int) -> str:
    """The type as text, the sizes of some axes between stars: `f32[20, *2*]`."""
    at = {axis % type.rank for axis in axes if -type.rank <= axis < type.rank}
    sizes = (f"*{size}*" if i in at else str(size) for i, size in enumerate(type.shape))
    return f"{type.dtype}[{', '.join(sizes)}]"


def differing(x: TensorType, y: TensorType, but: int | None = None) -> tuple[str, str]:
    """Two types of one rank as text, the axes marked on which their sizes differ; axis `but` does not count."""
    if x.rank != y.rank:
        return str(x), str(y)
    axes = [i for i, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)) if a != b and i != but]
    return marked(x, *axes), marked(y, *axes)


def require_dtype(op: str, role: str, type: TensorType, allowed: frozenset[str]) -> None:
    """Raises E-DTYPE-001 unless the operand's dtype is among `allowed`."""
    if type.dtype not in allowed:
        raise error(
            "E-DTYPE-001",
            f"{op}: {role} has a dtype that {op} does not take",
            expected=_CLASSES[allowed],
            actual=f"{role}: {type}",
            help=f"convert it first: (cast {role} {_CASTS[allowed]})",
        )


def require_same(op: str, roles: Sequence[str], types: Sequence[TensorType]) -> None:
    """Raises E-SHAPE-001 or E-DTYPE-002 unless all operands have one type."""
    first = types[0]
    for role, type in zip(roles[1:], types[1:], strict=True):
        if type.shape != first.shape:
            raise error(
                "E-SHAPE-001",
                f"{op}: {roles[0]} and {role} have different shapes",
                expected=f"{role} shaped as {roles[0]}: {first}",
                actual=f"{role}: {type}",
            )
        require_same_dtype(op, roles[0], first, role, type)


def require_same_dtype(op: str, role: str, type: TensorType, other_role: str, other: TensorType) -> None:
    """Raises E-DTYPE-002 unless both have one dtype."""
    if type.dtype != other.dtype:
        raise error(
            "E-DTYPE-002",
            f"{op}: {role} and {other_role} have different dtypes",
            expected=f"{other_role} of the dtype of {role}: {type}",
            actual=f"{other_role}: {other}",
            help=f"convert one: (cast {other_role} :{type.dtype})",
        )


def require_axis(op: str, axis: int, rank: int) -> None:
    """Raises E-SHAPE-002 unless 0 <= axis < rank (in the dialect an axis counts from the front)."""
    if not 0 <= axis < rank:
        raise error(
            "E-SHAPE-002",
            f"{op}: axis {axis} is not an axis of the tensor",
            expected=f"an axis from {-rank} to {rank - 1}" if rank else "no axis: the tensor is a scalar",
            actual=f"axis {axis} of a tensor with {rank} axes",
        )


def normalize_axis(op: str, axis: int, rank: int) -> int:
    """The axis counted from the front; negative ones count from the end. Raises E-SHAPE-002."""
    if -rank <= axis < 0:
        return axis + rank
    require_axis(op, axis, rank)
    return axis


def require_axes(op: str, axes: tuple[int, ...], rank: int) -> None:
    """Raises E-SHAPE-002 or E-SHAPE-003 unless `axes` are different axes of a tensor of that rank."""
    for axis in axes:
        require_axis(op, axis, rank)
    if len(set(axes)) != len(axes):
        raise error(
            "E-SHAPE-003",
            f"{op}: an axis is given twice",
            expected="different axes",
            actual=f"axes {list(axes)}",
        )


def require_count(op: str, what: str, given: Sequence[int], rank: int) -> None:
    """Raises E-SHAPE-004 unless there is one entry an axis."""
    if len(given) != rank:
        raise error(
            "E-SHAPE-004",
            f"{op}: {what} needs one entry for each axis",
            expected=f"{rank} entries",
            actual=f"{len(given)}: {list(given)}",
        )


def require_sizes(op: str, shape: Sequence[int]) -> None:
    """Raises E-SHAPE-005 when a size is negative."""
    if any(n < 0 for n in shape):
        raise error(
            "E-SHAPE-005",
            f"{op}: a size is negative",
            expected="sizes of 0 or more",
            actual=f"shape {list(shape)}",
        )


def reduced_shape(shape: tuple[int, ...], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """The shape after folding `axes`."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def with_dtype(type: TensorType, dtype: DType) -> TensorType:
    """The same shape, another dtype."""
    return evolve(type, dtype=dtype)


def elementwise(
    op: str, roles: Sequence[str], allowed: frozenset[str], result: DType | None = None
) -> Callable[..., TensorType]:
    """The `infer` of an operation whose operands have one type, its result the same shape."""

    def infer(*types: TensorType) -> TensorType:
        first = types[0]
        if first.dtype not in allowed:
            require_dtype(op, roles[0], first, allowed)
        for type in types:
            if type is not first and type != first:
                require_same(op, roles, types)
        return first if result is None else TensorType(first.shape, result)

    return infer
