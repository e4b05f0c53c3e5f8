"""How atoms print: numbers, characters, strings, and symbols as the reader takes them back."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from sexpgpu.lang.active import spend_steps
from sexpgpu.lang.forms import Char, Symbol
from sexpgpu.lang.style import Style
from sexpgpu.lang.tokens import reads_back

# Python refuses to convert integers of more than 4,300 digits unless told otherwise; the library bounds sizes.
sys.set_int_max_str_digits(0)

CHARACTER_NAMES: Final[dict[int, str]] = {
    0: "Nul",
    8: "Backspace",
    9: "Tab",
    10: "Newline",
    12: "Page",
    13: "Return",
    27: "Escape",
    127: "Rubout",
}


def print_float(value: float) -> str:
    """Shortest digits that read back; fixed for 1e-3 <= |x| < 1e7, else one digit before the point, `e`."""
    text = repr(value)
    size = abs(value)
    if 1e-3 <= size < 1e7 or size == 0.0:
        if "e" not in text:
            return text
    elif size != size or size == float("inf"):
        return {"inf": "infinity", "-inf": "-infinity"}.get(text, text)
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1
    if whole == "0":
        power -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    if 1e-3 <= size < 1e7:
        return sign + "0." + "0" * (-power - 1) + digits
    return f"{sign}{digits[0]}.{digits[1:] or '0'}e{power}"


LONG_BITS: Final = 4096
"""From so many bits on, an integer's digits count as work."""
_WORD: Final = re.compile(r"[^\W_]+")
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RADIX_PREFIXES: Final = {2: "#b", 8: "#o", 16: "#x"}


def digits_in_base(value: int, base: int) -> str:
    """An integer's digits, a minus sign before those of a negative one."""
    if value.bit_length() > LONG_BITS:
        spend_steps((value.bit_length() >> 7) ** 2 // 4)
    if base == 10:
        return str(value)
    if base in _RADIX_PREFIXES:
        return format(value, {2: "b", 8: "o", 16: "X"}[base])
    if value < 0:
        return "-" + digits_in_base(-value, base)
    # Halving keeps the cost of long integers near that of their divisions.
    half = 1
    while base ** (2 * half) <= value:
        half *= 2
    if value < base:
        return _DIGITS[value]
    high, low = divmod(value, base**half)
    return digits_in_base(high, base) + digits_in_base(low, base).rjust(half, "0")


def print_rational(value: int | Fraction, base: int, radix: bool) -> str:
    """An integer or ratio in a base; `radix` says which, for integers in base ten by a point at the end."""
    text = digits_in_base(value.numerator, base)
    if type(value) is Fraction:
        text += f"/{digits_in_base(value.denominator, base)}"
    if not radix:
        return text
    if base == 10 and type(value) is int:
        return text + "."
    return _RADIX_PREFIXES.get(base, f"#{base}r") + text


def print_character(char: Char, escape: bool) -> str:
    if not escape:
        return chr(char.code)
    return "#\\" + CHARACTER_NAMES.get(char.code, chr(char.code))


def print_string(text: str, escape: bool) -> str:
    if not escape:
        return text
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    # The reader takes a carriage return and a line feed for one line end, unless a backslash parts them.
    return '"' + text.replace("\r\n", "\r\\\n") + '"'


_spellings: dict[str, str] = {}


def spelling(name: str) -> str:
    """A symbol's name as the reader would take it back, between bars where it must be."""
    found = _spellings.get(name)
    if found is None:
        found = name if reads_back(name) else "|" + name.replace("\\", "\\\\").replace("|", "\\|") + "|"
        if len(_spellings) < 10_000:
            _spellings[name] = found
    return found


def print_symbol(value: Symbol, escape: bool) -> str:
    if not escape:
        return value.name
    if value.keyword:
        return ":" + spelling(value.name)
    return spelling(value.name) if value.interned else "#:" + spelling(value.name)


def _rational(value: Any, escape: bool) -> str:
    return print_rational(value, 10, False)


ATOMS: Final[dict[type, Callable[[Any, bool], str]]] = {
    int: _rational,
    Fraction: _rational,
    float: lambda value, escape: print_float(value),
    str: print_string,
    Symbol: print_symbol,
    Char: print_character,
}


def styled(value: Any, escape: bool, style: Style) -> str:
    """An atom as a style says: numbers in its base, symbols in its letter case."""
    if type(value) is int or type(value) is Fraction:
        return print_rational(value, style.base, style.radix)
    if type(value) is Symbol:
        return _cased(value, escape, style)
    return ATOMS[type(value)](value, escape)


def _cased(value: Symbol, escape: bool, style: Style) -> str:
    text = print_symbol(value, escape) if style.gensym else print_symbol(value, escape).removeprefix("#:")
    if style.case == "downcase" or (escape and "|" in text):
        return text
    return text.upper() if style.case == "upcase" else _WORD.sub(lambda word: word[0].capitalize(), text)
