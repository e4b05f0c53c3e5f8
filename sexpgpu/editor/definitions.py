"""What a definition says of its name: how it begins, its lambda list and its documentation, read from its text."""

from __future__ import annotations

from attrs import frozen

from sexpgpu.driver.written import written_at
from sexpgpu.editor.text import Text
from sexpgpu.lang.forms import Cons, Source, Symbol
from sexpgpu.lang.reader import read_text


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
    said = written_at(text.source, start)
    if not said.parameters:
        return Definition(text.line_at(start), "", said.doc)
    return Definition(f"({said.head} {said.name} {said.parameters})", said.parameters, said.doc)


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
