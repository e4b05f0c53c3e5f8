"""The four equalities, and the images that hash tables key by.

Numbers are `eq` when they are `eql`. Strings are immutable values of ours, so their identity says little: two
strings are `eql` only when they are one object, and never when they are shorter than two characters, which
Python shares. `equal` and `equalp` walk cdrs without recursion.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import repeat
from typing import Any, Final

from sexpgpu.lang.active import as_function
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL, Array, Char, Cons, HashTable, T, boolean
from sexpgpu.lang.library.check import REALS, SOME_WORK, descend, spend
from sexpgpu.lang.structures import Structure

library = Library("equality")


def eql(a: Any, b: Any) -> bool:
    """Same object, or numbers of the same type and value (0.0 and -0.0 differ)."""
    if a is b:
        return type(a) is not str or len(a) > 1
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is int or kind is Fraction:
        return bool(a == b)
    return kind is float and a == b and math.copysign(1.0, a) == math.copysign(1.0, b)


def equal(a: Any, b: Any, depth: int = 0) -> bool:
    """`eql`, or strings of the same characters, or lists of `equal` parts."""
    walked = 0
    while isinstance(a, Cons) and isinstance(b, Cons):
        if a is b:
            return True
        if not equal(a.car, b.car, descend(depth) if isinstance(a.car, Cons) else depth):
            return False
        a, b, walked = a.cdr, b.cdr, walked + 1
        if walked & SOME_WORK == 0:
            spend(6 * SOME_WORK)
    if type(a) is str:
        return type(b) is str and a == b
    return eql(a, b)


def equalp(a: Any, b: Any, depth: int = 0) -> bool:
    """`equal` blind to letter case and to the types of numbers, and into arrays and hash tables."""
    walked = 0
    while isinstance(a, Cons) and isinstance(b, Cons):
        if not equalp(a.car, b.car, descend(depth) if isinstance(a.car, Cons) else depth):
            return False
        a, b, walked = a.cdr, b.cdr, walked + 1
        if walked & SOME_WORK == 0:
            spend(6 * SOME_WORK)
    if type(a) in REALS:
        return type(b) in REALS and a == b
    if type(a) is Char:
        return type(b) is Char and folded(a.code) == folded(b.code)
    if isinstance(a, str | list | Array) and isinstance(b, str | list | Array):
        spend(2 * (len(a.items) if isinstance(a, Array) else len(a)))
        return _equalp_arrays(a, b, descend(depth))
    if isinstance(a, HashTable) and isinstance(b, HashTable):
        return _equalp_tables(a, b, descend(depth))
    if isinstance(a, Structure) and isinstance(b, Structure):
        return a.type is b.type and all(map(equalp, a.values, b.values, repeat(descend(depth))))
    return a is b


def _equalp_arrays(a: Any, b: Any, depth: int) -> bool:
    if type(a) is str and type(b) is str:
        return a == b or a.lower() == b.lower()
    dims_a, items_a = _shape(a)
    dims_b, items_b = _shape(b)
    return dims_a == dims_b and all(map(equalp, items_a, items_b, repeat(depth)))


def _shape(array: Any) -> tuple[tuple[int, ...], list[Any]]:
    if isinstance(array, Array):
        if array.fill is not None:
            return (array.fill,), array.items[: array.fill]
        return array.dims, array.items
    from sexpgpu.lang.forms import character

    items = [character(c) for c in array] if type(array) is str else array
    return (len(items),), items


def _equalp_tables(a: HashTable, b: HashTable, depth: int) -> bool:
    if a.test != b.test or len(a.table) != len(b.table):
        return False
    return all(key in b.table and equalp(value, b.table[key][1], depth) for key, (_, value) in a.table.items())


def folded(code: int) -> int:
    """A character code with its letter case taken away."""
    upper = chr(code).upper()
    return ord(upper) if len(upper) == 1 else code


@library.builtin("eq", "(a b)")
def lisp_eq(a: Any, b: Any) -> Any:
    return T if eql(a, b) else NIL


@library.builtin("eql", "(a b)")
def lisp_eql(a: Any, b: Any) -> Any:
    return T if eql(a, b) else NIL


@library.builtin("equal", "(a b)")
def lisp_equal(a: Any, b: Any) -> Any:
    return T if equal(a, b) else NIL


@library.builtin("equalp", "(a b)")
def lisp_equalp(a: Any, b: Any) -> Any:
    return T if equalp(a, b) else NIL


@library.builtin("not", "(object)")
def lisp_not(a: Any) -> Any:
    from sexpgpu.lang.foreign import truth

    return boolean(not truth(a))


@library.builtin("null", "(object)")
def null(a: Any) -> Any:
    return T if a is NIL else NIL


def eql_image(key: Any) -> Any:
    """A hashable object that is equal for two keys exactly when they are `eql`."""
    kind = type(key)
    if kind is float:
        return (float, key, math.copysign(1.0, key))
    if kind is Fraction:
        return (Fraction, key)
    if kind is str or kind is list:
        return (kind, id(key))
    return key


def equal_image(key: Any, depth: int = 0) -> Any:
    """A hashable object that is equal for two keys exactly when they are `equal`."""
    if type(key) is str:
        return key
    if not isinstance(key, Cons):
        return eql_image(key)
    depth = descend(depth)
    parts: list[Any] = [Cons]
    while isinstance(key, Cons):
        parts.append(equal_image(key.car, depth))
        key = key.cdr
        if len(parts) & SOME_WORK == 0:
            spend(6 * SOME_WORK)
    parts.append(equal_image(key, depth))
    return tuple(parts)


def equalp_image(key: Any, depth: int = 0) -> Any:
    """A hashable object that is equal for two keys exactly when they are `equalp`."""
    if type(key) in REALS:
        return (int, key)
    if type(key) is Char:
        return (Char, folded(key.code))
    if isinstance(key, str | list | Array):
        dims, items = _shape(key)
        spend(4 * len(items))
        return (Array, dims, *map(equalp_image, items, repeat(descend(depth))))
    if isinstance(key, Structure):
        return (Structure, key.type, *map(equalp_image, key.values, repeat(descend(depth))))
    if not isinstance(key, Cons):
        return key
    depth = descend(depth)
    parts: list[Any] = [Cons]
    while isinstance(key, Cons):
        parts.append(equalp_image(key.car, depth))
        key = key.cdr
        if len(parts) & SOME_WORK == 0:
            spend(6 * SOME_WORK)
    parts.append(equalp_image(key, depth))
    return tuple(parts)


IMAGES: Final[dict[str, Callable[[Any], Any]]] = {
    "eq": eql_image,
    "eql": eql_image,
    "equal": equal_image,
    "equalp": equalp_image,
}


_IMAGE_OF_TEST: Final = {
    lisp_eq: eql_image,
    lisp_eql: eql_image,
    lisp_equal: equal_image,
    lisp_equalp: equalp_image,
}


def hash_image(test: Any) -> Callable[[Any], Any] | None:
    """The image under which a `:test` is equality, None when it is not one of the standard equalities."""
    return eql_image if test is NIL else _IMAGE_OF_TEST.get(as_function(test))
