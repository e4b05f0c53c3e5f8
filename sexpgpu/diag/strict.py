"""JSON that every reader takes: numbers in full, what JSON has no number for as a string."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_HALF: Final = re.compile("[\ud800-\udfff]")


def json_text(
    value: object, *, indent: int | None = None, escaped: bool = False, default: Callable[[Any], str] | None = None
) -> str:
    """The value as JSON: NaN and the infinities are the strings "NaN", "Infinity", "-Infinity".

    One line without blanks unless it is to be indented. `default` says what stands for an object that JSON knows
    nothing of; with `escaped` no character is outside ASCII, as for a terminal of any encoding. Half a surrogate pair,
    which stands for a byte in the name of a file that is not UTF-8, is always written as its escape.
    """
    separators = (",", ":") if indent is None else None
    text = json.dumps(
        plain(value), allow_nan=False, ensure_ascii=escaped, indent=indent, separators=separators, default=default
    )
    return text if text.isascii() else _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


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
