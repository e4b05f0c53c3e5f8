"""Chapter 12, integers: divisors, roots and bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL, Cons, T
from sexpgpu.lang.library.arithmetic import too_large
from sexpgpu.lang.library.check import MOST_BITS, integer, weigh, wrong_type

library = Library("integers")


def _all_integers(name: str, args: tuple[Any, ...]) -> None:
    for position, value in enumerate(args, 1):
        integer(name, position, value)


@library.builtin("gcd", "(&rest integers)")
def gcd(*args: Any) -> Any:
    _all_integers("gcd", args)
    weigh(*args)
    return math.gcd(*args)


@library.builtin("lcm", "(&rest integers)")
def lcm(*args: Any) -> Any:
    _all_integers("lcm", args)
    weigh(*args)
    result = 1
    for value in args:
        result = math.lcm(result, value)
        if result.bit_length() > MOST_BITS:
            raise too_large("lcm")
    return result


@library.builtin("isqrt", "(integer)")
def isqrt(a: Any) -> Any:
    if integer("isqrt", 0, a) < 0:
        raise wrong_type("isqrt", 0, a, "an integer of at least 0")
    weigh(a)
    return math.isqrt(a)


@library.builtin("ash", "(integer count)")
def ash(a: Any, count: Any) -> Any:
    integer("ash", 1, a)
    integer("ash", 2, count)
    if count < 0:
        return a >> min(-count, 2 * MOST_BITS)
    if a and a.bit_length() + count > MOST_BITS:
        raise too_large("ash")
    return a << count if a else 0


def _fold(name: str, start: int, step: Callable[[int, int], int]) -> None:
    def fold(*args: Any) -> Any:
        _all_integers(name, args)
        result = start
        for value in args:
            result = step(result, value)
        return result

    library.builtin(name, "(&rest integers)")(fold)


_fold("logand", -1, lambda a, b: a & b)
_fold("logior", 0, lambda a, b: a | b)
_fold("logxor", 0, lambda a, b: a ^ b)
_fold("logeqv", -1, lambda a, b: ~(a ^ b))


def _pair(name: str, step: Callable[[int, int], Any]) -> None:
    def pair(a: Any, b: Any) -> Any:
        return step(integer(name, 1, a), integer(name, 2, b))

    library.builtin(name, "(a b)")(pair)


_pair("lognand", lambda a, b: ~(a & b))
_pair("lognor", lambda a, b: ~(a | b))
_pair("logandc1", lambda a, b: ~a & b)
_pair("logandc2", lambda a, b: a & ~b)
_pair("logorc1", lambda a, b: ~a | b)
_pair("logorc2", lambda a, b: a | ~b)
_pair("logtest", lambda a, b: T if a & b else NIL)


@library.builtin("lognot", "(integer)")
def lognot(a: Any) -> Any:
    return ~integer("lognot", 0, a)


@library.builtin("logbitp", "(index integer)")
def logbitp(index: Any, a: Any) -> Any:
    if integer("logbitp", 1, index) < 0:
        raise wrong_type("logbitp", 1, index, "an integer of at least 0")
    return T if integer("logbitp", 2, a) >> min(index, 2 * MOST_BITS) & 1 else NIL


@library.builtin("logcount", "(integer)")
def logcount(a: Any) -> Any:
    """The count of one bits of a non-negative integer, of zero bits of a negative one."""
    return (a if integer("logcount", 0, a) >= 0 else ~a).bit_count()


@library.builtin("integer-length", "(integer)")
def integer_length(a: Any) -> Any:
    return (a if integer("integer-length", 0, a) >= 0 else ~a).bit_length()


@library.builtin("byte", "(size position)")
def byte(size: Any, position: Any) -> Any:
    """A byte specifier: the pair (size . position)."""
    return Cons(integer("byte", 1, size), integer("byte", 2, position))


def _byte(name: str, position: int, spec: Any) -> tuple[int, int]:
    if isinstance(spec, Cons) and type(spec.car) is int and type(spec.cdr) is int and min(spec.car, spec.cdr) >= 0:
        if spec.car + spec.cdr > MOST_BITS:
            raise too_large(name)
        return spec.car, spec.cdr
    raise wrong_type(name, position, spec, "a byte specifier, made by (byte size position)")


@library.builtin("byte-size", "(byte)")
def byte_size(spec: Any) -> Any:
    return _byte("byte-size", 0, spec)[0]


@library.builtin("byte-position", "(byte)")
def byte_position(spec: Any) -> Any:
    return _byte("byte-position", 0, spec)[1]


@library.builtin("boole", "(operation a b)")
def boole(operation: Any, a: Any, b: Any) -> Any:
    """The bits of two integers combined as one of the constants `boole-and`, `boole-xor`... says."""
    # The constants are numbers whose bits say, from the lowest, what (1 1), (1 0), (0 1) and (0 0) give.
    code = integer("boole", 1, operation)
    if not 0 <= code < 16:
        raise wrong_type("boole", 1, operation, "one of the constants boole-and, boole-ior and so on")
    a, b = integer("boole", 2, a), integer("boole", 3, b)
    pairs = (a & b, a & ~b, ~a & b, ~a & ~b)
    found = 0
    for bit, part in enumerate(pairs):
        if code >> bit & 1:
            found |= part
    return found


@library.builtin("ldb", "(byte integer)")
def ldb(spec: Any, a: Any) -> Any:
    size, position = _byte("ldb", 1, spec)
    return integer("ldb", 2, a) >> position & (1 << size) - 1


@library.builtin("ldb-test", "(byte integer)")
def ldb_test(spec: Any, a: Any) -> Any:
    return T if ldb(spec, a) else NIL


@library.builtin("mask-field", "(byte integer)")
def mask_field(spec: Any, a: Any) -> Any:
    size, position = _byte("mask-field", 1, spec)
    return integer("mask-field", 2, a) & (1 << size) - 1 << position


@library.builtin("dpb", "(new byte integer)")
def dpb(new: Any, spec: Any, a: Any) -> Any:
    size, position = _byte("dpb", 2, spec)
    mask = (1 << size) - 1
    return integer("dpb", 3, a) & ~(mask << position) | (integer("dpb", 1, new) & mask) << position


@library.builtin("deposit-field", "(new byte integer)")
def deposit_field(new: Any, spec: Any, a: Any) -> Any:
    size, position = _byte("deposit-field", 2, spec)
    mask = (1 << size) - 1 << position
    return integer("deposit-field", 3, a) & ~mask | integer("deposit-field", 1, new) & mask
