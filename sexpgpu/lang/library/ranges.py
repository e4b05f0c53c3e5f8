"""Ranges of numbers, as the numeric type specifiers name them, and what remains of them without others."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from attrs import frozen

from sexpgpu.lang.forms import Cons, Symbol

KINDS: Final = ("integer", "ratio", "float")
_FLOATS: Final = ("float", "single-float", "double-float", "short-float", "long-float")
_OF_WORD: Final[dict[str, tuple[str, ...]]] = {
    "integer": ("integer",),
    "ratio": ("ratio",),
    "rational": ("integer", "ratio"),
    "real": KINDS,
    "number": KINDS,
    **dict.fromkeys(_FLOATS, ("float",)),
}
_FIXNUM: Final = 1 << 62
MOST_POINTS: Final = 4096

# A bound: the number, and 1 where it is itself outside (0 where inside), in the order of the numbers it lets in.
Bound = tuple[Any, int]
Interval = tuple[Bound, Bound]
_LOWEST: Final[Bound] = (-math.inf, 0)
_HIGHEST: Final[Bound] = (math.inf, 0)


@frozen
class Range:
    """The numbers of some kinds from `low` to `high`; a bound's second part is 1, or -1 above, where it is open."""

    kinds: tuple[str, ...]
    low: Bound = _LOWEST
    high: Bound = _HIGHEST


def range_of(word: str, arguments: list[Any]) -> Range | None:
    """The range that a numeric type specifier names, None for other types."""
    first = arguments[0] if arguments and type(arguments[0]) is int else None
    if word == "fixnum":
        return Range(("integer",), (-_FIXNUM, 0), (_FIXNUM - 1, 0))
    if word == "bit":
        return Range(("integer",), (0, 0), (1, 0))
    if word == "mod":
        return Range(("integer",), (0, 0), _HIGHEST if first is None else (first - 1, 0))
    if word == "unsigned-byte":
        return Range(("integer",), (0, 0), _HIGHEST if first is None else ((1 << first) - 1, 0))
    if word == "signed-byte":
        half = None if first is None else 1 << max(first - 1, 0)
        return Range(("integer",)) if half is None else Range(("integer",), (-half, 0), (half - 1, 0))
    kinds = _OF_WORD.get(word)
    if kinds is None:
        return None
    low, high = [*arguments, None, None][:2]
    return Range(kinds, _bound(low, _LOWEST, 1), _bound(high, _HIGHEST, -1))


def _bound(given: Any, without: Bound, openness: int) -> Bound:
    if given is None or isinstance(given, Symbol):
        return without
    return (given.car, openness) if isinstance(given, Cons) else (given, 0)


def nothing_left(kind: str, ranges: list[Range], excluded: list[Range], points: list[Any]) -> bool:
    """Whether no number of a kind is in all `ranges`, in none of `excluded` and none of `points`."""
    if not all(kind in part.kinds for part in ranges):
        return True
    low = max([part.low for part in ranges], default=_LOWEST)
    high = min([part.high for part in ranges], default=_HIGHEST)
    left = [_whole(low, high) if kind == "integer" else (low, high)]
    for part in excluded:
        if kind in part.kinds:
            left = [rest for interval in left for rest in _without(interval, part, kind)]
    return all(_is_empty(interval, kind, points) for interval in left)


def _whole(low: Bound, high: Bound) -> Interval:
    """The bounds of the integers between two bounds."""
    if math.isfinite(low[0]):
        low = (math.floor(low[0]) + 1 if low[1] else math.ceil(low[0]), 0)
    if math.isfinite(high[0]):
        high = (math.ceil(high[0]) - 1 if high[1] else math.floor(high[0]), 0)
    return low, high


def _without(interval: Interval, part: Range, kind: str) -> list[Interval]:
    """What remains of an interval without a range: what lies below it and what lies above."""
    low, high = interval
    below = min(high, (part.low[0], part.low[1] - 1))
    above = max(low, (part.high[0], part.high[1] + 1))
    found = []
    if part.low != _LOWEST:
        found.append(_whole(low, below) if kind == "integer" else (low, below))
    if part.high != _HIGHEST:
        found.append(_whole(above, high) if kind == "integer" else (above, high))
    return [rest for rest in found if rest[0] <= rest[1]]


def _is_empty(interval: Interval, kind: str, points: list[Any]) -> bool:
    low, high = interval
    if low > high:
        return True
    if kind == "integer":
        if not (math.isfinite(low[0]) and math.isfinite(high[0])) or high[0] - low[0] > MOST_POINTS:
            return False
        out = {point for point in points if type(point) is int}
        return all(value in out for value in range(low[0], high[0] + 1))
    if low[0] != high[0]:
        return False
    if kind == "ratio":
        value = Fraction(low[0])
        return value.denominator == 1 or value in [point for point in points if type(point) is Fraction]
    # Zero is two floats, which are equal as numbers.
    wanted = [0.0, -0.0] if low[0] == 0 else [float(low[0])]
    listed = {repr(point) for point in points if type(point) is float}
    return all(repr(value) in listed for value in wanted)
