"""Chapter 18, hash tables: they keep the order of insertion."""

from __future__ import annotations

import itertools
import zlib
from fractions import Fraction
from typing import Any, Final

from sexpgpu.diag import error
from sexpgpu.lang.active import as_function, spend_steps
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import MV, NIL, Char, Cons, HashTable, Symbol, T, lisp_list, symbol
from sexpgpu.lang.library.check import MOST_ELEMENTS, spend, wrong_type
from sexpgpu.lang.library.equality import IMAGES
from sexpgpu.lang.printer import brief

library = Library("hashtables")


@library.builtin("make-hash-table", "(&key test size rehash-size rehash-threshold)")
def make_hash_table(*, test: Any = NIL, **sizes: Any) -> Any:
    """A table whose keys match under `:test`: eq, eql (the default), equal or equalp."""
    if test is NIL:
        return HashTable("eql")
    name = test.name if isinstance(test, Symbol) else getattr(test, "__qualname__", "").removeprefix("builtin ")
    if name not in IMAGES:
        raise error(
            "E-VALUE-006",
            f"make-hash-table: :test {brief(test)} is none of eq, eql, equal, equalp",
            help="write :test 'equal",
        )
    return HashTable(name)


def _table(name: str, position: int, value: Any) -> HashTable:
    if type(value) is not HashTable:
        raise wrong_type(name, position, value, "a hash table")
    return value


@library.builtin("gethash", "(key table &optional default)", many=True)
def gethash(key: Any, table: Any, default: Any = NIL) -> Any:
    """The value under `key` and t, or `default` and nil."""
    found = _table("gethash", 2, table).table.get(IMAGES[table.test](key))
    return MV((default, NIL)) if found is None else MV((found[1], T))


@library.builtin("(setf gethash)", "(new key table &optional default)")
def set_gethash(new: Any, key: Any, table: Any, default: Any = NIL) -> Any:
    entries = _table("(setf gethash)", 3, table).table
    image = IMAGES[table.test](key)
    found = entries.get(image)
    if found is None and len(entries) >= MOST_ELEMENTS:
        raise error("E-LIMIT-003", f"(setf gethash): the table holds the {MOST_ELEMENTS:,} entries allowed")
    entries[image] = (key if found is None else found[0], new)
    return new


@library.builtin("remhash", "(key table)")
def remhash(key: Any, table: Any) -> Any:
    gone = _table("remhash", 2, table).table.pop(IMAGES[table.test](key), None)
    return NIL if gone is None else T


@library.builtin("clrhash", "(table)")
def clrhash(table: Any) -> Any:
    _table("clrhash", 0, table).table.clear()
    return table


@library.builtin("maphash", "(function table)")
def maphash(function: Any, table: Any) -> Any:
    """Call the function with each key and value as they stood when the walk began."""
    call = as_function(function)
    entries = list(_table("maphash", 2, table).table.values())
    spend(len(entries))
    for key, value in entries:
        call(key, value)
    return NIL


@library.builtin("hash-table-count", "(table)")
def hash_table_count(table: Any) -> Any:
    return len(_table("hash-table-count", 0, table).table)


@library.builtin("hash-table-size", "(table)")
def hash_table_size(table: Any) -> Any:
    return len(_table("hash-table-size", 0, table).table)


@library.builtin("hash-table-test", "(table)")
def hash_table_test(table: Any) -> Any:
    return symbol(_table("hash-table-test", 0, table).test)


@library.builtin("hash-table-rehash-size", "(table)")
def hash_table_rehash_size(table: Any) -> Any:
    """By how much a table grows when it is full; it grows by itself."""
    _table("hash-table-rehash-size", 0, table)
    return 1.5


@library.builtin("hash-table-rehash-threshold", "(table)")
def hash_table_rehash_threshold(table: Any) -> Any:
    """How full a table gets before it grows."""
    _table("hash-table-rehash-threshold", 0, table)
    return 1.0


@library.builtin("sxhash", "(object)")
def sxhash(value: Any) -> Any:
    """A number of 62 bits, the same in every run, that is equal for what is `equal`."""
    return _digest(value, 0) & (1 << 62) - 1


_MOST_HASHED: Final = 32
_DEEPEST_HASHED: Final = 4


def _digest(value: Any, depth: int) -> int:
    spend_steps(20)
    if isinstance(value, Cons):
        found = 17
        for part in itertools.islice(value, _MOST_HASHED if depth < _DEEPEST_HASHED else 0):
            found = found * 1_000_003 + _digest(part, depth + 1)
        return found
    if type(value) is int and value.bit_length() > 64:
        text = f"{value:x}"
    elif isinstance(value, int | float | Fraction):
        text = repr(abs(value) if value == 0 else value)  # the two zeros of floats are equalp
    elif isinstance(value, str):
        text = f'"{value}'
    elif isinstance(value, Symbol):
        text = f":{value.name}" if value.keyword else value.name
    elif isinstance(value, Char):
        return value.code
    else:  # what is equal only to itself
        text = type(value).__name__
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) * 2_654_435_761


@library.builtin("%loop-pairs", "(table)")
def loop_pairs(table: Any) -> Any:
    """The entries of a table as pairs (key . value), for `loop ... being the hash-keys of`."""
    entries = _table("loop: being the hash-keys of", 0, table).table
    spend(len(entries))
    return lisp_list([Cons(key, value) for key, value in entries.values()])
