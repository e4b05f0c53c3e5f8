"""A definition whose opening parenthesis is missing: its parts stand alone at the top of the file."""

from __future__ import annotations

from attrs import evolve, frozen

from sexpgpu.diag import Diagnostic, Edit
from sexpgpu.lang.analyze.misspelt import TOP, is_form
from sexpgpu.lang.forms import Symbol, lisp_list
from sexpgpu.lang.module import Module
from sexpgpu.lang.readform import ReadForm


@frozen
class Reading:
    """What a file's text holds: its forms, and what reading it told."""

    forms: list[ReadForm]
    told: list[Diagnostic]


def reopened(module: Module, reading: Reading) -> Reading:
    """With one faulty form, and one error, for each definition that lacks its `(`.

    It begins with the bare name of a defining form and ends at the `)` that closes nothing; of what stands between
    nothing is told.
    """
    forms, told = reading.forms, reading.told
    for first in range(len(forms)):
        if first >= len(forms) or not _begins(module, forms[first]):
            continue
        begin = forms[first]
        stray = next((d for d in told if d.code == "E-READ-002" and d.span and _at(begin, d) > begin.end), None)
        if stray is None or stray.span is None:
            continue
        end = _at(begin, stray)
        last = next((i for i, form in enumerate(forms) if form.start > end), len(forms))
        group = forms[first:last]
        if any(_column(form) == 1 for form in group[1:]):
            continue  # another form begins: that `)` is another's
        assert isinstance(begin.datum, Symbol)
        span = begin.source.span(begin.start, begin.end)
        at = begin.source.span(begin.start, begin.start)
        message = f"`(` is missing before `{begin.datum.name}`"
        found = Diagnostic("E-READ-002", message, span, help="write it", fix=(Edit(at, "("),))
        whole = evolve(begin, datum=lisp_list([form.datum for form in group]), end=end + 1, fault=found)
        told = [found if d is stray else d for d in told if d is stray or not begin.start <= _at(begin, d) <= end]
        forms = [*forms[:first], whole, *forms[last:]]
    return Reading(forms, told)


def _begins(module: Module, form: ReadForm) -> bool:
    name = form.datum
    if not isinstance(name, Symbol) or form.fault is not None or _column(form) != 1:
        return False
    return name.name in TOP or (name.name.startswith("def") and is_form(module, name))


def _column(form: ReadForm) -> int:
    return form.source.position(form.start)[1]


def _at(form: ReadForm, told: Diagnostic) -> int:
    return form.source.offset(told.span.line, told.span.col) if told.span is not None else -1
