"""Model paths in few words: `model.blocks.{0..3}.attn` for the same place in each of four blocks."""

from __future__ import annotations

from collections.abc import Iterable

SHOWN = 3
"""How many compressed paths a line of a report names before it counts the rest."""


def compressed(paths: Iterable[str]) -> list[str]:
    """The distinct paths in order of first appearance, those that differ in one number each written as one.

    Numbers in a row become a range, `{0..3}`, others a list, `{0, 2..5}`; a number that stands alone stays as it is.
    Where paths differ in several numbers the last is merged first, and an earlier one only where the later ones agree:
    `stages.{0..1}.blocks.{0..3}` says that both stages have all four blocks.
    """
    rows = [tuple(path.split(".")) for path in dict.fromkeys(paths)]
    for place in reversed(range(max((len(row) for row in rows), default=0))):
        rows = _merged(rows, place)
    return [".".join(row) for row in rows]


def listed(paths: Iterable[str], shown: int = SHOWN) -> str:
    """The compressed paths in one line: the first `shown`, then how many more there are."""
    all_of_them = compressed(paths)
    more = len(all_of_them) - shown
    return ", ".join(all_of_them[:shown] + ([f"{more} more"] if more > 0 else []))


def _merged(rows: list[tuple[str, ...]], place: int) -> list[tuple[str, ...]]:
    """Rows that are alike but for a number at `place` made one, at the place of the first of them."""
    numbers: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        key = _key(row, place)
        numbers.setdefault(key, [])
        if key != row:
            numbers[key].append(int(row[place]))
    return [(*key[:place], _numerals(found), *key[place + 1 :]) if found else key for key, found in numbers.items()]


def _key(row: tuple[str, ...], place: int) -> tuple[str, ...]:
    """What a row shares with those that it can be merged with: itself where it has no number at `place`."""
    if place >= len(row) or not row[place].isdecimal():
        return row
    return (*row[:place], "", *row[place + 1 :])


def _numerals(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = [str(first) if first == last else f"{first}..{last}" for first, last in runs]
    return parts[0] if len(numbers) == 1 else "{" + ", ".join(parts) + "}"
