"""The error function, vectorised: within 2 units of the last place in f32 and f64, exact at 0, infinity and
NaN.

|x| < 1: x + x q(x^2). Beyond: 1 - exp(p(|x| - 1)), where p approximates the logarithm of erfc, whose relative
error counts only as much as erfc weighs against 1. `bench/erf/fit.py` derives the polynomials.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sexpgpu.dialects.arrays import blockwise
from sexpgpu.dialects.opdef import Array

_F32_NEAR = (
    0.12837916659315377,
    -0.37612629877675857,
    0.11283625725084774,
    -0.02685539945205446,
    0.0051912183773731675,
    -0.0008034846650013804,
    7.933493887016782e-05,
)
_F32_FAR = (
    -1.8496055160142288,
    -2.638966857258258,
    -0.843117797476498,
    -0.04150305347580508,
    0.009895253011698277,
    -0.0018296356919530474,
    0.0001865517095990864,
)
_F64_NEAR = (
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954939,
    -0.026866170645086816,
    0.0052239776249068315,
    -0.0008548326985572531,
    0.00012055331274034006,
    -1.4925598963897349e-05,
    1.6461057012446498e-06,
    -1.6350886531097562e-07,
    1.4663484241484933e-08,
    -1.1386665067187481e-09,
    5.979752517442954e-11,
)
_F64_FAR = (
    -1.8496055099332482,
    -2.638967514234788,
    -0.8431072563586866,
    -0.04156109804159179,
    0.010033825371928505,
    -0.0019779025510959767,
    0.0002373224078962554,
    2.6278094448532506e-05,
    -2.715957480596495e-05,
    9.60960724352212e-06,
    -2.0605669406249576e-06,
    1.4353832208517946e-07,
    9.713692640519622e-08,
    -5.185047792207241e-08,
    1.4849384331745716e-08,
    -2.849581657658107e-09,
    3.660080614374357e-10,
    -2.8608882469579202e-11,
    1.0305267765735484e-12,
)


_SPLIT = 1.0
# Past it the result is 1 in that precision, and p is not fitted.
_END = {np.dtype(np.float32): 4.0, np.dtype(np.float64): 6.0}
# The integer as wide as the float, and the bit of the sign in it.
_WORDS: dict[np.dtype[Any], tuple[type, Any]] = {
    np.dtype(np.float32): (np.int32, np.int32(-(2**31))),
    np.dtype(np.float64): (np.int64, np.int64(-(2**63))),
}


def _pieces(dtype: type) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    near, far = (_F32_NEAR, _F32_FAR) if dtype is np.float32 else (_F64_NEAR, _F64_FAR)
    return tuple(np.array(c, dtype) for c in near), tuple(np.array(c, dtype) for c in far)


_COEFFICIENTS = {np.dtype(dtype): _pieces(dtype) for dtype in (np.float32, np.float64)}


def erf_stretch(x: Array, out: Array) -> None:
    """erf of an array with one axis, f32 or f64, into `out`, which may be `x`."""
    near, far = _COEFFICIENTS[x.dtype]
    size, inner, outer = np.empty((3, x.size), x.dtype)
    np.minimum(np.abs(x, out=size), _END[x.dtype], out=size)

    np.multiply(size, size, out=outer)
    _polynomial(near, outer, inner)
    inner *= size
    inner += size

    size -= _SPLIT
    _polynomial(far, size, outer)
    np.exp(outer, out=outer)
    np.subtract(1, outer, out=outer)

    # Choosing between the pieces and copying the sign are bit operations: NumPy's `where` and `copysign` branch on
    # every element and would take half of the time.
    word, sign = _WORDS[x.dtype]
    below: Array = size.view(word)
    chosen: Array = outer.view(word)
    other: Array = inner.view(word)
    below >>= 8 * x.itemsize - 1  # all ones where size - split is negative
    other ^= chosen
    other &= below
    chosen ^= other
    np.bitwise_and(x.view(word), sign, out=other)
    np.bitwise_or(chosen, other, out=out.view(word))


erf = blockwise(erf_stretch)


def _polynomial(coefficients: tuple[Array, ...], x: Array, out: Array) -> None:
    """Horner's rule, into `out`."""
    *rest, second, first = coefficients
    np.multiply(x, first, out=out)
    out += second
    for coefficient in reversed(rest):
        out *= x
        out += coefficient
