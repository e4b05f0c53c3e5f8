"""How a function that reads a part of a value would be written to, where its definition shows it or forbids it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexpgpu.diag import Edit, Span
from sexpgpu.lang.culprit import Written, elements, form_at
from sexpgpu.lang.forms import Cons, Source, Symbol, setf_name, symbol
from sexpgpu.lang.structures import StructureType

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer


def derived_writer(an: Analyzer, name: Symbol, definition: Span) -> Edit | None:
    """`(defun (setf name) ...)` behind the definition of `name`, when that gives the value of one place."""
    text = an.session.sources.get(definition.file)
    if text is None:
        return None
    source = Source(definition.file, text)
    form = form_at(source, source.offset(definition.line, definition.col), an.module.aliases)
    parts = elements(form) if form is not None else []
    if len(parts) != 4 or parts[1].datum is not name or not _is_place(an, parts[3]):
        return None
    parameters = source.text[parts[2].start : parts[2].end][1:-1]
    body = source.text[parts[3].start : parts[3].end]
    head = f"(defun (setf {name.name}) (new {parameters})" if parameters else f"(defun (setf {name.name}) (new)"
    end = source.span(parts[0].start - 1, form.end if form is not None else 0)
    at = Span(definition.file, end.end_line, end.end_col, end.end_line, end.end_col)
    return Edit(at, f"{head} (setf {body} new))")


def read_only_slot(an: Analyzer, reader: Symbol) -> Symbol | None:
    """The slot that a reader reads, where its structure lets nothing write it."""
    kinds = (kind for kind in an.session.types.values() if isinstance(kind, StructureType))
    fixed = ((kind.conc_name + slot.name, slot) for kind in kinds for slot in kind.read_only)
    return next((slot for name, slot in fixed if name == reader.name), None)


def _is_place(an: Analyzer, body: Written) -> bool:
    form = body.datum
    if not isinstance(form, Cons) or not isinstance(form.car, Symbol):
        return False
    return _is_written(an, form.car)


def place_names(an: Analyzer) -> set[str]:
    """The functions of which there is a way to write what they read."""
    return {name for name in an.module.names() if _is_written(an, symbol(name))}


def _is_written(an: Analyzer, name: Symbol) -> bool:
    return an.module.has_function(setf_name(name)) or an.module.setf_expander(name) is not None
