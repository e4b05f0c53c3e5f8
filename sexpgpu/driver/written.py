"""What the text of a definition says of the name it defines: its head, lambda list and documentation."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from attrs import frozen

from sexpgpu.lang.forms import NIL, Cons, Source, SourceCons, Symbol
from sexpgpu.lang.reader import Reader

WITH_LAMBDA_LIST: Final = frozenset({"defun", "defmacro", "defmodel", "defoptimizer", "deftype"})
"""Forms (head name lambda-list [documentation] form...)."""
WITH_VALUE: Final = frozenset({"def", "defvar", "defparameter", "defconstant"})
"""Forms (head name value [documentation])."""

_ALIAS: Final = re.compile(r":as\s+([^\s()]+)")


@frozen
class Written:
    """`head` is what a defining form begins with; `parameters` its lambda list as it is written; `end` its end."""

    end: int
    head: str = ""
    name: str = ""
    parameters: str = ""
    doc: str = ""


def written_at(source: Source, start: int) -> Written:
    """What the form that begins at an offset says; of an entry of a `defknobs`, its name and `:doc`."""
    aliases = set(_ALIAS.findall(source.text))
    form = next(Reader(source, lambda _: None, aliases).forms(start), None)
    datum, end = (form.datum, form.end) if form is not None else (NIL, start)
    if not isinstance(datum, Cons) or not isinstance(datum.car, Symbol) or not isinstance(datum.cdr, Cons):
        return Written(end)
    items = list(datum)
    head, name = items[0].name, items[1].name if isinstance(items[1], Symbol) else ""
    if head in WITH_LAMBDA_LIST and isinstance(cell := datum.cdr.cdr, SourceCons):
        parameters = " ".join(source.text[cell.car_start : cell.car_end].split())
        return Written(end, head, name, parameters, _string(items[3:-1]))
    if head in WITH_VALUE:
        return Written(end, head, name, "", _string(items[3:]))
    if head.startswith("def"):
        return Written(end, head, name, "", _string(items[2:]) if head == "defstruct" else "")
    return Written(end, "", head, "", _option(items, "doc"))


def _string(items: list[Any]) -> str:
    """The first element where it is a string."""
    return items[0] if items and isinstance(items[0], str) else ""


def _option(items: list[Any], name: str) -> str:
    """The text behind a keyword of a list."""
    for key, value in pairwise(items):
        if isinstance(key, Symbol) and key.keyword and key.name == name and isinstance(value, str):
            return value
    return ""
