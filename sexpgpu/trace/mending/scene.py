"""The place of an error as whoever looks for its mending sees it: the text around, the call, the values it was given.

A call is tried again with other arguments before they are proposed: the rule that refused it is the judge.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from attrs import field, frozen

from sexpgpu.diag import Diagnostic, Diagnostics, Edit, Span, SxError
from sexpgpu.lang.builtin import python_name
from sexpgpu.lang.enclosing import ListText, list_around
from sexpgpu.lang.faults import frames_at
from sexpgpu.lang.forms import NIL, Cons, Source, Symbol, lisp_list, one, symbol
from sexpgpu.lang.modules import written_by_user
from sexpgpu.lang.reader import read_text
from sexpgpu.lang.session import Session
from sexpgpu.trace.models import Model

QUOTE = symbol("quote")
FUNCALL = symbol("funcall")
HOLE = symbol("_")
"""What stands for the argument itself in the text of a change."""


@frozen
class Proposal:
    """Edits that mend an error, and what they do in words."""

    help: str
    edits: tuple[Edit, ...]


@frozen
class Change:
    """What is written for an argument, `_` being the argument; nothing drops it.

    `value` is what a trial takes for it where the text has no value on its own, a function of the old value.
    """

    text: str
    value: Callable[[Any], Any] | None = None


@frozen(eq=False)
class Call:
    """A call that was refused: the function and a value for each argument that `form` writes."""

    form: ListText
    function: Callable[..., Any]
    values: tuple[Any, ...]


@frozen(eq=False)
class Scene:
    """An error with the session it happened in."""

    session: Session
    fault: SxError
    form: ListText  # the innermost list that holds the error's place
    frame: FrameType | None  # of the function that executed it
    callee: FrameType | None
    call: Call | None = field(init=False)

    @call.default
    def _call(self) -> Call | None:
        return _call_of(self.session, self.form, self.frame, self.callee)

    @property
    def diagnostic(self) -> Diagnostic:
        return self.fault.diagnostic

    @property
    def variables(self) -> dict[str, Any]:
        """The local variables of the function, by the names that the file gives them."""
        return {} if self.frame is None else {k.partition(".")[0]: v for k, v in self.frame.f_locals.items()}

    def top(self) -> ListText:
        """The top-level form."""
        form = self.form
        while form.outer is not None:
            form = form.outer
        return form

    def text_at(self, span: Span | None) -> ListText | None:
        """The list of the user's that a place lies in, in any file."""
        if span is None or not written_by_user(span):
            return None
        return _list_at(self.session, span)

    def evaluate(self, text: str, hole: Any = None, bindings: Mapping[str, Any] | None = None) -> Any:
        """The value of `text`, in which `_` is `hole` and names have the values that `bindings` gives them."""
        form = read_text(Source("<mending>", text), lambda _: None)[0].datum
        values = {HOLE: hole} | {symbol(name): value for name, value in (bindings or {}).items()}
        return one(self.session.evaluate_form(_filled(form, values), self.session.module))

    def attempt(self, changes: Mapping[int, Change]) -> Any:
        """What the call gives with some arguments changed; None where it is refused again."""
        assert self.call is not None
        arguments: list[Any] = []

        def run() -> Any:
            for i, value in enumerate(self.call.values if self.call else ()):
                change = changes.get(i)
                if change is None:
                    arguments.append(value)
                elif change.text:
                    found = self.evaluate(change.text, value) if change.value is None else change.value(value)
                    arguments.append(found)
            assert self.call is not None
            return self.call.function(*arguments)

        return self.tried(run)

    def tried(self, work: Callable[[], Any]) -> Any:
        """The value of `work()`, None where it fails: what it reports and raises is about a guess, not the file."""
        session = self.session
        diagnostics, session.diagnostics = session.diagnostics, Diagnostics()
        mender, session.mender = session.mender, None
        try:
            with session.recovery.suspended():
                return one(work())
        except Exception:  # whatever is wrong with a guess, it is no mending
            return None
        finally:
            session.diagnostics, session.mender = diagnostics, mender

    def edits(self, changes: Mapping[int, Change]) -> tuple[Edit, ...]:
        """The edits of a call's arguments."""
        found: tuple[Edit, ...] = ()
        for i, change in changes.items():
            found += self.form.replaced(i + 1, change.text) if change.text else self.form.dropped(i + 1)
        return found


def scene_of(session: Session, fault: SxError) -> Scene | None:
    """The scene of a located error; None where its place is no text of the user's own."""
    diagnostic = fault.diagnostic
    span = diagnostic.span
    if span is None or diagnostic.trail or not written_by_user(span):
        return None
    form = _list_at(session, span)
    if form is None:
        return None
    frames, executed = frames_at(fault.__traceback__, span), form
    around: ListText | None = form
    while frames is None and around is not None:  # the error is shown at a part of the form that was executed
        frames, executed, around = frames_at(fault.__traceback__, around.span), around, around.outer
    if frames is None:
        return Scene(session, fault, form, None, None)
    return Scene(session, fault, executed, *frames)


def _list_at(session: Session, span: Span) -> ListText | None:
    text = session.sources.get(span.file)
    return None if text is None else list_around(Source(span.file, text), span, session.module.aliases)


def _call_of(session: Session, form: ListText, frame: FrameType | None, callee: FrameType | None) -> Call | None:
    if frame is None or callee is None or not form.head:
        return None
    values = _arguments(form, callee)
    local = next((v for v in frame.f_locals.values() if getattr(v, "__code__", None) is callee.f_code), None)
    function = local if local is not None else session.function(form.head)
    return None if values is None or function is None else Call(form, function, tuple(values))


def _arguments(form: ListText, callee: FrameType) -> list[Any] | None:
    """The values that the function got for the arguments as written; None where they do not correspond."""
    code, found = callee.f_code, callee.f_locals
    count, keys = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames[: count + keys]
    written = [cell.car for cell in form.cells[1:]]
    if any(name not in found for name in names):
        return None
    values = [found[name] for name in names[:count]]
    if code.co_flags & inspect.CO_VARARGS:
        rest = found[code.co_varnames[count + keys]]  # a list once a Lisp function has begun
        values += [] if rest is NIL else list(rest)
    if keys:
        first = next((i for i, d in enumerate(written) if isinstance(d, Symbol) and d.keyword), len(written))
        values = values[:first]
        for key in written[first::2]:
            name = python_name(getattr(key, "name", ""))
            if name not in names:
                return None
            values += (key, found[name])
    values = values[: len(written)]
    same = len(values) == len(written) and all(
        isinstance(d, Cons) or (isinstance(d, Symbol) and not d.keyword) or d == v
        for d, v in zip(written, values, strict=True)
    )
    return values if same else None


def _filled(form: Any, values: Mapping[Symbol, Any]) -> Any:
    """`form` with the values of names, quoted, in their places; what is quoted and heads of lists stay.

    Only a head that is a layer's name is the layer: a forward calls it as a function.
    """
    if isinstance(form, Symbol):
        return lisp_list([QUOTE, values[form]]) if form in values else form
    if not isinstance(form, Cons) or form.car is QUOTE:
        return form
    items = list(form)
    first = items[0]
    if isinstance(first, Symbol):
        layer = values.get(first)
        head = [FUNCALL, lisp_list([QUOTE, layer])] if isinstance(layer, Model) else [first]
    else:
        head = [_filled(first, values)]
    return lisp_list([*head, *(_filled(item, values) for item in items[1:])])
