"""How values print: `print_form` as the reader takes them back, `print_text` for people, `brief` in messages.

Lists are walked along their cdrs without recursion, so a long list prints at any depth of the stack. What
prints longer than `LONGEST` characters, circular structure included, is an error (E-LIMIT-004).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from sexpgpu.diag import error
from sexpgpu.lang.conditions import Condition
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Array, Char, Cons, HashTable, Symbol
from sexpgpu.lang.structures import Structure
from sexpgpu.lang.tokens import reads_back

# Python refuses to convert integers of more than 4,300 digits unless told otherwise; the library bounds sizes.
sys.set_int_max_str_digits(0)

LONGEST: Final = 1_000_000
DEEPEST: Final = 10_000
BRIEF: Final = 60

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
_PREFIXES: Final = {"quote": "'", "function": "#'", "quasiquote": "`"}
_COMMAS: Final = {"unquote": ",", "unquote-splicing": ",@"}


class _Full(Exception):
    """The text has reached the length asked for."""


class _Sink:
    """Collects pieces of text up to a length."""

    __slots__ = ("backquotes", "base", "depth", "parts", "radix", "room")

    def __init__(self, room: int, base: int = 10, radix: bool = False) -> None:
        self.parts: list[str] = []
        self.room = room
        self.depth = 0
        self.backquotes = 0
        self.base = base
        self.radix = radix

    def put(self, text: str) -> None:
        self.parts.append(text)
        self.room -= len(text)
        if self.room < 0:
            raise _Full


def print_form(value: Any) -> str:
    """`value` as `prin1` prints it."""
    return _print(value, True)


def print_text(value: Any) -> str:
    """`value` as `princ` prints it: strings and characters as their own text."""
    return value if type(value) is str else _print(value, False)


def in_base(value: Any, base: int, radix: bool = False, escape: bool = True) -> str:
    """`value` with its integers and ratios in another base, behind `#x` or `#12r` with `radix`."""
    return _finished(value, escape, _Sink(LONGEST, base, radix))


def brief(value: Any, width: int = BRIEF) -> str:
    """`value` as a message quotes it: cut to `width` characters, whatever it holds."""
    if type(value) is int and value.bit_length() > 1000:
        return f"an integer of {value.bit_length():,} bits"
    sink = _Sink(width)
    try:
        _write(value, True, sink)
    except (_Full, RecursionError):
        return "".join(sink.parts)[: width - 1] + "…"
    return "".join(sink.parts)


def _print(value: Any, escape: bool) -> str:
    writer = _ATOMS.get(type(value))
    if writer is not None:
        return writer(value, escape)
    return _finished(value, escape, _Sink(LONGEST))


def _finished(value: Any, escape: bool, sink: _Sink) -> str:
    try:
        _write(value, escape, sink)
    except (_Full, RecursionError):
        raise error(
            "E-LIMIT-004",
            f"the value prints longer than {LONGEST:,} characters or deeper than {DEEPEST:,} levels",
            help="is the list circular?",
        ) from None
    return "".join(sink.parts)


def _write(value: Any, escape: bool, sink: _Sink) -> None:
    writer = _ATOMS.get(type(value))
    if writer is not None:
        rational = type(value) is int or type(value) is Fraction
        sink.put(print_rational(value, sink.base, sink.radix) if rational else writer(value, escape))
        return
    sink.depth += 1
    if sink.depth > DEEPEST:
        raise _Full
    if isinstance(value, Cons):
        _write_list(value, escape, sink)
    elif type(value) is list:
        sink.put("#")
        _write_items(value, escape, sink)
    elif isinstance(value, Array):
        _write_array(value, escape, sink)
    elif isinstance(value, Structure):
        _write_structure(value, escape, sink)
    else:
        _write_object(value, escape, sink)
    sink.depth -= 1


def _write_list(value: Cons, escape: bool, sink: _Sink) -> None:
    if _is_pair_of(value) and _write_prefixed(value, escape, sink):
        return
    sink.put("(")
    _write(value.car, escape, sink)
    tail = value.cdr
    while isinstance(tail, Cons):
        if sink.backquotes and _is_pair_of(tail) and tail.car.name == "unquote":
            break
        sink.put(" ")
        _write(tail.car, escape, sink)
        tail = tail.cdr
    if tail is not NIL:
        sink.put(" . ")
        _write(tail, escape, sink)
    sink.put(")")


def _is_pair_of(value: Cons) -> bool:
    """Whether a list is a symbol and one more element, as prefixes read."""
    return type(value.car) is Symbol and isinstance(value.cdr, Cons) and value.cdr.cdr is NIL


def _write_prefixed(value: Cons, escape: bool, sink: _Sink) -> bool:
    """Write a list of two as the prefix that reads as it; a comma only where a backquote stands around it."""
    head = value.car
    prefix = _PREFIXES.get(head.name)
    if prefix is None:
        prefix = _COMMAS.get(head.name) if sink.backquotes else None
        if prefix is None:
            return False
    change = 1 if head.name == "quasiquote" else -1 if head.name in _COMMAS else 0
    sink.backquotes += change
    sink.put(prefix)
    _write(value.cdr.car, escape, sink)
    sink.backquotes -= change
    return True


def _write_items(items: list[Any], escape: bool, sink: _Sink) -> None:
    sink.put("(")
    for position, item in enumerate(items):
        if position:
            sink.put(" ")
        _write(item, escape, sink)
    sink.put(")")


def _write_array(array: Array, escape: bool, sink: _Sink) -> None:
    if len(array.dims) == 1:
        sink.put("#")
        _write_items(array.items if array.fill is None else array.items[: array.fill], escape, sink)
        return
    sink.put(f"#{len(array.dims)}A")

    def level(axis: int, start: int, size: int) -> None:
        if axis == len(array.dims):
            _write(array.items[start], escape, sink)
            return
        extent = array.dims[axis]
        part = size // extent if extent else 0
        sink.put("(")
        for index in range(extent):
            if index:
                sink.put(" ")
            level(axis + 1, start + index * part, part)
        sink.put(")")

    level(0, 0, len(array.items))


def _write_structure(value: Structure, escape: bool, sink: _Sink) -> None:
    sink.put(f"#S({spelling(value.type.name.name)}")
    for slot, part in zip(value.type.slots, value.values, strict=True):
        sink.put(f" :{spelling(slot.name)} ")
        _write(part, escape, sink)
    sink.put(")")


def _write_object(value: Any, escape: bool, sink: _Sink) -> None:
    if isinstance(value, Foreign):
        sink.put(value.lisp_print())
    elif isinstance(value, HashTable):
        sink.put(f"#<hash-table {value.test} {len(value.table)}>")
    elif isinstance(value, Condition):
        sink.put(f"#<{value.type.name}>" if escape else report_of(value))
    elif callable(value):
        from sexpgpu.lang.active import function_name

        sink.put(f"#<function {function_name(value)}>")
    else:
        sink.put(f"#<{type(value).__name__.lower()}>")


def report_of(condition: Condition) -> str:
    """What a condition says of itself: its class's report, its format control, or the error's own message."""
    reporter = condition.type.reporter()
    if isinstance(reporter, str):
        return reporter
    if reporter is not None:
        from sexpgpu.lang.streams import TextOutput

        out = TextOutput()
        reporter(condition, out)
        return out.text()
    control = condition.slots.get("format-control")
    if isinstance(control, str):
        from sexpgpu.lang.format import format_text

        arguments = condition.slots.get("format-arguments")
        return format_text(control, tuple(arguments) if isinstance(arguments, Cons) else ())
    if condition.diagnostic is not None:
        return condition.diagnostic.message
    return f"a condition of type {condition.type.name}"


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


_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_RADIX_PREFIXES: Final = {2: "#b", 8: "#o", 16: "#x"}


def digits_in_base(value: int, base: int) -> str:
    """An integer's digits, a minus sign before those of a negative one."""
    if base == 10:
        return str(value)
    if base in _RADIX_PREFIXES:
        return format(value, {2: "b", 8: "o", 16: "x"}[base])
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


def _plain(value: Any, escape: bool) -> str:
    return str(value)


_ATOMS: Final[dict[type, Callable[[Any, bool], str]]] = {
    int: _plain,
    Fraction: _plain,
    float: lambda value, escape: print_float(value),
    str: print_string,
    Symbol: print_symbol,
    Char: print_character,
}
