"""JSON that every reader takes: numbers in full, what JSON has no number for as a string."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def json_text(
    value: object, *, indent: int | None = None, escaped: bool = False, default: Callable[[Any], str] | None = None
) -> str:
    """The value as JSON: NaN and the infinities are the strings "NaN", "Infinity", "-Infinity".

    One line without blanks unless it is to be indented. `default` says what stands for an object that JSON knows
    nothing of; with `escaped` no character is outside ASCII, as for a terminal of any encoding.
    """
    separators = (",", ":") if indent is None else None
    return json.dumps(
        plain(value), allow_nan=False, ensure_ascii=escaped, indent=indent, separators=separators, default=default
    )


def plain(value: object) -> object:
    """The value in what JSON has; the one encoding of numbers that it has none for."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case str():
            return value
        case Sequence():
            return [plain(item) for item in value]
        case _:
            return value
