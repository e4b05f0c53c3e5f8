"""How values print: `print_form` as the reader takes them back, `print_text` for people, `brief` in messages.

`printed` is what the printing functions of the language write: in the style that `*print-base*` and the other
variables ask for.

Lists are walked along their cdrs without recursion, so a long list prints at any depth of the stack. What
prints longer than `LONGEST` characters, circular structure included, is an error (E-LIMIT-004).
"""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.diag import error
from sexpgpu.lang.atoms import ATOMS, spelling, styled
from sexpgpu.lang.conditions import Condition
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Array, Cons, HashTable, Symbol
from sexpgpu.lang.structures import Structure
from sexpgpu.lang.style import PLAIN, Style, current_style

PART_WORK: Final = 4
"""Steps that a part takes which the printing functions write: an atom, a parenthesis, a space."""
LONGEST: Final = 1_000_000
DEEPEST: Final = 10_000
BRIEF: Final = 60

_PREFIXES: Final = {"quote": "'", "function": "#'", "quasiquote": "`"}
_COMMAS: Final = {"unquote": ",", "unquote-splicing": ",@"}


class _Full(Exception):
    """The text has reached the length asked for."""


class _Sink:
    """Collects pieces of text up to a length."""

    __slots__ = ("backquotes", "depth", "labels", "own", "parts", "room", "style")

    def __init__(self, room: int, style: Style = PLAIN) -> None:
        self.parts: list[str] = []
        self.room = room
        self.depth = 0
        self.backquotes = 0
        self.style = style
        self.own = False  # whether structures are printed by their types' own functions
        self.labels: dict[int, int] = {}  # of what is met again: 0, then its number once it has been written

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


def in_style(value: Any, escape: bool, style: Style) -> str:
    """`value` as a style says; with `circle`, what it holds twice is written once, behind `#1=`.

    Structures with a printing function of their own are printed by it.
    """
    writer = ATOMS.get(type(value)) if style is PLAIN else None
    if writer is not None:
        return writer(value, escape)
    sink = _Sink(LONGEST, style)
    sink.own = True
    if style.circle:
        sink.labels = dict.fromkeys(_shared(value), 0)
    text = _finished(value, escape, sink)
    from sexpgpu.lang.active import spend_steps  # that module is built on this one

    spend_steps(PART_WORK * len(sink.parts))
    return text


def printed(value: Any, escape: bool) -> str:
    """`value` as the printing functions write it now."""
    return in_style(value, escape, current_style())


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
    writer = ATOMS.get(type(value))
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
    writer = ATOMS.get(type(value))
    if writer is not None:
        sink.put(writer(value, escape) if sink.style is PLAIN else styled(value, escape, sink.style))
        return
    if sink.labels and _labelled(value, sink):
        return
    sink.depth += 1
    if sink.depth > DEEPEST:
        raise _Full
    if sink.style.level is not None and sink.depth > sink.style.level and _is_compound(value):
        sink.put("#")
        sink.depth -= 1
        return
    if isinstance(value, Cons):
        _write_list(value, escape, sink)
    elif not sink.style.array and isinstance(value, list | Array):
        sink.put("#<array>")
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


def _is_compound(value: Any) -> bool:
    """Whether *print-level* bounds how deep the parts of the value are shown."""
    return isinstance(value, Cons | list | Structure) or (isinstance(value, Array) and len(value.dims) > 0)


def _labelled(value: Any, sink: _Sink) -> bool:
    """Write the label of what is met again; whether that is all there is to write."""
    number = sink.labels.get(id(value))
    if number is None:
        return False
    if number:
        sink.put(f"#{number}#")
        return True
    sink.labels[id(value)] = number = max(sink.labels.values()) + 1
    sink.put(f"#{number}=")
    return False


def _shared(value: Any) -> set[int]:
    """The identities of the lists, arrays and structures that are met more than once inside a value."""
    met: set[int] = set()
    again: set[int] = set()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, Cons | list | Array | Structure):
            continue
        if id(part) in met:
            again.add(id(part))
            continue
        met.add(id(part))
        if isinstance(part, Cons):
            waiting += (part.cdr, part.car)
        else:
            waiting += part if isinstance(part, list) else part.items if isinstance(part, Array) else part.values
    return again


def _write_list(value: Cons, escape: bool, sink: _Sink) -> None:
    if _is_pair_of(value) and _write_prefixed(value, escape, sink):
        return
    sink.put("(")
    tail: Any = value
    length = sink.style.length
    written = 0
    while isinstance(tail, Cons):
        if written and _marked(tail, sink):
            break
        if length is not None and written >= length:
            sink.put(" ...)" if written else "...)")
            return
        if written:
            sink.put(" ")
        _write(tail.car, escape, sink)
        written += 1
        tail = tail.cdr
    if tail is not NIL:
        sink.put(" . ")
        _write(tail, escape, sink)
    sink.put(")")


def _marked(tail: Cons, sink: _Sink) -> bool:
    """Whether what follows in a list is written behind a dot: a comma's form, or what has a label."""
    if sink.backquotes and _is_pair_of(tail) and tail.car.name == "unquote":
        return True
    return bool(sink.labels) and id(tail) in sink.labels


def _is_pair_of(value: Cons) -> bool:
    """Whether a list is a symbol and one more element, as prefixes read."""
    return type(value.car) is Symbol and isinstance(value.cdr, Cons) and value.cdr.cdr is NIL


def _write_prefixed(value: Cons, escape: bool, sink: _Sink) -> bool:
    """Write a list of two as the prefix that reads as it; a comma only where a backquote stands around it."""
    head = value.car
    if sink.labels and id(value.cdr) in sink.labels:
        return False
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
        if position == sink.style.length:
            sink.put("...")
            break
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
            if index == sink.style.length:
                sink.put("...")
                break
            level(axis + 1, start + index * part, part)
        sink.put(")")

    level(0, 0, len(array.items))


def _write_structure(value: Structure, escape: bool, sink: _Sink) -> None:
    printer = next((kind.printer for kind in value.type.line() if kind.printer is not None), None)
    if printer is not None and sink.own:
        from sexpgpu.lang.streams import TextOutput

        out = TextOutput()
        printer(value, out, sink.depth - 1)
        sink.put(out.text())
        return
    sink.put(f"#S({spelling(value.type.name.name)}")
    for position, (slot, part) in enumerate(zip(value.type.slots, value.values, strict=True)):
        if position == sink.style.length:
            sink.put(" ...")
            break
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
    if isinstance(control, str) or callable(control):
        from sexpgpu.lang.format import format_text

        arguments = condition.slots.get("format-arguments")
        return format_text(control, tuple(arguments) if isinstance(arguments, Cons) else ())
    if condition.diagnostic is not None:
        return condition.diagnostic.message
    return f"a condition of type {condition.type.name}"
