"""Where the text of a form binds the name at a place in it: variables, local functions and macros, parameters.

The form is read, not analysed: what a program's own macros bind is not found, and it need not be free of errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from attrs import frozen

from sexpgpu.lang.forms import Cons, Source, SourceCons, Symbol
from sexpgpu.lang.reader import Reader

LAMBDA_LISTS: Final = {
    "defmacro": 2,
    "defmodel": 2,
    "defoptimizer": 2,
    "deftype": 2,
    "defun": 2,
    "forward": 1,
    "lambda": 1,
    "optimizer-update": 1,
    "optimizer-view": 1,
}
"""Which element of a form is its lambda list."""
TREES: Final = frozenset({"destructuring-bind", "multiple-value-bind"})
"""Forms (head variables value form...), the variables perhaps in lists."""
NAMES: Final = frozenset({"once-only", "with-gensyms"})
"""Forms (head (variable...) form...)."""
HEADED: Final = frozenset({"dolist", "dotimes", "repeat", "with-input-from-string", "with-output-to-string"})
"""Forms (head (variable ...) form...)."""
PARALLEL: Final = frozenset({"do", "let", "prog", "symbol-macrolet"})
SEQUENTIAL: Final = frozenset({"do*", "let*", "prog*"})
FUNCTIONS: Final = frozenset({"flet", "labels", "macrolet"})
LOOP_WORDS: Final = frozenset({"and", "as", "for", "into", "with"})


@frozen
class _Part:
    """An element of a list and where it stands."""

    datum: Any
    start: int
    end: int

    def holds(self, offset: int) -> bool:
        return self.start <= offset < self.end


def binding(source: Source, start: int, offset: int, name: str, called: bool) -> int | None:
    """Where the form that starts at an offset binds `name` for the place `offset`, innermost first; None if nowhere.

    `called` asks for a function or macro, else it is a variable.
    """
    form = next(Reader(source, lambda _: None, set()).forms(start), None)
    if form is None:
        return None
    around: list[list[_Part]] = []
    datum = form.datum
    while isinstance(datum, Cons):
        parts = list(_parts(datum))
        around.append(parts)
        datum = next((part.datum for part in parts if part.holds(offset)), None)
    for depth in range(len(around) - 1, -1, -1):
        found = _functions(around[depth], offset) if called else _variables(around[depth], around[:depth], offset)
        for part in found:
            if isinstance(part.datum, Symbol) and part.datum.name == name:
                return part.start
    return None


def _parts(datum: Any) -> Iterator[_Part]:
    while isinstance(datum, SourceCons):
        yield _Part(datum.car, datum.car_start, datum.car_end)
        datum = datum.cdr


def _head(parts: list[_Part]) -> str:
    return parts[0].datum.name if parts and isinstance(parts[0].datum, Symbol) else ""


def _functions(parts: list[_Part], offset: int) -> Iterator[_Part]:
    """The names of a flet, labels or macrolet, where they are visible at the offset or are it themselves."""
    head = _head(parts)
    if head not in FUNCTIONS or len(parts) < 2:
        return
    for entry in _parts(parts[1].datum):
        named = next(_parts(entry.datum), None)
        if named is not None and (head == "labels" or not parts[1].holds(offset) or named.holds(offset)):
            yield named


def _variables(parts: list[_Part], around: list[list[_Part]], offset: int) -> Iterator[_Part]:
    """The variables that a form binds for the offset, those of the last binding first.

    `around` are the lists that the form stands in: a clause or a local definition is known by them.
    """
    head = _head(parts)
    if head in LAMBDA_LISTS:
        if len(parts) > LAMBDA_LISTS[head]:
            yield from _parameters(parts[LAMBDA_LISTS[head]], offset)
    elif head in PARALLEL | SEQUENTIAL and len(parts) > 1:
        yield from _bound(parts[1], offset, head)
    elif head in TREES and len(parts) > 1:
        if not (len(parts) > 2 and parts[2].holds(offset)):
            yield from _leaves(parts[1])
    elif head in NAMES and len(parts) > 1:
        yield from _leaves(parts[1])
    elif head in HEADED and len(parts) > 1:
        variable = next(_parts(parts[1].datum), None)
        if variable is not None and (not parts[1].holds(offset) or variable.holds(offset)):
            yield variable
    elif head == "loop":
        yield from _loop(parts, offset)
    elif len(parts) > 1 and around and _head(around[-1]) == "handler-case":
        yield from _leaves(parts[1])  # (type (condition) form...)
    elif len(parts) > 1 and len(around) > 1 and _head(around[-2]) in FUNCTIONS and around[-2][1].holds(parts[0].start):
        yield from _parameters(parts[1], offset)  # (name lambda-list form...)


def _bound(bindings: _Part, offset: int, head: str) -> Iterator[_Part]:
    """Variables of a let and its kin: in their own list only a name itself, or with `*` those before."""
    found: list[_Part] = []
    for entry in _parts(bindings.datum):
        named = entry if isinstance(entry.datum, Symbol) else next(_parts(entry.datum), None)
        if named is None:
            continue
        steps = head in ("do", "do*") and len(list(_parts(entry.datum))) > 2
        visible = not bindings.holds(offset) or named.holds(offset) or (head in SEQUENTIAL and entry.end <= offset)
        if visible or steps:
            found.append(named)
    yield from reversed(found)


def _parameters(listed: _Part, offset: int) -> Iterator[_Part]:
    """The variables of a lambda list; those of its defaults are bound before them."""
    found: list[_Part] = []
    for entry in _parts(listed.datum):
        if isinstance(entry.datum, Symbol):
            if not entry.datum.name.startswith("&"):
                found.append(entry)
            continue
        inner = list(_parts(entry.datum))
        if not inner:
            continue
        names = [inner[0], *inner[2:3]]
        if isinstance(inner[0].datum, Cons):  # ((:key variable) default), or a list that a macro takes apart
            names = [*_leaves(inner[0]), *inner[2:3]]
        found += names
    yield from reversed([part for part in found if not listed.holds(offset) or part.start <= offset])


def _leaves(tree: _Part) -> Iterator[_Part]:
    if isinstance(tree.datum, Symbol):
        if not tree.datum.keyword and not tree.datum.name.startswith("&"):
            yield tree
        return
    for part in _parts(tree.datum):
        yield from _leaves(part)


def _loop(parts: list[_Part], offset: int) -> Iterator[_Part]:
    """What follows `for`, `as`, `with`, `and` or `into`, up to the offset or, for `into`, anywhere."""
    found: list[_Part] = []
    for word, part in pairwise(parts):
        spelled = word.datum.name if isinstance(word.datum, Symbol) else ""
        if spelled in LOOP_WORDS and (part.start <= offset or spelled == "into"):
            found += _leaves(part)
    yield from reversed(found)
