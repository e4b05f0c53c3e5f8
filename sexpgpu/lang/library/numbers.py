"""Chapter 12, functions of real numbers: rounding, powers, logarithms, trigonometry and conversions.

Rounding follows the standard on exact numbers and SBCL's formula on floats: the quotient from the rounded
division, remainder = number - quotient * divisor. Where the standard gives a complex number: E-VALUE-006.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from sexpgpu.diag import SxError, error
from sexpgpu.lang.active import spend_steps
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import MV, NIL, T
from sexpgpu.lang.library.arithmetic import division_by_zero, overflow, settle, too_large
from sexpgpu.lang.library.check import MOST_BITS, RATIONALS, REALS, generic, integer, weigh, wrong_type
from sexpgpu.lang.printer import brief

library = Library("numbers")

_LARGE: Final = 1 << 256


def outside(name: str, args: tuple[Any, ...], why: str) -> SxError:
    """The error of arguments a function has no real value for."""
    shown = " ".join(brief(arg, 24) for arg in args)
    return error("E-VALUE-006", f"({name} {shown}): {why}")


def _whole(value: Any) -> Any:
    return value.numerator if type(value) is Fraction and value.denominator == 1 else value


def truncated(name: str, a: Any, b: Any) -> tuple[int, Any]:
    """Quotient towards zero and remainder of two reals."""
    spend_steps(100 if Fraction in (type(a), type(b)) else 20)
    try:
        if type(a) is float or type(b) is float:
            if b == 0:
                raise division_by_zero(name, (a, b))
            quotient = int(a / b)
            return quotient, float(a - quotient * b)
        weigh(a, b)
        quotient = abs(a) // abs(b)
        if (a < 0) != (b < 0):
            quotient = -quotient
        return quotient, _whole(a - quotient * b)
    except ZeroDivisionError:
        raise division_by_zero(name, (a, b)) from None
    except (OverflowError, ValueError):
        raise outside(name, (a, b), "there is no such integer") from None


def floored(name: str, a: Any, b: Any) -> tuple[int, Any]:
    if type(a) is int and type(b) is int and b:
        weigh(a, b)
        return divmod(a, b)
    quotient, rest = truncated(name, a, b)
    return (quotient - 1, _whole(rest + b)) if rest != 0 and (rest < 0) != (b < 0) else (quotient, rest)


def ceiled(name: str, a: Any, b: Any) -> tuple[int, Any]:
    quotient, rest = truncated(name, a, b)
    return (quotient + 1, _whole(rest - b)) if rest != 0 and (rest < 0) == (b < 0) else (quotient, rest)


def rounded(name: str, a: Any, b: Any) -> tuple[int, Any]:
    """To the nearest integer, halves to the even one."""
    quotient, rest = truncated(name, a, b)
    twice, size = 2 * abs(rest), abs(b)
    if twice > size or (twice == size and quotient % 2):
        up = (rest < 0) == (b < 0)
        return (quotient + 1, _whole(rest - b)) if up else (quotient - 1, _whole(rest + b))
    return quotient, rest


def _rounding(name: str, divide: Callable[[str, Any, Any], tuple[int, Any]]) -> None:
    def to_integer(*args: Any) -> Any:
        for value in args:
            if type(value) not in REALS:
                return generic(name, args)
        return MV(divide(name, args[0], args[1] if len(args) == 2 else 1))

    def to_float(*args: Any) -> Any:
        for value in args:
            if type(value) not in REALS:
                return generic(f"f{name}", args)
        quotient, rest = divide(f"f{name}", args[0], args[1] if len(args) == 2 else 1)
        return MV((math.copysign(float(quotient), args[0]) if quotient == 0 else float(quotient), rest))

    library.builtin(name, "(number &optional divisor)", many=True)(to_integer)
    library.builtin(f"f{name}", "(number &optional divisor)", many=True)(to_float)


for _name, _divide in (
    ("floor", floored),
    ("ceiling", ceiled),
    ("truncate", truncated),
    ("round", rounded),
):
    _rounding(_name, _divide)


@library.builtin("mod", "(number divisor)")
def mod(a: Any, b: Any) -> Any:
    if type(a) is int and type(b) is int and b:
        if not -_LARGE < a < _LARGE:
            weigh(a, b)
        return a % b
    if type(a) in REALS and type(b) in REALS:
        return floored("mod", a, b)[1]
    return generic("mod", (a, b))


@library.builtin("rem", "(number divisor)")
def rem(a: Any, b: Any) -> Any:
    if type(a) in REALS and type(b) in REALS:
        return truncated("rem", a, b)[1]
    return generic("rem", (a, b))


@library.builtin("abs", "(number)")
def absolute(a: Any) -> Any:
    return abs(a) if type(a) in REALS else generic("abs", (a,))


@library.builtin("signum", "(number)")
def signum(a: Any) -> Any:
    if type(a) not in REALS:
        return generic("signum", (a,))
    if type(a) is float:
        return a if a == 0 else math.copysign(1.0, a)
    return (a > 0) - (a < 0)


@library.builtin("sqrt", "(number)")
def sqrt(a: Any) -> Any:
    if type(a) not in REALS:
        return generic("sqrt", (a,))
    if a < 0:
        raise outside("sqrt", (a,), "the square root of a negative number is not real")
    try:
        return math.sqrt(a)
    except OverflowError:
        raise overflow("sqrt", (a,)) from None


@library.builtin("expt", "(base power)")
def expt(a: Any, b: Any) -> Any:
    if type(a) not in REALS or type(b) not in REALS:
        return generic("expt", (a, b))
    try:
        if type(b) is int and type(a) in RATIONALS:
            return _exact_power(a, b)
        if a < 0 and math.isfinite(b) and b != int(b):
            raise outside("expt", (a, b), "a fractional power of a negative number is not real")
        return settle("expt", (a, b), float(a) ** (b if type(b) is int else float(b)))
    except ZeroDivisionError:
        raise division_by_zero("expt", (a, b), 1) from None
    except OverflowError:
        raise overflow("expt", (a, b)) from None


def _exact_power(base: Any, power: int) -> Any:
    if base in (0, 1, -1):
        if power < 0 and base == 0:
            raise ZeroDivisionError
        return base if power % 2 else base * base if power else 1
    bits = base.numerator.bit_length() + base.denominator.bit_length() - 1
    if bits * abs(power) > 2 * MOST_BITS:
        raise too_large("expt")
    return settle("expt", (base, power), base**power if power >= 0 else Fraction(1) / Fraction(base) ** -power)


@library.builtin("exp", "(number)")
def exp(a: Any) -> Any:
    return _unary("exp", math.exp, a)


@library.builtin("log", "(number &optional base)")
def log(*args: Any) -> Any:
    for value in args:
        if type(value) not in REALS:
            return generic("log", args)
    for position, value in enumerate(args, 1):
        if value == 0:
            raise division_by_zero("log", args, position)
        if value < 0:
            raise outside("log", args, "the logarithm of a negative number is not real")
    if len(args) == 1:
        return math.log(args[0])
    a, base = args
    if base == 1:
        raise division_by_zero("log", args)
    if type(a) is int and type(base) is int:
        return math.log2(a) / math.log2(base)
    return math.log(a) / math.log(base)


def _unary(name: str, function: Callable[[float], float], a: Any) -> Any:
    if type(a) not in REALS:
        return generic(name, (a,))
    try:
        return function(float(a))
    except OverflowError:
        raise overflow(name, (a,)) from None
    except ValueError:
        raise outside(name, (a,), "it has no real value there") from None


def _elementary(name: str, function: Callable[[float], float]) -> None:
    def elementary(number: Any) -> Any:
        return _unary(name, function, number)

    library.builtin(name, "(number)")(elementary)


for _function in (
    math.sin, math.cos, math.tan, math.asin, math.acos,
    math.sinh, math.cosh, math.tanh, math.asinh, math.acosh, math.atanh,
):  # fmt: skip
    _elementary(_function.__name__, _function)


@library.builtin("atan", "(y &optional x)")
def atan(*args: Any) -> Any:
    for value in args:
        if type(value) not in REALS:
            return generic("atan", args)
    return math.atan(args[0]) if len(args) == 1 else math.atan2(*args)


@library.builtin("float", "(number &optional prototype)")
def to_float(a: Any, prototype: Any = 1.0) -> Any:
    if type(a) not in REALS:
        return generic("float", (a,))
    try:
        return float(a)
    except OverflowError:
        raise overflow("float", (a,)) from None


@library.builtin("rational", "(number)")
def rational(a: Any) -> Any:
    """The exact value of a float."""
    if type(a) not in REALS:
        raise wrong_type("rational", 0, a, "a real number")
    if type(a) is float and not math.isfinite(a):
        raise outside("rational", (a,), "it is not finite")
    return _whole(Fraction(a))


@library.builtin("rationalize", "(number)")
def rationalize(a: Any) -> Any:
    """The ratio of smallest denominator, found by bisection, that rounds to the float."""
    exact = rational(a)
    if type(a) is not float or type(exact) is int:
        return exact
    low, high = 1, 2
    while float(exact.limit_denominator(high)) != a:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if float(exact.limit_denominator(middle)) == a:
            high = middle
        else:
            low = middle + 1
    return _whole(exact.limit_denominator(high))


@library.builtin("numerator", "(rational)")
def numerator(a: Any) -> Any:
    if type(a) not in RATIONALS:
        raise wrong_type("numerator", 0, a, "a rational number")
    return a.numerator


@library.builtin("denominator", "(rational)")
def denominator(a: Any) -> Any:
    if type(a) not in RATIONALS:
        raise wrong_type("denominator", 0, a, "a rational number")
    return a.denominator


@library.builtin("evenp", "(integer)")
def evenp(a: Any) -> Any:
    return NIL if integer("evenp", 0, a) & 1 else T


@library.builtin("oddp", "(integer)")
def oddp(a: Any) -> Any:
    return T if integer("oddp", 0, a) & 1 else NIL


@library.builtin("random", "(limit &optional state)")
def random(limit: Any, state: Any = NIL) -> Any:
    raise error(
        "E-VALUE-009",
        "random: a file that is evaluated twice must give the same program, so there are no unseeded numbers",
        help="draw inside the graph from its seeded streams: (random-uniform ...), (random-integer ...)",
    )
