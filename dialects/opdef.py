"""The record that gives an operation: everything the compiler and the interpreter know of it is here.

Tracing takes `infer` and `attrs`, MLIR `name`, `operands` and `attrs`, the interpreter `numpy`, autodiff
`vjp`, fusion and lowering `kind`, the tests `samples`, the documentation `doc`. Adding an operation is adding
a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.tensortype import DTYPES, TensorType

if TYPE_CHECKING:
    from sexpgpu.dialects.builder import Val

Array = NDArray[Any]
AttrType = Literal["int", "float", "bool", "str", "ints", "floats", "dtype", "number", "tensor"]


@frozen
class Pointwise:
    """Each element of the result comes from those at its place, by the function named `scalar`.

    `wide`: computed in f32 where the policy is bf16, since it magnifies what rounding its operand loses.
    """

    scalar: str
    wide: bool = False


@frozen
class Reduce:
    """Folds lines along attr `axes` (or `axis`) with `combine`, from `init` (None: the first element)."""

    combine: Literal["add", "mul", "max", "min", "or", "and", "argmax", "argmin"]
    init: float | bool | None


@frozen
class Scan:
    """Running fold along attr `axis`; the result has the operand's shape."""

    combine: Literal["add"]


@frozen
class Row:
    """A composite over whole lines along attr `axis`: reductions and pointwise steps under one name."""

    keeps: bool  # the result has the line's length; otherwise the line becomes one element


@frozen
class Contract:
    """Products summed over a shared axis; operation `wide` is the same with an f32 result for bf16 operands."""

    wide: str | None = None


@frozen
class Window:
    """Windows slide over the last axes of a tensor: `combine` over each of them, or products with a kernel (`dot`).

    `side` says which of the three tensors comes out: the result has one element a window, the operand is what the
    windows slide over, the kernel what they are multiplied with. The latter two are the transposes of the first.
    Operation `wide` is the same with an f32 result for bf16 operands.
    """

    combine: Literal["dot", "max", "argmax", "mean"]
    side: Literal["result", "operand", "kernel"]
    wide: str | None = None


@frozen
class Order:
    """Whole lines along attr `axis`, or the last axis, put in order; equal elements keep theirs."""

    descending: bool
    gives: Literal["values", "places", "both"]


@frozen
class Move:
    """Elements change place, nothing is computed; `views` where the result shares the memory in NumPy.

    A result that `views` may still be a copy where the operand's layout leaves no choice. `form` says which attributes
    decide the places: `shape` of a broadcast or a reshape, `perm` of a permutation, `axes` that run in reverse,
    `start`, `stop` and `step` of a cut, `low` and `high` of padding, `axis` of a join; `same` moves nothing.
    """

    views: bool
    form: Literal["same", "broadcast", "reshape", "permute", "reverse", "cut", "pad", "join"]


@frozen
class Index:
    """Places come from an index tensor: `read` gathers, `add` and `set` change a copy of the first operand in order.

    `lines`: the indices have an element for each place of the result or the updates, and each line along attr `axis` is
    indexed by its own; otherwise one tensor of indices names whole slices.
    """

    access: Literal["read", "add", "set"]
    lines: bool = False


@frozen
class Random:
    """Counter-based random numbers: a pure function of the key and the counter operand."""


@frozen
class Constant:
    """Known when compiled: no operand decides the value."""


@frozen
class Composite:
    """A region under one name, computed in one go by the kernel that a target has for its family, or else by its parts.

    Of several results those behind the first are what the derivative, another operation of the family, reads again.
    """

    family: Literal["norm", "cross_entropy", "attention"]
    backward: bool = False


Kind = Pointwise | Reduce | Scan | Row | Contract | Window | Order | Move | Index | Random | Constant | Composite


@frozen
class Attr:
    """A static argument of an operation. Every declared attribute is always present in the module.

    In Python `ints` and `floats` are tuples, `dtype` a dtype name, `number` an int or a float, `tensor` a
    `Dense`.
    """

    name: str
    type: AttrType


@frozen(eq=False)
class Dense:
    """The value of a constant: a number that fills the type, or an array of exactly its shape."""

    type: TensorType
    data: bool | int | float | Array

    def __attrs_post_init__(self) -> None:
        if isinstance(self.data, np.ndarray) and self.data.shape != self.type.shape:
            raise ValueError(f"an array of shape {self.data.shape} is no constant {self.type}")

    @property
    def is_splat(self) -> bool:
        return not isinstance(self.data, np.ndarray)

    def array(self) -> Array:
        """Read-only array of the type; a splat occupies one element, whatever its shape."""
        data = np.asarray(self.data, dtype=numpy_dtype(self.type.dtype))
        if self.type.dtype == "bf16":
            data = round_bf16(data)
        result = np.broadcast_to(data, self.type.shape)
        result.flags.writeable = False
        return result


@frozen
class Sample:
    """Operand types and attributes on which an operation is tested.

    Float operands are drawn from `domain`, index operands from range(`below`); `smooth` False keeps the
    sample out of the derivative test (a kink or a jump lies in its domain).
    """

    types: tuple[TensorType, ...]
    attrs: Mapping[str, Any] = field(factory=dict)
    domain: tuple[float, float] = (-2.0, 2.0)
    below: int = 2
    smooth: bool = True


@frozen
class OpDef:
    """An operation.

    `infer(*types, **attrs)` gives the result's type (a tuple of them when `results` > 1) or raises a user's error
    without a span. `numpy(*arrays, out=None, **attrs)` gives the value as an array of the inferred type, in `out` when
    that is given; a composite of several results takes a tuple of arrays there. `vjp(b, g, out, *ins, **attrs)` gives
    one cotangent an operand, None where nothing flows; a composite without it is differentiated by its parts.
    `decompose(b, *ins, **attrs)` builds the same value from other operations. `inplace`: `out` may be an operand.
    """

    name: str
    kind: Kind
    operands: tuple[str, ...]
    infer: Callable[..., Any]
    numpy: Callable[..., Any]
    vjp: Callable[..., tuple[Val | None, ...]] | None
    samples: tuple[Sample, ...]
    doc: str
    attrs: tuple[Attr, ...] = ()
    results: int = 1
    decompose: Callable[..., Any] | None = None
    inplace: bool = False


_NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(np.float32),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}


def no_cotangent(b: Any, g: Any, out: Any, x: Any, **attrs: Any) -> tuple[None]:
    """The `vjp` of a function of one operand whose derivative is 0: nothing of the cotangent passes."""
    return (None,)


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype that holds values of `dtype`; bf16 values live, rounded, in float32."""
    return _NUMPY_DTYPES[dtype]


def parse_type(text: str) -> TensorType:
    """`f32[2, 3]` as a TensorType: the inverse of its `str`."""
    dtype, _, rest = text.partition("[")
    if dtype not in DTYPES or not rest.endswith("]"):
        raise ValueError(f"not a tensor type: {text}")
    return TensorType(tuple(int(n) for n in rest[:-1].split(",") if n.strip()), dtype)


def sample(
    *types: str,
    domain: tuple[float, float] = (-2.0, 2.0),
    below: int = 2,
    smooth: bool = True,
    **attrs: Any,
) -> Sample:
    """A Sample with its types written as text: `sample("f64[3, 4]", axes=(0,), keepdims=False)`."""
    return Sample(tuple(map(parse_type, types)), attrs, domain, below, smooth)
