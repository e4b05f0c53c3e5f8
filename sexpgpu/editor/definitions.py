"""What a definition says of its name: how it begins, its lambda list and its documentation, read from its text."""

from __future__ import annotations

from attrs import frozen

from sexpgpu.editor.text import Text
from sexpgpu.lang.forms import NIL, Cons, Source, SourceCons, Symbol
from sexpgpu.lang.reader import Reader, read_text

DOCUMENTED = frozenset({"defun", "defmacro", "defmodel", "defoptimizer", "deftype"})
"""Forms (head name lambda-list [documentation] form...)."""


@frozen
class Definition:
    """`shape` is `(defun name (lambda list))`, or the first line of a form of another kind."""

    shape: str
    parameters: str = ""
    doc: str = ""


def definition(text: Text, start: int) -> Definition:
    """The definition that begins at an offset; of a name inside a list, a knob's, that list."""
    if text.text[start : start + 1] != "(":
        opened = text.enclosing(start)
        start = opened[-1] if opened else start
    form = next(Reader(text.source, lambda _: None, set()).forms(start), None)
    datum = form.datum if form is not None else NIL
    if not isinstance(datum, Cons) or not isinstance(datum.car, Symbol) or datum.car.name not in DOCUMENTED:
        return Definition(text.line_at(start))
    items = list(datum)
    cell = datum.cdr.cdr if len(items) > 2 else NIL
    if not isinstance(cell, SourceCons):
        return Definition(text.line_at(start))
    parameters = " ".join(text.text[cell.car_start : cell.car_end].split())
    doc = items[3] if len(items) > 4 and isinstance(items[3], str) else ""
    name = items[1].name if isinstance(items[1], Symbol) else text.line_at(start)
    return Definition(f"({datum.car.name} {name} {parameters})", parameters, doc)


def keywords_of(parameters: str) -> list[str]:
    """The keywords that a lambda list takes, without their colons."""
    forms = read_text(Source("", parameters), lambda _: None)
    found: list[str] = []
    section = ""
    for item in forms[0].datum if forms and isinstance(forms[0].datum, Cons) else ():
        if isinstance(item, Symbol) and item.name.startswith("&"):
            section = item.name
        elif section == "&key":
            name = item.car if isinstance(item, Cons) else item
            name = name.car if isinstance(name, Cons) else name
            if isinstance(name, Symbol):
                found.append(name.name)
    return found
