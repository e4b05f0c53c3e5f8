"""Windows over sequences and images: convolutions and pools."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL, Cons, Symbol
from sexpgpu.trace.arguments import integer, integers, items, positive
from sexpgpu.trace.tensor import Tensor, float_tensor, tensors

library = Library("windows")

Ints = tuple[int, ...]


def _per_axis(what: str, value: Any, rank: int, role: str) -> Ints:
    """One integer for all axes of space, or a list of one an axis."""
    if type(value) is int:
        return (value,) * rank
    given = integers(what, value, role)
    if len(given) != rank:
        raise _wrong_count(what, value, rank, role)
    return given


def _wrong_count(what: str, value: Any, rank: int, role: str) -> Exception:
    return error(
        "E-SHAPE-004",
        f"`{what}`: {role} {show(value)} does not fit {rank} {'axis' if rank == 1 else 'axes'} of space",
        expected=f"an integer, or a list of {rank}",
        actual=show(value),
    )


def _padding(what: str, value: Any, sizes: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> tuple[Ints, Ints]:
    """Elements before and behind each axis: an integer, a list of integers or (before behind) pairs, or `:same`."""
    if isinstance(value, Symbol) and value is not NIL:
        if not value.keyword or value.name != "same":
            raise error(
                "E-ARG-011",
                f"`{what}`: :padding cannot be {show(value)}",
                expected="an integer, a list, or :same",
                help=":same",
            )
        total = [
            max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
            for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
        ]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    if type(value) is int:
        return _not_negative(what, (value,) * len(sizes)), (value,) * len(sizes)
    given = items(what, value, ":padding")
    if len(given) != len(sizes):
        raise _wrong_count(what, value, len(sizes), ":padding")
    pairs = [_pair(what, each) for each in given]
    return _not_negative(what, tuple(a for a, _ in pairs)), _not_negative(what, tuple(z for _, z in pairs))


def _not_negative(what: str, padding: Ints) -> Ints:
    if any(n < 0 for n in padding):
        raise error(
            "E-VALUE-012", f"`{what}`: :padding cannot be negative", expected="0 or more", actual=str(min(padding))
        )
    return padding


def _pair(what: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, Cons | list):
        both = integer(what, value, "each element of :padding")
        return both, both
    pair = integers(what, value, "a pair of :padding")
    if len(pair) != 2:
        raise error("E-SHAPE-004", f"`{what}`: {show(value)} is no pair (before behind)", actual=show(value))
    return pair[0], pair[1]


def _steps(what: str, value: Any, rank: int, role: str) -> Ints:
    """Strides and dilations, which are 1 at least: `:same` divides by them before the operation checks them."""
    return tuple(positive(what, n, role) for n in _per_axis(what, value, rank, role))


@library.builtin("conv", "(x w &key stride padding dilation groups)")
def conv(x: Any, w: Any, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1) -> Tensor:
    """Products of `w` with every window of `x`, summed: a convolution as networks have it, without turning w around.

    `:stride` and `:dilation` are an integer or a list of one an axis of space; `:padding` too, or pairs
    (before behind), or `:same`: as many zeros as give size/stride windows, the odd one behind.

    Shapes: x [n, in, length] or [n, in, height, width], w [out, in/groups, kernel...] -> [n, out, windows...], where
    an axis has (size + padding - dilation (kernel - 1) - 1) / stride + 1 windows.
    Dtypes: floats, the same for both.
    Errors: E-SHAPE-042, E-SHAPE-043 other ranks; E-SHAPE-044 channels that do not fit; E-SHAPE-041 a window larger
    than its axis; E-SHAPE-004, E-VALUE-012, E-ARG-011 wrong options; E-DTYPE-001, E-DTYPE-002.
    Source: LeCun et al., "Gradient-based learning applied to document recognition" (1998); PyTorch `conv2d`.
    """
    image, weight = tensors("conv", x, w)
    rank = max(image.type.rank - 2, 0)
    kernel, sizes = weight.type.shape[2:], image.type.shape[2:]
    strides = _steps("conv", stride, rank, ":stride")
    dilations = _steps("conv", dilation, rank, ":dilation")
    low = high = (0,) * rank
    if len(kernel) == rank:
        low, high = _padding("conv", padding, sizes, kernel, strides, dilations)
    return image.graph.emit(
        "conv",
        image,
        weight,
        stride=strides,
        low=low,
        high=high,
        dilation=dilations,
        groups=integer("conv", groups, ":groups"),
    )


def _pool(what: str, op: str, x: Any, n: Any, stride: Any, padding: Any) -> Tensor:
    image = float_tensor(what, x)
    rank = max(image.type.rank - 2, 0)
    kernel = _steps(what, n, rank, "the window")
    strides = kernel if stride is NIL else _steps(what, stride, rank, ":stride")
    low, high = _padding(what, padding, image.type.shape[2:], kernel, strides, (1,) * rank)
    return image.graph.emit(op, image, kernel=kernel, stride=strides, low=low, high=high)


@library.builtin("pool-max", "(x n &key stride padding)")
def pool_max(x: Any, n: Any, *, stride: Any = NIL, padding: Any = 0) -> Tensor:
    """The greatest element of each window of size `n`; `:stride` is n unless given, `:padding` as for `conv`.

    Padding is never chosen. The derivative goes to the first of equal elements.

    Shapes: [n, c, length] or [n, c, height, width] -> [n, c, windows...].
    Dtypes: floats.
    Errors: E-SHAPE-042 another rank; E-SHAPE-041 a window larger than its axis or of padding alone; E-SHAPE-004,
    E-VALUE-012, E-ARG-011 wrong options; E-DTYPE-001.
    Source: PyTorch `max_pool2d`.
    """
    return _pool("pool-max", "pool_max", x, n, stride, padding)


@library.builtin("pool-avg", "(x n &key stride padding)")
def pool_avg(x: Any, n: Any, *, stride: Any = NIL, padding: Any = 0) -> Tensor:
    """The mean of each window of size `n`; `:stride` is n unless given, `:padding` as for `conv`.

    Padding counts for nothing: a window at the edge is divided by the elements it holds.

    Shapes: [n, c, length] or [n, c, height, width] -> [n, c, windows...].
    Dtypes: floats.
    Errors: E-SHAPE-042 another rank; E-SHAPE-041 a window larger than its axis or of padding alone; E-SHAPE-004,
    E-VALUE-012, E-ARG-011 wrong options; E-DTYPE-001.
    Source: PyTorch `avg_pool2d` with count_include_pad=False.
    """
    return _pool("pool-avg", "pool_mean", x, n, stride, padding)
