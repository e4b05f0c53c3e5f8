"""Chapter 17, sorting: stable, in place for vectors as the standard has it, a fresh list for lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.active import as_function
from sexpgpu.lang.builtin import Library, keyword_arguments, parse_parameters
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Array
from sexpgpu.lang.library.access import holds, items_of, keyed, same_kind
from sexpgpu.lang.library.check import REALS, spend
from sexpgpu.lang.library.mapping import as_result

library = Library("sorting")


class _Ordered:
    """A sort key compared by a Lisp predicate; Python's stable sort asks only `<`."""

    __slots__ = ("before", "key")

    def __init__(self, key: Any, before: Callable[[Any, Any], Any]) -> None:
        self.key = key
        self.before = before

    def __lt__(self, other: _Ordered) -> bool:
        return holds(self.before(self.key, other.key))


def _sorted(items: list[Any], predicate: Any, key: Any) -> list[Any]:
    before = as_function(predicate)
    keys = keyed(items, key)
    spend(len(items) * len(items).bit_length())
    order = list(range(len(items)))
    comparison = getattr(before, "__qualname__", "")
    if comparison in ("builtin <", "builtin >") and all(type(k) in REALS for k in keys):
        order.sort(key=keys.__getitem__, reverse=comparison == "builtin >")
    else:
        order.sort(key=lambda index: _Ordered(keys[index], before))
    return [items[index] for index in order]


def _sort(name: str) -> None:
    parameters = parse_parameters("(sequence predicate &key key)")

    def sort(sequence: Any, *args: Any) -> Any:
        if isinstance(sequence, Foreign):
            return sequence.lisp_generic(name, (sequence, *args))
        if not args:
            raise error(
                "E-ARG-001",
                f"`{name}` {parameters.takes()}, got 1",
                help=f"say what comes first: ({name} x #'<)",
            )
        key = keyword_arguments(name, parameters, args[1:]).get("key", NIL)
        items = items_of(name, 1, sequence)
        ordered = _sorted(items, args[0], key)
        if type(sequence) is list:
            sequence[:] = ordered
            return sequence
        if isinstance(sequence, Array):
            sequence.items[: len(ordered)] = ordered
            return sequence
        return same_kind(sequence, ordered, name)

    library.builtin(name, "(sequence &rest predicate-and-key)")(sort)


_sort("sort")
_sort("stable-sort")


@library.builtin("merge", "(result-type sequence-1 sequence-2 predicate &key key)")
def merge(kind: Any, a: Any, b: Any, predicate: Any, *, key: Any = NIL) -> Any:
    """Two sorted sequences as one; of equal elements those of the first come first."""
    left, right = items_of("merge", 2, a), items_of("merge", 3, b)
    left_keys, right_keys = keyed(left, key), keyed(right, key)
    before = as_function(predicate)
    merged: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if holds(before(right_keys[j], left_keys[i])):
            merged.append(right[j])
            j += 1
        else:
            merged.append(left[i])
            i += 1
    return as_result("merge", kind, [*merged, *left[i:], *right[j:]])
