"""What a definition says of its name: how it begins, its lambda list and its documentation, read from its text."""

from __future__ import annotations

from attrs import frozen

from sexpgpu.driver.written import written_at
from sexpgpu.editor.text import Text
from sexpgpu.lang.forms import Cons, Source, SourceCons, Symbol
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
            found.append(_keyword_of(item))
    return found


@frozen
class Signature:
    """How a call looks: `parameters` are where in `label` each one stands, `active` is the number of one of them."""

    label: str
    doc: str = ""
    parameters: tuple[tuple[int, int], ...] = ()
    active: int | None = None


def signature(name: str, said: Definition, arguments: list[str]) -> Signature:
    """The signature of a function with the argument in hand, the last of those that are written."""
    label = f"({name} {said.parameters[1:-1]})"
    shown = Source("", said.parameters)
    forms = read_text(shown, lambda _: None)
    cell = forms[0].datum if forms else None
    shift = len(name) + 1
    places: list[tuple[int, int]] = []
    positional: list[int] = []
    keys: dict[str, int] = {}
    rest: int | None = None
    section = ""
    while isinstance(cell, SourceCons):
        parameter = cell.car
        if isinstance(parameter, Symbol) and parameter.name.startswith("&"):
            section = parameter.name
        else:
            if section in ("", "&optional"):
                positional.append(len(places))
            elif section in ("&rest", "&body"):
                rest = len(places)
            elif section == "&key":
                keys[_keyword_of(parameter)] = len(places)
            places.append((cell.car_start + shift, cell.car_end + shift))
        cell = cell.cdr
    return Signature(label, said.doc, tuple(places), _active(positional, keys, rest, arguments))


def _active(positional: list[int], keys: dict[str, int], rest: int | None, arguments: list[str]) -> int | None:
    at = len(arguments) - 1
    if at < len(positional):
        return positional[at] if at >= 0 else None
    for word in reversed(arguments[-2:]):
        if word.startswith(":") and word[1:].lower() in keys:
            return keys[word[1:].lower()]
    return rest


def _keyword_of(parameter: object) -> str:
    """The keyword of a `&key` parameter: `x`, `(x default)` or `((:x variable) default)`."""
    while isinstance(parameter, Cons):
        parameter = parameter.car
    return parameter.name if isinstance(parameter, Symbol) else ""
