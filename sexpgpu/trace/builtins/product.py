"""Products of tensors."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import error
from sexpgpu.dialects.rules import marked
from sexpgpu.lang.builtin import Library
from sexpgpu.trace.builtins.movement import reshape_to
from sexpgpu.trace.tensor import Tensor, broadcast_shape, broadcast_to, pointwise, tensors

library = Library("products")


@library.builtin("matmul", "(x y)")
def matmul(x: Any, y: Any) -> Tensor:
    """Matrix product of [..., m, k] and [..., k, n]; leading axes broadcast; a vector counts as one row or column.

    E-SHAPE-013 names both contracted sizes and where they come from.

    Shapes: [..., m, k] and [..., k, n] -> [..., m, n].
    Dtypes: numbers, the same for both.
    Errors: E-SHAPE-013; E-DTYPE-001, E-DTYPE-002.
    Source: NumPy `matmul`.
    """
    a, b = tensors("matmul", x, y)
    if a.type.rank == 0 or b.type.rank == 0:
        raise _mismatch(a, b, "a scalar has no axis to contract")
    if a.type.shape[-1] != b.type.shape[-2 if b.type.rank > 1 else 0]:
        axis = -2 if b.type.rank > 1 else 0
        why = f"the contracted sizes differ: {a.type.shape[-1]} and {b.type.shape[axis]}"
        raise _mismatch(a, b, why, f"{marked(a.type, -1)} and {marked(b.type, axis)}")
    if b.type.rank == 1:
        column = matmul(a, reshape_to(b, (*b.type.shape, 1)))
        return reshape_to(column, column.type.shape[:-1])
    if a.type.rank == 1:
        row = matmul(reshape_to(a, (1, *a.type.shape)), b)
        return reshape_to(row, (*row.type.shape[:-2], row.type.shape[-1]))
    if b.type.rank == 2:
        # One product over all rows instead of one a batch: faster, and its weight gradient is one product too.
        *lead, k = a.type.shape
        rows = a.type.size // k if k else 0
        flat = a.graph.emit("matmul", reshape_to(a, (rows, k)), b) if k else None
        if flat is not None:
            return reshape_to(flat, (*lead, b.type.shape[1]))
    batch = _batch(a, b)
    wide_a = broadcast_to(a, (*batch, *a.type.shape[-2:]))
    wide_b = broadcast_to(b, (*batch, *b.type.shape[-2:]))
    return a.graph.emit("matmul", wide_a, wide_b)


def _batch(a: Tensor, b: Tensor) -> tuple[int, ...]:
    lead_a, lead_b = a.type.shape[:-2], b.type.shape[:-2]
    rank = max(len(lead_a), len(lead_b))
    padded = [(1,) * (rank - len(s)) + s for s in (lead_a, lead_b)]
    if any(p != q and 1 not in (p, q) for p, q in zip(*padded, strict=True)):
        raise _mismatch(a, b, "the leading axes do not broadcast")
    return tuple(q if p == 1 else p for p, q in zip(*padded, strict=True))


def _mismatch(a: Tensor, b: Tensor, why: str, actual: str | None = None) -> Exception:
    fits = b.type.rank >= 2 and a.type.rank >= 1 and a.type.shape[-1:] == b.type.shape[-1:]
    return error(
        "E-SHAPE-013",
        f"`matmul`: {why}",
        expected="[..., m, k] and [..., k, n]",
        actual=actual or f"{a.type} and {b.type}",
        help="(matmul x (transpose w))" if fits else None,
        notes=[*a.provenance(), *b.provenance()],
    )


@library.builtin("outer", "(x y)")
def outer(x: Any, y: Any) -> Tensor:
    """x_i * y_j for vectors [n] and [m]: [n, m].

    Shapes: [n] and [m] -> [n, m].
    Dtypes: numbers, the same for both.
    Errors: E-SHAPE-012 not two vectors; E-DTYPE-002.
    Source: NumPy `outer`.
    """
    a, b = tensors("outer", x, y)
    if a.type.rank != 1 or b.type.rank != 1:
        raise error("E-SHAPE-012", "`outer` needs two vectors", actual=f"{a.type} and {b.type}")
    column = reshape_to(a, (a.type.size, 1))
    shape = (a.type.size, b.type.size)
    return pointwise("mul", "outer", broadcast_to(column, shape), broadcast_to(b, shape))


__all__ = ["broadcast_shape", "library", "matmul"]
