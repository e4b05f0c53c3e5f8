"""Exact arithmetic to check floating-point instructions against: rational numbers, rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from attrs import frozen


@frozen
class Format:
    """A binary format: bits of fraction and exponent."""

    fraction: int
    exponent: int

    @property
    def bits(self) -> int:
        return 1 + self.fraction + self.exponent

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1


F16, BF16, F32, F64 = Format(10, 5), Format(7, 8), Format(23, 8), Format(52, 11)


def value(bits: int, form: Format) -> float | Fraction:
    """What bits stand for: a fraction, or the float of an infinity, a NaN or a zero."""
    sign = -1 if bits >> form.bits - 1 else 1
    exponent = bits >> form.fraction & (1 << form.exponent) - 1
    fraction = bits & (1 << form.fraction) - 1
    if exponent == (1 << form.exponent) - 1:
        return math.nan if fraction else sign * math.inf
    if exponent == 0 and fraction == 0:
        return sign * 0.0
    if exponent == 0:
        return sign * Fraction(fraction) * Fraction(2) ** (1 - form.bias - form.fraction)
    return sign * Fraction(fraction + (1 << form.fraction)) * Fraction(2) ** (exponent - form.bias - form.fraction)


def encode(x: Fraction, form: Format, mode: str = "rn", zero_sign: int = 0) -> int:
    """The bits of a rational number rounded to a format; a zero has the sign given."""
    if x == 0:
        return zero_sign << form.bits - 1
    sign, size = (1, -x) if x < 0 else (0, x)
    low = 1 - form.bias
    exponent = max(_log2(size), low)
    unit = Fraction(2) ** (exponent - form.fraction)
    whole, rest = divmod(size, unit)
    n = int(whole)
    if mode == "rn":
        up = rest * 2 > unit or (rest * 2 == unit and n & 1 == 1)
    elif mode == "rna":
        up = rest * 2 >= unit
    else:
        up = rest > 0 and mode == ("rm" if sign else "rp")
    n += up
    if n == 0:
        return sign << form.bits - 1
    if n >> form.fraction + 1:
        n, exponent = n >> 1, exponent + 1
    top = (1 << form.exponent) - 1
    biased = exponent + form.bias if n >> form.fraction else 0
    if biased >= top:
        inward = mode == "rz" or mode == ("rp" if sign else "rm")
        magnitude = (top << form.fraction) - (1 if inward else 0)
        return sign << form.bits - 1 | magnitude
    return sign << form.bits - 1 | biased << form.fraction | n & (1 << form.fraction) - 1


def _log2(x: Fraction) -> int:
    n = x.numerator.bit_length() - x.denominator.bit_length()
    return n if Fraction(2) ** n <= x else n - 1


EDGES32 = np.array(
    [
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x3F800001,
        0x3F7FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x4B000000, 0x4B800001,
        0x4F000000, 0xCF000000, 0x5F000000, 0xDF000000, 0x3F000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x33800000,
        0x38800000, 0x387FC000, 0x477FE000, 0x477FF000, 0x7F7F8000, 0x3F808000, 0x3F818000, 0x3F803FFF, 0x3F804001,
    ],
    np.uint32,
)  # fmt: skip


def is_nan(bits: int, form: Format) -> bool:
    return isinstance(value(bits, form), float) and math.isnan(float(value(bits, form)))
