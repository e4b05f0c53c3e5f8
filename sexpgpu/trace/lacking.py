"""An objective or evaluate without a parameter for each label: what it calls them, where its body says so."""

from __future__ import annotations

from sexpgpu.diag import Diagnostic, Edit, Span, SxError, error
from sexpgpu.lang.enclosing import list_around
from sexpgpu.lang.forms import Source
from sexpgpu.lang.functions import FunctionInfo
from sexpgpu.lang.session import Session


def lacking_parameters(
    session: Session, info: FunctionInfo, name: str, which: str, outputs: int, labels: int
) -> SxError:
    """E-ARG-001 of a contract function that cannot take the outputs and labels it is called with.

    Where its body reads as many variables that nothing binds, these are the parameters: they are not errors besides.
    """
    span = info.span
    lacking = outputs + labels - info.parameters.positional
    unbound = sorted((d for d in session.diagnostics if _is_unbound(d, span)), key=_place)
    names = list(dict.fromkeys(d.message.split("`")[1] for d in unbound))
    fix: tuple[Edit, ...] = ()
    help = f"a parameter for each: ({' '.join((*info.parameters.required, *['label'] * lacking))})"
    if len(names) == lacking:
        for diagnostic in unbound:
            session.diagnostics.records.remove(diagnostic)
        fix = _with_parameters(session, span, names)
        help = f"its parameters are ({' '.join((*info.parameters.required, *names))})"
    one = "the model's output" if outputs == 1 else f"the model's {outputs} outputs"
    other = "the label" if labels == 1 else f"the {labels} labels"
    message = f"`{name}` {info.parameters.takes()}, but it is given {one} and {other} that `{which}` gives"
    return error("E-ARG-001", message, span, help=help, fix=fix)


def _is_unbound(diagnostic: Diagnostic, around: Span | None) -> bool:
    """Whether it is about a variable without a binding inside the function."""
    span = diagnostic.span
    if diagnostic.code != "E-NAME-001" or span is None or around is None or span.file != around.file:
        return False
    return (around.line, around.col) <= (span.line, span.col) < (around.end_line, around.end_col)


def _place(diagnostic: Diagnostic) -> tuple[int, int]:
    return (diagnostic.span.line, diagnostic.span.col) if diagnostic.span is not None else (0, 0)


def _with_parameters(session: Session, span: Span | None, names: list[str]) -> tuple[Edit, ...]:
    """The names behind the parameters of a defun; nothing where the function is written another way."""
    text = session.sources.get(span.file) if span is not None else None
    form = list_around(Source(span.file, text), span, session.module.aliases) if span and text is not None else None
    if form is None or form.head != "defun" or len(form) < 3:
        return ()
    written = form.inner(2)
    return written.appended(" ".join(names)) if written is not None else form.replaced(2, f"({' '.join(names)})")
