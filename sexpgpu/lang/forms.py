"""The data of the language: symbols, conses, characters, arrays, hash tables and several values.

Numbers are Python's int, float and Fraction, strings are str, simple vectors are list, functions are Python
callables. True, False and None are never Lisp values: falsity is `NIL`, the answer of a predicate `T` or `NIL`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sexpgpu.diag import Span


class Symbol:
    """A name. Interned ones are one object a spelling; `Symbol(...)` itself makes a fresh, uninterned one."""

    __slots__ = ("__weakref__", "interned", "keyword", "name")

    def __init__(self, name: str, keyword: bool = False, interned: bool = False) -> None:
        self.name = name
        self.keyword = keyword
        self.interned = interned

    def __repr__(self) -> str:
        return f":{self.name}" if self.keyword else self.name if self.interned else f"#:{self.name}"

    def __reduce__(self) -> Any:
        if self.keyword:
            return (keyword, (self.name,))
        return (symbol, (self.name,)) if self.interned else (Symbol, (self.name,))


_symbols: Final[dict[str, Symbol]] = {}
_keywords: Final[dict[str, Symbol]] = {}
_setf_names: Final[dict[Symbol, Symbol]] = {}


def symbol(name: str) -> Symbol:
    """The interned symbol spelt exactly `name` (the reader folds to lower case, this does not)."""
    found = _symbols.get(name)
    if found is None:
        found = _symbols[name] = Symbol(name, interned=True)
    return found


def keyword(name: str) -> Symbol:
    """The keyword spelt `:name`."""
    found = _keywords.get(name)
    if found is None:
        found = _keywords[name] = Symbol(name, keyword=True, interned=True)
    return found


def setf_name(of: Symbol) -> Symbol:
    """The name of the function `(setf of)`; it is no symbol a file can write, only a key of function tables."""
    found = _setf_names.get(of)
    if found is None:
        found = _setf_names[of] = Symbol(f"(setf {of.name})")
    return found


NIL: Final = symbol("nil")
T: Final = symbol("t")


class Cons:
    """A mutable pair."""

    __slots__ = ("car", "cdr")

    def __init__(self, car: Any, cdr: Any) -> None:
        self.car = car
        self.cdr = cdr

    def __iter__(self) -> Iterator[Any]:
        """The elements of a list; a dotted tail is left out."""
        cell: Any = self
        while isinstance(cell, Cons):
            yield cell.car
            cell = cell.cdr

    def __repr__(self) -> str:
        parts = []
        cell: Any = self
        while isinstance(cell, Cons):
            parts.append(repr(cell.car))
            cell = cell.cdr
        return f"({' '.join(parts)}{'' if cell is NIL else f' . {cell!r}'})"


class Source:
    """The text of one file, and where its lines start."""

    __slots__ = ("file", "starts", "text")

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        starts = [0]
        at = text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = text.find("\n", at + 1)
        self.starts = starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect.bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def offset(self, line: int, col: int) -> int:
        """The character at a line and column."""
        return self.starts[line - 1] + col - 1

    def span(self, start: int, end: int) -> Span:
        """The span of text[start:end]."""
        return Span(self.file, *self.position(start), *self.position(end))


class SourceCons(Cons):
    """A cons that the reader made: it knows its own place and, for an atom in its car, the atom's.

    `start`/`end` are character offsets of the list from this cons on (for the first cons: both parentheses),
    `car_start`/`car_end` those of the element.
    """

    __slots__ = ("car_end", "car_start", "end", "source", "start")

    def __init__(self, car: Any, cdr: Any, source: Source, start: int, end: int, car_start: int, car_end: int) -> None:
        self.car = car
        self.cdr = cdr
        self.source = source
        self.start = start
        self.end = end
        self.car_start = car_start
        self.car_end = car_end

    @property
    def span(self) -> Span:
        """Where this list is written."""
        return self.source.span(self.start, self.end)

    @property
    def car_span(self) -> Span:
        """Where the first element of this list is written."""
        return self.source.span(self.car_start, self.car_end)


class Char:
    """A character; `character()` gives the one object of each code."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code

    def __repr__(self) -> str:
        return f"#\\{chr(self.code)}"

    def __reduce__(self) -> Any:
        return (character, (self.code,))


_characters: Final[dict[int, Char]] = {}


def character(of: int | str) -> Char:
    """The character of a code, or of a Python string of length one."""
    code = ord(of) if isinstance(of, str) else of
    found = _characters.get(code)
    if found is None:
        found = _characters[code] = Char(code)
    return found


class MV:
    """Other than exactly one value on their way out of a form; never stored in a variable or a list."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values


def values(*items: Any) -> Any:
    """`items` as a function returns them: the item itself when there is one, else an `MV`."""
    return items[0] if len(items) == 1 else MV(items)


def one(value: Any) -> Any:
    """The value a single-value context sees: the first of several, NIL when there is none."""
    if type(value) is MV:
        return value.values[0] if value.values else NIL
    return value


def all_values(value: Any) -> tuple[Any, ...]:
    """Every value that a form gave."""
    return value.values if type(value) is MV else (value,)


class Array:
    """Any array but a simple vector: `dims` its shape, `items` its elements in row-major order.

    With a fill pointer (`fill` is not None, one dimension) only items[:fill] are the vector's elements.
    """

    __slots__ = ("adjustable", "dims", "fill", "items")

    def __init__(
        self, dims: tuple[int, ...], items: list[Any], fill: int | None = None, adjustable: bool = False
    ) -> None:
        self.dims = dims
        self.items = items
        self.fill = fill
        self.adjustable = adjustable


class HashTable:
    """Keeps insertion order. `table` maps a key's image under the test (1 and 1.0 differ) to (key, value)."""

    __slots__ = ("table", "test")

    def __init__(self, test: str = "eql") -> None:
        self.test = test
        self.table: dict[Any, tuple[Any, Any]] = {}


def lisp_list(items: Iterable[Any], tail: Any = NIL) -> Any:
    """A fresh list of `items`, ending in `tail`."""
    for item in reversed(items if isinstance(items, list | tuple) else list(items)):
        tail = Cons(item, tail)
    return tail


def is_true(value: Any) -> bool:
    """Lisp truth of an ordinary value (not of a `Foreign`: see `foreign.truth`)."""
    return value is not NIL


def boolean(value: object) -> Symbol:
    """A Python condition as Lisp sees it."""
    return T if value else NIL
