"""Chapter 17, searching sequences: find, position, count, remove, substitute, search and mismatch.

All of them share `_matching`, which gives the positions of the elements that a test accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL
from sexpgpu.lang.library.access import (
    Test,
    item_test,
    items_of,
    key_of,
    keyed,
    pair_test,
    predicate,
    same_kind,
)
from sexpgpu.lang.library.check import bounds, spend, wrong_type
from sexpgpu.lang.library.equality import hash_image

library = Library("searching")

_RANGE = "from-end key start end"

Body = Callable[..., Any]


def _matching(
    name: str,
    sequence: Any,
    test: Test,
    *,
    position: int = 2,
    key: Any = NIL,
    start: Any = 0,
    end: Any = NIL,
    from_end: Any = NIL,
    count: Any = NIL,
) -> tuple[list[Any], list[int]]:
    """The elements, and ascending positions of at most `count` matching ones (the last with `from_end`)."""
    items = items_of(name, position, sequence)
    start, end = bounds(name, len(items), start, end)
    if type(count) is int:
        room = max(count, 0)
    elif count is NIL:
        room = len(items)
    else:
        raise wrong_type(name, position, count, "an integer for :count")
    function = key_of(key)
    spend(4 * (end - start))
    order = range(end - 1, start - 1, -1) if from_end is not NIL else range(start, end)
    found: list[int] = []
    for index in order:
        if len(found) >= room:
            break
        item = items[index]
        if test(item if function is None else function(item)):
            found.append(index)
    return items, found if from_end is NIL else found[::-1]


def _family(name: str, lead: str, keys: str, body: Body) -> None:
    """Define `name`, `name-if` and `name-if-not` over body(name, test, sequence, *lead, **options)."""
    tests = f"{keys} {_RANGE}".strip()
    extra = 1 if lead else 0

    def by_item(*args: Any, test: Any = NIL, test_not: Any = NIL, **options: Any) -> Any:
        return body(name, item_test(args[extra], test, test_not), args[-1], *args[:extra], **options)

    def by_predicate(*args: Any, **options: Any) -> Any:
        return body(f"{name}-if", predicate(args[extra]), args[-1], *args[:extra], **options)

    def by_refusal(*args: Any, **options: Any) -> Any:
        return body(f"{name}-if-not", predicate(args[extra], True), args[-1], *args[:extra], **options)

    library.builtin(name, f"({lead}item sequence &key test test-not {tests})")(by_item)
    library.builtin(f"{name}-if", f"({lead}predicate sequence &key {tests})")(by_predicate)
    library.builtin(f"{name}-if-not", f"({lead}predicate sequence &key {tests})")(by_refusal)


def _find(name: str, test: Test, sequence: Any, **options: Any) -> Any:
    items, found = _matching(name, sequence, test, count=1, **options)
    return items[found[0]] if found else NIL


def _position(name: str, test: Test, sequence: Any, **options: Any) -> Any:
    found = _matching(name, sequence, test, count=1, **options)[1]
    return found[0] if found else NIL


def _count(name: str, test: Test, sequence: Any, **options: Any) -> Any:
    return len(_matching(name, sequence, test, **options)[1])


def _remove(name: str, test: Test, sequence: Any, **options: Any) -> Any:
    items, found = _matching(name, sequence, test, **options)
    if not found:
        return sequence
    gone = set(found)
    return same_kind(sequence, [item for index, item in enumerate(items) if index not in gone], name)


def _substitute(name: str, test: Test, sequence: Any, new: Any, **options: Any) -> Any:
    items, found = _matching(name, sequence, test, position=3, **options)
    items = list(items)
    for index in found:
        items[index] = new
    return same_kind(sequence, items, name)


_family("find", "", "", _find)
_family("position", "", "", _position)
_family("count", "", "", _count)
_family("remove", "", "count", _remove)
_family("delete", "", "count", _remove)
_family("substitute", "new ", "count", _substitute)
_family("nsubstitute", "new ", "count", _substitute)


def _duplicates(keys: list[Any], test: Any, test_not: Any, swap: bool = False) -> list[bool]:
    """For each key whether a later one matches it."""
    # Under the standard equalities duplicates are found by hashing instead of by comparing all pairs.
    image = hash_image(test) if test_not is NIL else None
    if image is not None:
        spend(8 * len(keys))
        last = {image(key): index for index, key in enumerate(keys)}
        return [last[image(key)] != index for index, key in enumerate(keys)]
    matches = pair_test(test, test_not)
    spend(len(keys) * len(keys) // 2)
    if swap:
        return [any(matches(later, key) for later in keys[index + 1 :]) for index, key in enumerate(keys)]
    return [any(matches(key, later) for later in keys[index + 1 :]) for index, key in enumerate(keys)]


def _without_duplicates(name: str) -> None:
    def remove_duplicates(
        sequence: Any,
        *,
        test: Any = NIL,
        test_not: Any = NIL,
        from_end: Any = NIL,
        key: Any = NIL,
        start: Any = 0,
        end: Any = NIL,
    ) -> Any:
        items = items_of(name, 0, sequence)
        start, end = bounds(name, len(items), start, end)
        keys = keyed(items[start:end], key)
        if from_end is NIL:
            doubled = _duplicates(keys, test, test_not)
        else:
            # The test's first argument stays the earlier element.
            doubled = _duplicates(keys[::-1], test, test_not, swap=True)[::-1]
        kept = [item for item, double in zip(items[start:end], doubled, strict=True) if not double]
        return same_kind(sequence, [*items[:start], *kept, *items[end:]], name)

    library.builtin(name, f"(sequence &key test test-not {_RANGE})")(remove_duplicates)


_without_duplicates("remove-duplicates")
_without_duplicates("delete-duplicates")

_TWO = "&key from-end test test-not key start1 end1 start2 end2"


@library.builtin("search", f"(pattern sequence {_TWO})")
def search(
    pattern: Any,
    sequence: Any,
    *,
    from_end: Any = NIL,
    test: Any = NIL,
    test_not: Any = NIL,
    key: Any = NIL,
    start1: Any = 0,
    end1: Any = NIL,
    start2: Any = 0,
    end2: Any = NIL,
) -> Any:
    """The position where `pattern` first (or last) occurs in `sequence`, nil when it does not."""
    wanted, items = items_of("search", 1, pattern), items_of("search", 2, sequence)
    start1, end1 = bounds("search", len(wanted), start1, end1)
    start2, end2 = bounds("search", len(items), start2, end2)
    if type(pattern) is str and type(sequence) is str and test is test_not is key is NIL:
        seek = sequence.find if from_end is NIL else sequence.rfind
        found = seek(pattern[start1:end1], start2, end2)
        return NIL if found < 0 else found
    left, right = keyed(wanted[start1:end1], key), keyed(items[start2:end2], key)
    matches = pair_test(test, test_not)
    spend(len(left) * len(right))
    starts = range(len(right) - len(left) + 1)
    for at in reversed(starts) if from_end is not NIL else starts:
        if all(matches(a, right[at + offset]) for offset, a in enumerate(left)):
            return start2 + at
    return NIL


@library.builtin("mismatch", f"(sequence-1 sequence-2 {_TWO})")
def mismatch(
    a: Any,
    b: Any,
    *,
    from_end: Any = NIL,
    test: Any = NIL,
    test_not: Any = NIL,
    key: Any = NIL,
    start1: Any = 0,
    end1: Any = NIL,
    start2: Any = 0,
    end2: Any = NIL,
) -> Any:
    """The first position of `a` where the two differ, nil when they match; from the end, one past it."""
    left, right = items_of("mismatch", 1, a), items_of("mismatch", 2, b)
    start1, end1 = bounds("mismatch", len(left), start1, end1)
    start2, end2 = bounds("mismatch", len(right), start2, end2)
    matches = pair_test(test, test_not)
    left, right = keyed(left[start1:end1], key), keyed(right[start2:end2], key)
    if from_end is not NIL:
        left, right = left[::-1], right[::-1]
    shorter = min(len(left), len(right))
    same = next((at for at in range(shorter) if not matches(left[at], right[at])), shorter)
    if same == len(left) == len(right):
        return NIL
    return start1 + same if from_end is NIL else end1 - same
