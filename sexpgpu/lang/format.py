"""`format`: control strings, parsed once each, and what their directives write.

A control string becomes a tuple of texts and `Directive`s (`parse`); `Run` walks them over the arguments.
Every mistake in a control string or of its arguments is E-VALUE-008 with the place in the string.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from attrs import frozen

from sexpgpu.diag import SxError, error
from sexpgpu.lang.active import spend_steps
from sexpgpu.lang.conditions import TypeFault
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Char, Cons, symbol
from sexpgpu.lang.printer import brief
from sexpgpu.lang.streams import TextOutput

_DIRECTIVE: Final = re.compile(r"~((?:[+-]?\d+|'.|[vV#]|,)*)([:@]*)(.)", re.DOTALL)
_PARAMETER: Final = re.compile(r"([+-]?\d+|'.|[vV#])?(,|\Z)", re.DOTALL)
_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}
_UNSUPPORTED: Final = frozenset("<>/_iw")

# The parameters `v` and `#`, told apart from the characters that 'v and '# give.
NEXT_ARGUMENT: Final = "~v"
ARGUMENTS_LEFT: Final = "~#"
_FROM_ARGUMENTS: Final = {"v": NEXT_ARGUMENT, "#": ARGUMENTS_LEFT}

MOST_REPEATS: Final = 100_000
DIRECTIVE_WORK: Final = 30


@frozen
class Directive:
    """One `~…`: letter, parameters (integers, characters, `v`, `#`), flags and, for brackets, its clauses."""

    letter: str
    parameters: tuple[Any, ...]
    colon: bool
    at: bool
    position: int
    clauses: tuple[Control, ...] = ()
    default_clause: bool = False
    closer_colon: bool = False


Control = tuple[Any, ...]


def fault(message: str, control: str, position: int | None = None) -> SxError:
    where = "" if position is None else f", character {position + 1}"
    return error("E-VALUE-008", f"format: {message}; in {brief(control)}{where}")


@lru_cache(maxsize=1024)
def parse(control: str) -> Control:
    """The parts of a control string."""
    from sexpgpu.lang import directives  # noqa: F401  fills the table of handlers on first use

    parts, position = _sequence(control, 0, None)
    assert position == len(control)
    return parts[0]


def _sequence(control: str, position: int, opener: Directive | None) -> tuple[list[Control], int]:
    """The clauses up to the closer of `opener`; the last clause's list ends in the closing directive."""
    clauses: list[Control] = []
    parts: list[Any] = []
    default = False
    closer = _CLOSERS[opener.letter] if opener else None
    while (tilde := control.find("~", position)) >= 0:
        if tilde > position:
            parts.append(control[position:tilde])
        directive, position = _directive(control, tilde)
        letter = directive.letter
        if letter in _CLOSERS:
            inner, position = _sequence(control, position, directive)
            closing = inner.pop()[0]
            parts.append(
                Directive(
                    letter,
                    directive.parameters,
                    directive.colon,
                    directive.at,
                    tilde,
                    tuple(inner),
                    closing.default_clause,
                    closing.colon,
                )
            )
        elif letter == ";" and closer == "]":
            clauses.append(tuple(parts))
            parts, default = [], directive.colon
        elif letter == closer:
            clauses.append(tuple(parts))
            end = Directive(letter, (), directive.colon, directive.at, tilde, (), default)
            return [*clauses, (end,)], position
        elif letter in ";}])":
            raise fault(f"~{letter} closes nothing", control, tilde)
        elif letter == "\n":
            position += 0 if directive.colon else _blanks(control, position)
            parts.append("\n" if directive.at else "")  # even where it writes nothing, the clause is not empty
        else:
            parts.append(directive)
    if opener is not None:
        raise fault(f"~{opener.letter} is never closed by ~{closer}", control, opener.position)
    if position < len(control):
        parts.append(control[position:])
    return [tuple(parts)], len(control)


def _blanks(control: str, position: int) -> int:
    rest = control[position:]
    return len(rest) - len(rest.lstrip(" \t\n"))


def _directive(control: str, tilde: int) -> tuple[Directive, int]:
    match = _DIRECTIVE.match(control, tilde)
    if match is None:
        raise fault("~ is followed by no directive", control, tilde)
    text, flags, letter = match.groups()
    letter = letter.lower()
    if letter in _UNSUPPORTED:
        raise fault(f"the directive ~{letter} is not supported", control, tilde)
    if letter not in _HANDLERS and letter not in _CLOSERS and letter not in ";}])\n":
        raise fault(f"~{letter} is no directive", control, tilde)
    parameters: list[Any] = []
    for found in _PARAMETER.finditer(text) if text else ():
        value = found[1]
        if value is None:
            parameters.append(None)
        elif value[0] == "'":
            parameters.append(value[1])
        else:
            parameters.append(_FROM_ARGUMENTS.get(value.lower()) or int(value))
        if not found[2]:
            break
    return Directive(letter, tuple(parameters), ":" in flags, "@" in flags, tilde), match.end()


class UpAndOut(Exception):
    """`~^` found no argument left: `all_` when it leaves the whole iteration (`~:^`)."""

    def __init__(self, all_: bool) -> None:
        super().__init__()
        self.all = all_


class Run:
    """The arguments of one (sub-)control string, the next of them, and where the text goes."""

    __slots__ = ("args", "control", "here", "next", "out", "sublists_left")

    def __init__(self, out: TextOutput, control: str, args: tuple[Any, ...], sublists_left: int = 0) -> None:
        self.out = out
        self.control = control
        self.args = args
        self.next = 0
        self.here: Directive | None = None
        self.sublists_left = sublists_left

    def left(self) -> int:
        return len(self.args) - self.next

    def take(self) -> Any:
        """The next argument."""
        if self.next >= len(self.args):
            letter = self.here.letter if self.here else "a"
            count = len(self.args)
            raise self.fault(f"~{letter} has no argument left: there {'is' if count == 1 else 'are'} {count}")
        self.next += 1
        return self.args[self.next - 1]

    def fault(self, message: str) -> SxError:
        return fault(message, self.control, self.here.position if self.here else None)

    def parameters(self, directive: Directive) -> list[Any]:
        """The parameters with `v` and `#` filled in; nil for `v` leaves the default."""
        found: list[Any] = []
        for value in directive.parameters:
            if value == NEXT_ARGUMENT:
                value = self.take()
                if isinstance(value, Char):
                    value = chr(value.code)
                elif value is NIL:
                    value = None
                elif type(value) is not int:
                    raise self.fault(f"a parameter v must be an integer or a character, got {brief(value)}")
            elif value == ARGUMENTS_LEFT:
                value = self.left()
            found.append(value)
        return found

    def write(self, parts: Control) -> None:
        """Write the parts of a control string in order."""
        for part in parts:
            if type(part) is str:
                self.out.write(part)
                continue
            spend_steps(DIRECTIVE_WORK)
            self.here = part
            _HANDLERS[part.letter](self, part, self.parameters(part))

    def inner(self, parts: Control, args: tuple[Any, ...], sublists_left: int = 0) -> None:
        """Write parts over arguments of their own; `~^` ends them."""
        try:
            Run(self.out, self.control, args, sublists_left).write(parts)
        except UpAndOut as up:
            if up.all:
                raise

    def list_argument(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, Cons) or value is NIL:
            from sexpgpu.lang.library.access import items_of_list

            return tuple(items_of_list("format", 2, value))
        letter = self.here.letter if self.here else ""
        raise TypeFault(self.fault(f"~{letter} needs a list, got {brief(value)}").diagnostic, value, symbol("list"))

    def integer(self, value: Any, default: int) -> int:
        """A parameter that must be an integer of at most `MOST_REPEATS`."""
        if value is None:
            return default
        if type(value) is not int or value > MOST_REPEATS:
            raise self.fault(f"{brief(value)} is no parameter here: an integer up to {MOST_REPEATS:,} is")
        return value

    def character(self, value: Any, default: str) -> str:
        """A parameter that must be a character."""
        if value is None:
            return default
        if type(value) is not str:
            raise self.fault(f"{brief(value)} is no parameter here: a character such as '0 is")
        return value


Handler = Callable[[Run, Directive, list[Any]], None]
_HANDLERS: Final[dict[str, Handler]] = {}


def directive(letter: str) -> Callable[[Handler], Handler]:
    """Register the decorated function for a directive's letter."""

    def enter(handler: Handler) -> Handler:
        _HANDLERS[letter] = handler
        return handler

    return enter


def format_onto(out: TextOutput, control: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Write `control`, a string or a function that `formatter` made, over `args` to `out`; the arguments left."""
    if type(control) is not str:
        if not callable(control) or isinstance(control, Foreign):
            raise error("E-TYPE-001", f"format: the control must be a string, got {brief(control)}")
        rest = control(out, *args)
        return tuple(rest) if isinstance(rest, Cons) else ()
    run = Run(out, control, args)
    with suppress(UpAndOut):
        run.write(parse(control))
    return run.args[run.next :]


def format_text(control: Any, args: tuple[Any, ...]) -> str:
    """What `(format nil control args…)` gives."""
    out = TextOutput()
    format_onto(out, control, args)
    return out.text()
