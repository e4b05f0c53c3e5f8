"""A product as cublasLt is told of it. It counts elements by columns, so it is told of the transposes.

    d [rows, columns] = a b       is, by columns,       d' [columns, rows] = b' a'

with the same bytes in memory, so cublasLt's first factor is our second. Names are those of "cuBLAS library",
cublasLtMatmul, where D = f(alpha op(A) op(B) + beta C + bias), and the bias has an element for each row of D.
"""

from __future__ import annotations

import math

from attrs import frozen

from sexpgpu.gpu.library.choice import behind
from sexpgpu.plan.library import LibraryTensor, ProductGraph, part_of, pitch
from sexpgpu.tensortype import DType

ALIGNMENT = 16
"""Bytes to which every buffer is aligned, at least."""
_EPILOGUES = {"none": "", "relu": "RELU", "gelu": "GELU", "gelu_slope": "DGELU"}


@frozen
class Matrix:
    """`batch` matrices, `step` elements apart, whose columns are `pitch` elements apart; aligned to so many bytes."""

    dtype: DType
    rows: int
    columns: int
    pitch: int
    batch: int
    step: int
    alignment: int


@frozen
class Described:
    """The matrices A, B, C and D, which of A and B is transposed, and the epilogue by its name.

    `order` are the parts of the record that A, B, C, D, the bias and the auxiliary matrix are; C is D where nothing is
    added, and the last two need not be there.
    """

    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    transposed: tuple[bool, bool]
    scale: float
    adds: bool
    tf32: bool
    epilogue: str
    aux: Matrix | None


def described(graph: ProductGraph) -> Described:
    """What cublasLt is told of a product."""
    tensors = {each.role: each for each in graph.tensors}
    first, second = _factor(tensors["b"]), _factor(tensors["a"])
    aux = part_of(graph, "aux")
    with_d = [tensors[role] for role in ("d", "bias", "aux") if role in tensors]
    d = _matrix(tensors["d"], False, math.gcd(*map(_alignment, with_d)))
    return Described(
        a=first[0],
        b=second[0],
        c=_matrix(tensors["c"], False) if "c" in tensors else d,
        d=d,
        transposed=(first[1], second[1]),
        scale=graph.scale,
        adds="c" in tensors,
        tf32=graph.tf32,
        epilogue=_epilogue(graph),
        aux=None if aux is None else _matrix(aux, False),
    )


def _factor(tensor: LibraryTensor) -> tuple[Matrix, bool]:
    """A factor, and whether cublasLt has to transpose it to have our transpose of it."""
    turned = pitch(tensor) is None
    return _matrix(tensor, turned), turned


def _matrix(tensor: LibraryTensor, turned: bool, alignment: int = 0) -> Matrix:
    """A tensor of [batch, rows, columns] by its columns: our rows, unless it is turned."""
    batch, rows, columns = tensor.type.shape
    between = pitch(tensor, turned=turned)
    assert between is not None
    shape = (rows, columns) if turned else (columns, rows)
    step = tensor.strides[0] if batch > 1 else 0
    return Matrix(tensor.type.dtype, *shape, between, batch, step, alignment or _alignment(tensor))


def _alignment(tensor: LibraryTensor) -> int:
    """What the address of a tensor is a multiple of, and that of each matrix of a batch; in a loop, of each turn's."""
    item = tensor.type.nbytes // tensor.type.size
    strides = [step * item for step, n in zip(tensor.strides, tensor.type.shape, strict=True) if n > 1 and step != 1]
    line = tensor.type.shape[-1] * item
    return math.gcd(ALIGNMENT, behind(tensor), *strides, line if tensor.type.rank == 1 else 0)


def _epilogue(graph: ProductGraph) -> str:
    parts = [_EPILOGUES[graph.activation]]
    if graph.activation == "gelu" and part_of(graph, "aux") is not None:
        parts.append("AUX")
    if part_of(graph, "bias") is not None:
        parts.append("BIAS")
    return "_".join(filter(None, parts)) or "DEFAULT"
