"""Chapter 12, the parts of floats: mantissa, exponent and sign of doubles."""

from __future__ import annotations

import math
from typing import Any

from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import MV
from sexpgpu.lang.library.arithmetic import overflow
from sexpgpu.lang.library.check import integer, wrong_type

library = Library("floats")

_DIGITS = 53


def _float(name: str, position: int, value: Any) -> float:
    if type(value) is not float or not math.isfinite(value):
        raise wrong_type(name, position, value, "a float")
    return value


@library.builtin("decode-float", "(float)", many=True)
def decode_float(a: Any) -> Any:
    """A mantissa in [0.5, 1), the power of two it is multiplied by, and the sign as a float."""
    mantissa, exponent = math.frexp(abs(_float("decode-float", 0, a)))
    return MV((mantissa, exponent, math.copysign(1.0, a)))


@library.builtin("integer-decode-float", "(float)", many=True)
def integer_decode_float(a: Any) -> Any:
    """An integer mantissa of 53 bits, the power of two it is multiplied by, and the sign as an integer."""
    mantissa, exponent = math.frexp(abs(_float("integer-decode-float", 0, a)))
    return MV((int(math.ldexp(mantissa, _DIGITS)), exponent - _DIGITS, int(math.copysign(1, a))))


@library.builtin("scale-float", "(float integer)")
def scale_float(a: Any, power: Any) -> Any:
    """`a` times two to `power`."""
    try:
        return math.ldexp(_float("scale-float", 1, a), integer("scale-float", 2, power))
    except OverflowError:
        raise overflow("scale-float", (a, power)) from None


@library.builtin("float-sign", "(float &optional magnitude)")
def float_sign(a: Any, magnitude: Any = 1.0) -> Any:
    return math.copysign(_float("float-sign", 2, magnitude), _float("float-sign", 1, a))


@library.builtin("float-digits", "(float)")
def float_digits(a: Any) -> Any:
    _float("float-digits", 0, a)
    return _DIGITS


@library.builtin("float-radix", "(float)")
def float_radix(a: Any) -> Any:
    _float("float-radix", 0, a)
    return 2
