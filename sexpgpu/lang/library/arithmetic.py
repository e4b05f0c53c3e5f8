"""Chapter 12, the four operations and comparisons: exact on integers and ratios, doubles otherwise.

`add`, `subtract`, `multiply`, `divide`, `less`, … take two arguments and are what compiled code calls; the
Lisp functions of any count fold over them. A `Foreign` argument takes over (`lisp_generic`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from sexpgpu.diag import Culprit, SxError, error
from sexpgpu.lang.active import spend_steps
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, T
from sexpgpu.lang.library.check import LONG_BITS, MOST_BITS, REALS, generic, refused, weigh
from sexpgpu.lang.printer import brief

library = Library("arithmetic")

RATIO_WORK: Final = 30
_LARGE: Final = 1 << 256


def settle(name: str, args: tuple[Any, ...], result: Any) -> Any:
    """A result as Lisp has it: whole ratios are integers; overflow and too many bits are refused."""
    kind = type(result)
    if kind is float:
        if Fraction in map(type, args):
            spend_steps(RATIO_WORK)
        if result - result != 0.0 and all(math.isfinite(arg) for arg in args):
            raise overflow(name, args)
    elif kind is Fraction:
        if result.denominator == 1:
            return settle(name, args, result.numerator)
        bits = result.numerator.bit_length() + result.denominator.bit_length()
        if bits > MOST_BITS:
            raise too_large(name)
        # Reducing a ratio costs the square of its length.
        spend_steps(RATIO_WORK + (bits >> 8) ** 2)
    else:
        bits = result.bit_length()
        if bits > MOST_BITS:
            raise too_large(name)
        if bits > LONG_BITS:
            spend_steps((bits >> 9) ** 2 // 2 + 10 if name in ("*", "expt") else bits >> 9)
    return result


def overflow(name: str, args: tuple[Any, ...]) -> SxError:
    """The error of a result outside the range of doubles."""
    shown = " ".join(brief(arg, 24) for arg in args)
    return error("E-VALUE-002", f"({name} {shown}) is too large for a float")


def too_large(name: str) -> SxError:
    """The error of an integer with more bits than are allowed."""
    return error("E-LIMIT-003", f"{name}: the result would have more than {MOST_BITS:,} bits")


def division_by_zero(name: str, args: tuple[Any, ...], argument: int = 2) -> SxError:
    """The error of an `argument` that is 0, or makes a 0: the second is the divisor, of which a variable may be kept.

    What else a literal 0 was meant to be, nobody knows: it is not edited.
    """
    shown = " ".join(brief(arg, 24) for arg in args)
    divided = name not in ("expt", "log")
    culprit = Culprit(
        function=name,
        argument=argument,
        of=len(args),
        around=("(max 1 ", ")") if divided else None,
        value=True,
        literal=False,
    )
    help = "(max 1 n) keeps a count n above 0" if divided else None
    return error("E-VALUE-001", f"division by zero: ({name} {shown})", help=help, culprit=culprit)


def add(a: Any, b: Any) -> Any:
    """`(+ a b)`."""
    if type(a) is int and type(b) is int:
        result = a + b
        return result if -_LARGE < result < _LARGE else settle("+", (a, b), result)
    if type(a) in REALS and type(b) in REALS:
        try:
            return settle("+", (a, b), a + b)
        except OverflowError:
            raise overflow("+", (a, b)) from None
    return generic("+", (a, b))


def subtract(a: Any, b: Any) -> Any:
    """`(- a b)`."""
    if type(a) is int and type(b) is int:
        result = a - b
        return result if -_LARGE < result < _LARGE else settle("-", (a, b), result)
    if type(a) in REALS and type(b) in REALS:
        try:
            return settle("-", (a, b), a - b)
        except OverflowError:
            raise overflow("-", (a, b)) from None
    return generic("-", (a, b))


def multiply(a: Any, b: Any) -> Any:
    """`(* a b)`."""
    if type(a) is int and type(b) is int:
        result = a * b
        return result if -_LARGE < result < _LARGE else settle("*", (a, b), result)
    if type(a) in REALS and type(b) in REALS:
        try:
            return settle("*", (a, b), a * b)
        except OverflowError:
            raise overflow("*", (a, b)) from None
    return generic("*", (a, b))


def divide(a: Any, b: Any) -> Any:
    """`(/ a b)`: exact on rationals."""
    if type(a) in REALS and type(b) in REALS:
        try:
            if type(a) is int and type(b) is int:
                weigh(a, b)
                quotient, rest = divmod(a, b)
                if rest == 0:
                    return quotient
                spend_steps(RATIO_WORK)
                return Fraction(a, b)
            return settle("/", (a, b), a / b)
        except ZeroDivisionError:
            raise division_by_zero("/", (a, b)) from None
        except OverflowError:
            raise overflow("/", (a, b)) from None
    return generic("/", (a, b))


def negate(a: Any) -> Any:
    """`(- a)`."""
    if type(a) in REALS:
        return settle("-", (a,), -a) if type(a) is int and not -_LARGE < a < _LARGE else -a
    return generic("-", (a,))


@library.builtin("+", "(&rest numbers)")
def plus(*args: Any) -> Any:
    if len(args) == 2:
        return add(args[0], args[1])
    if len(args) == 1:
        return args[0] if type(args[0]) in REALS else generic("+", args)
    return _fold("+", add, args) if args else 0


@library.builtin("*", "(&rest numbers)")
def times(*args: Any) -> Any:
    if len(args) == 2:
        return multiply(args[0], args[1])
    if len(args) == 1:
        return args[0] if type(args[0]) in REALS else generic("*", args)
    return _fold("*", multiply, args) if args else 1


@library.builtin("-", "(number &rest more)")
def minus(*args: Any) -> Any:
    if len(args) == 1:
        return negate(args[0])
    return _fold("-", subtract, args)


@library.builtin("/", "(number &rest more)")
def over(*args: Any) -> Any:
    if len(args) == 1:
        return divide(1, args[0])
    return _fold("/", divide, args)


def _fold(name: str, step: Callable[[Any, Any], Any], args: tuple[Any, ...]) -> Any:
    for value in args:
        if type(value) not in REALS and not isinstance(value, Foreign):
            raise refused(name, args)
    result = args[0]
    for value in args[1:]:
        result = step(result, value)
    return result


@library.builtin("1+", "(number)")
def increment(a: Any) -> Any:
    return add(a, 1) if type(a) in REALS else generic("1+", (a,))


@library.builtin("1-", "(number)")
def decrement(a: Any) -> Any:
    return subtract(a, 1) if type(a) in REALS else generic("1-", (a,))


def _weigh_comparison(a: Any, b: Any) -> None:
    """Count the comparison of two long integers, and of ratios, whose parts are multiplied for it."""
    if type(a) is Fraction or type(b) is Fraction:
        bits = [part.bit_length() for x in (a, b) if type(x) is not float for part in (x.numerator, x.denominator)]
        spend_steps(RATIO_WORK + (sum(bits) >> 9) ** 2 // 4)
    elif type(a) is int and type(b) is int and not -_LARGE < a < _LARGE:
        spend_steps(a.bit_length() >> 10)


def equal(a: Any, b: Any) -> Any:
    """`(= a b)`."""
    if type(a) in REALS and type(b) in REALS:
        _weigh_comparison(a, b)
        return T if a == b else NIL
    return generic("=", (a, b))


def less(a: Any, b: Any) -> Any:
    """`(< a b)`."""
    if type(a) in REALS and type(b) in REALS:
        _weigh_comparison(a, b)
        return T if a < b else NIL
    return generic("<", (a, b))


def greater(a: Any, b: Any) -> Any:
    """`(> a b)`."""
    if type(a) in REALS and type(b) in REALS:
        _weigh_comparison(a, b)
        return T if a > b else NIL
    return generic(">", (a, b))


def at_most(a: Any, b: Any) -> Any:
    """`(<= a b)`."""
    if type(a) in REALS and type(b) in REALS:
        _weigh_comparison(a, b)
        return T if a <= b else NIL
    return generic("<=", (a, b))


def at_least(a: Any, b: Any) -> Any:
    """`(>= a b)`."""
    if type(a) in REALS and type(b) in REALS:
        _weigh_comparison(a, b)
        return T if a >= b else NIL
    return generic(">=", (a, b))


def _chain(name: str, compare: Callable[[Any, Any], Any]) -> None:
    def chain(*args: Any) -> Any:
        if len(args) == 2:
            return compare(args[0], args[1])
        for value in args:
            if type(value) not in REALS:
                return generic(name, args)
        for a, b in pairwise(args):
            if compare(a, b) is NIL:
                return NIL
        return T

    library.builtin(name, "(number &rest more)")(chain)


for _name, _compare in (("=", equal), ("<", less), (">", greater), ("<=", at_most), (">=", at_least)):
    _chain(_name, _compare)


@library.builtin("/=", "(number &rest more)")
def all_different(*args: Any) -> Any:
    for value in args:
        if type(value) not in REALS:
            return generic("/=", args)
    spend_steps(len(args) ** 2 >> 4)
    for position, a in enumerate(args):
        if a in args[position + 1 :]:
            return NIL
    return T


def _extreme(name: str, better: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def extreme(*args: Any) -> Any:
        best = args[0]
        if len(args) == 1 and type(best) not in REALS:
            return generic(name, args)
        for value in args[1:]:
            if type(value) in REALS and type(best) in REALS:
                if better(value, best):
                    best = value
            else:
                best = generic(name, (best, value))
        return best

    return library.builtin(name, "(number &rest more)")(extreme)


maximum = _extreme("max", lambda a, b: a > b)
minimum = _extreme("min", lambda a, b: a < b)


def _sign_test(name: str, test: Callable[[Any], bool]) -> None:
    def predicate(number: Any) -> Any:
        if type(number) in REALS:
            return T if test(number) else NIL
        return generic(name, (number,))

    library.builtin(name, "(number)")(predicate)


_sign_test("zerop", lambda a: a == 0)
_sign_test("plusp", lambda a: a > 0)
_sign_test("minusp", lambda a: a < 0)
