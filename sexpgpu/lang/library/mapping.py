"""Chapter 14.2 and 17: applying a function along lists or sequences, and asking it about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.active import as_function, spend_steps
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import MV, NIL, Array, Cons, T, lisp_list, one
from sexpgpu.lang.library.access import holds, items_of, items_of_list, join
from sexpgpu.lang.library.check import wrong_type
from sexpgpu.lang.library.conses import nconc

library = Library("mapping")

Function = Callable[..., Any]


def _applied(name: str, function: Any, lists: tuple[Any, ...]) -> Iterator[Any]:
    """The single values of a function along the elements of lists, up to the end of the shortest."""
    call = as_function(function)
    columns = [items_of_list(name, position, a) for position, a in enumerate(lists, 2)]
    spend_steps(16 + 6 * len(columns[0]))
    for row in zip(*columns, strict=False) if len(columns) > 1 else columns[0]:
        value = call(*row) if len(columns) > 1 else call(row)
        yield one(value) if type(value) is MV else value


@library.builtin("mapcar", "(function list &rest more)")
def mapcar(function: Any, *lists: Any) -> Any:
    return lisp_list(list(_applied("mapcar", function, lists)))


@library.builtin("mapc", "(function list &rest more)")
def mapc(function: Any, *lists: Any) -> Any:
    for _ in _applied("mapc", function, lists):
        pass
    return lists[0]


@library.builtin("mapcan", "(function list &rest more)")
def mapcan(function: Any, *lists: Any) -> Any:
    return nconc(*_applied("mapcan", function, lists))


def _along_tails(name: str, function: Any, lists: tuple[Any, ...]) -> Iterator[Any]:
    call = as_function(function)
    for position, a in enumerate(lists, 2):
        if a is not NIL and not isinstance(a, Cons):
            raise wrong_type(name, position, a, "a list")
    tails = list(lists)
    while all(isinstance(tail, Cons) for tail in tails):
        spend_steps(16)
        yield one(call(*tails))
        tails = [tail.cdr for tail in tails]


@library.builtin("maplist", "(function list &rest more)")
def maplist(function: Any, *lists: Any) -> Any:
    return lisp_list(list(_along_tails("maplist", function, lists)))


@library.builtin("mapl", "(function list &rest more)")
def mapl(function: Any, *lists: Any) -> Any:
    for _ in _along_tails("mapl", function, lists):
        pass
    return lists[0]


@library.builtin("mapcon", "(function list &rest more)")
def mapcon(function: Any, *lists: Any) -> Any:
    return nconc(*_along_tails("mapcon", function, lists))


def _along(name: str, function: Any, sequences: tuple[Any, ...], first: int = 2) -> Iterator[Any]:
    call = as_function(function)
    columns = [items_of(name, position, a) for position, a in enumerate(sequences, first)]
    if len(columns) == 1:
        for item in columns[0]:
            yield one(call(item))
    else:
        for row in zip(*columns, strict=False):
            yield one(call(*row))


def as_result(name: str, kind: Any, items: Iterable[Any]) -> Any:
    """A sequence of the type that `map`, `concatenate`, `merge` or `coerce` was asked for."""
    from sexpgpu.lang.library.typespec import sequence_type

    family, length = sequence_type(name, kind)
    found = list(items)
    if length is not None and length != len(found):
        raise error("E-VALUE-003", f"{name}: the result type wants {length} elements, there are {len(found)}")
    if family == "list":
        return lisp_list(found)
    return join(name, found) if family == "string" else found


@library.builtin("map", "(result-type function sequence &rest more)")
def lisp_map(kind: Any, function: Any, *sequences: Any) -> Any:
    values = _along("map", function, sequences, 3)
    if kind is NIL:
        for _ in values:
            pass
        return NIL
    return as_result("map", kind, values)


@library.builtin("map-into", "(result function &rest sequences)")
def map_into(result: Any, function: Any, *sequences: Any) -> Any:
    """Store the function's values into the elements of `result`, as many as there are."""
    call = as_function(function)
    if isinstance(result, Array) and result.fill is not None:
        result.fill = len(result.items)
    room = len(items_of("map-into", 1, result))
    columns = [items_of("map-into", position, a)[:room] for position, a in enumerate(sequences, 3)]
    count = min((len(column) for column in columns), default=room)
    values = [one(call(*[column[index] for column in columns])) for index in range(count)]
    store_items("map-into", result, 0, values)
    if isinstance(result, Array) and result.fill is not None:
        result.fill = count
    return result


def store_items(name: str, sequence: Any, start: int, values: list[Any]) -> None:
    """Overwrite the elements of a list or vector from `start` on; strings are immutable (E-TYPE-003)."""
    if type(sequence) is str:
        raise immutable(name)
    if isinstance(sequence, Cons):
        cell: Any = sequence
        for _ in range(start):
            cell = cell.cdr
        for value in values:
            cell.car = value
            cell = cell.cdr
    elif type(sequence) is list:
        sequence[start : start + len(values)] = values
    elif isinstance(sequence, Array):
        sequence.items[start : start + len(values)] = values


def immutable(name: str) -> Exception:
    """The error of storing into a string."""
    return error(
        "E-TYPE-003",
        f"{name}: strings cannot be changed",
        help="build a new one with (concatenate 'string ...), substitute or format",
    )


@library.builtin("every", "(predicate sequence &rest more)")
def every(function: Any, *sequences: Any) -> Any:
    return T if all(map(holds, _along("every", function, sequences))) else NIL


@library.builtin("some", "(predicate sequence &rest more)")
def some(function: Any, *sequences: Any) -> Any:
    for value in _along("some", function, sequences):
        if holds(value):
            return value
    return NIL


@library.builtin("notany", "(predicate sequence &rest more)")
def notany(function: Any, *sequences: Any) -> Any:
    return NIL if any(map(holds, _along("notany", function, sequences))) else T


@library.builtin("notevery", "(predicate sequence &rest more)")
def notevery(function: Any, *sequences: Any) -> Any:
    return NIL if all(map(holds, _along("notevery", function, sequences))) else T


@library.builtin("reduce", "(function sequence &key key from-end start end initial-value)")
def reduce(function: Any, sequence: Any, **options: Any) -> Any:
    """Combine the elements pairwise, from the left or with `:from-end` from the right."""
    from sexpgpu.lang.library.access import keyed
    from sexpgpu.lang.library.check import bounds

    call = as_function(function)
    items = items_of("reduce", 2, sequence)
    start, end = bounds("reduce", len(items), options.get("start", 0), options.get("end", NIL))
    items = keyed(items[start:end], options.get("key", NIL))
    backwards = options.get("from_end", NIL) is not NIL
    if backwards:
        items = items[::-1]
    if "initial_value" in options:
        result, rest = options["initial_value"], items
    elif items:
        result, rest = items[0], items[1:]
    else:
        return one(call())
    for item in rest:
        value = call(item, result) if backwards else call(result, item)
        result = one(value) if type(value) is MV else value
    return result
