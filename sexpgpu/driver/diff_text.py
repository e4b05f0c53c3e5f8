"""The text form of `diff`: a line a row, with a column for each side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sexpgpu.driver.diff_graphs import Row
from sexpgpu.driver.explain_text import checkpoints, evaluation, size
from sexpgpu.driver.paths import compressed, listed

SHOWN = 20
"""Rows of a section that are printed; the JSON document has all."""

LONG = 48
"""Of longer lists only what the other side does not have is shown, behind `...`."""


def text_of(a: str, b: str, found: dict[str, list[Row]]) -> str:
    """`identical`, or what was compared and every section with its rows; `a` and `b` say what each side is."""
    return "\n".join(_lines(a, b, found)) if found else "identical"


def _lines(a: str, b: str, found: dict[str, list[Row]]) -> Iterator[str]:
    yield f"a  {a}"
    yield f"b  {b}"
    for section, rows in found.items():
        yield ""
        yield section
        lines = [(row.key, *_values(section, row)) for row in rows]
        if section == "parameters":
            lines = _alike(lines)
        shown = lines[:SHOWN]
        keys, left = max(len(key) for key, _, _ in shown), max(len(value) for _, value, _ in shown)
        for key, of_a, of_b in shown:
            yield f"  {key:{keys}}  {of_a:{left}}  {of_b}"
        if len(lines) > SHOWN:
            yield f"  {len(lines) - SHOWN} more"


def _alike(lines: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Parameters that differ in the same way, and whose paths differ in a number, in one line."""
    by_values: dict[tuple[str, str], list[str]] = {}
    for path, a, b in lines:
        by_values.setdefault((a, b), []).append(path)
    return [(path, *values) for values, paths in by_values.items() for path in compressed(paths)]


def _values(section: str, row: Row) -> tuple[str, str]:
    a, b = _value(section, row.key, row.a), _value(section, row.key, row.b)
    if section == "optimizer groups" and isinstance(row.a, list) and isinstance(row.b, list):
        only_a, only_b = [x for x in row.a if x not in row.b], [x for x in row.b if x not in row.a]
        if row.key.endswith(" members") and (only_a or only_b):
            return listed(only_a) or "-", listed(only_b) or "-"
        if max(len(a), len(b)) > LONG and (only_a or only_b):
            return _plain(["...", *only_a]), _plain(["...", *only_b])
    return a, b


def _value(section: str, key: str, value: Any) -> str:
    if value is None:
        return "-"
    match section:
        case "knobs":
            return f"{value['value']} ({value['source']})" if value["source"] else str(value["value"])
        case "parameters":
            tied = f" = {', '.join(value['aliases'])}" if value["aliases"] else ""
            return f"{value['shape']} {value['dtype']} {value['group']}{tied}"
        case "training step":
            return _of_step(key, value)
        case "optimizer groups" if key.endswith(" members"):
            return listed(value)
    return _plain(value)


def _of_step(key: str, value: Any) -> str:
    if key == "peak activation":
        return size(value)
    if key == "checkpoints":
        kept = f", every {value['keep_every']} steps for good" if value["keep_every"] else ""
        return checkpoints(value) + kept
    if key.startswith("evaluation "):
        return evaluation(value).partition(": ")[2]
    return _plain(value)


def _plain(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case {"shape": shape, "dtype": dtype, "count": n}:
            return f"{shape} {dtype}" if n == 1 else f"{n} x {shape} {dtype}"
        case list():
            return ", ".join(map(_plain, value)) or "none"
        case dict():
            return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items() if inner is not None)
    return str(value)
