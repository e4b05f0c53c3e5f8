"""Mending what a function gives: the last form of its body."""

from __future__ import annotations

from collections.abc import Iterator

from sexpgpu.lang.enclosing import ListText, symbols_in
from sexpgpu.lang.forms import Cons, Symbol
from sexpgpu.trace.declarations import LoaderValue
from sexpgpu.trace.graph import active_graph
from sexpgpu.trace.mending.scene import Change, Proposal, Scene

_BODIES = ("let", "let*", "flet", "labels")
"""Forms whose value is that of their last element."""
_LOOPS = ("dolist", "dotimes", "loop", "do")


def averaged(scene: Scene) -> Iterator[Proposal]:
    """An objective that gives one number a record: training needs one a batch."""
    form = scene.form
    if form.head == "defun" and len(form) > 3 and (scene.diagnostic.actual or "").startswith("f"):
        yield Proposal("take the mean", form.replaced(len(form) - 1, "(mean _)"))


def scalar_function(scene: Scene) -> Iterator[Proposal]:
    """`grad` of a function of many values: the mean of what it gives, where its body or name is written in the call.

    Never the mean of the point of differentiation: that is another derivative.
    """
    form = scene.form
    if form.head != "grad" or len(form) != 3 or scene.call is None:
        return
    text = "(lambda (&rest xs) (let ((ys (multiple-value-list (apply _ xs)))) (if (null (cdr ys)) (mean (car ys)))))"
    function = scene.call.values[0]
    if scene.attempt({0: Change(text, lambda _: scene.evaluate(text, function))}) is None:
        return
    named, body = scene.form.inner(1), scene.form.inner(1)
    if named is not None and named.head == "function" and len(named) == 2:
        name = named.text(1)
        if isinstance(named.element(1), Symbol):
            yield Proposal(f"take the mean of what `{name}` gives", form.replaced(1, f"(lambda (x) (mean ({name} x)))"))
            return
        body = named.inner(1)
    if body is None or body.head != "lambda" or len(body) < 3:
        return
    while (last := body.inner(len(body) - 1)) is not None and last.head in _BODIES and len(last) > 2:
        body = last
    yield Proposal(f"take the mean of {_shown(body)}", body.replaced(len(body) - 1, "(mean _)"))


def _shown(body: ListText) -> str:
    """What a body gives, as it is written where that is short."""
    text = body.text(len(body) - 1)
    return f"`{text}`" if len(text) <= 30 and "\n" not in text else "what the function gives"


def labelled(scene: Scene) -> Iterator[Proposal]:
    """A `prepare` that gives no labels, where its loader has as many fields more as the objective wants."""
    form, graph = scene.form, active_graph()
    loader = scene.session.variable("train-loader")
    parameters = form.inner(2) if form.head == "defun" and len(form) > 3 else None
    if parameters is None or graph is None or not isinstance(loader, LoaderValue) or not len(parameters):
        return
    read = {given.name for given in graph.inputs}
    unread = [name for name in loader.fields if name not in read]
    wanted = scene.diagnostic.message.partition(" gives no ")[2].split()
    if unread and len(unread) == len(wanted):
        fields = " ".join(f"(field {parameters.text(0)} '{name})" for name in unread)
        last = form.inner(len(form) - 1)
        several = last is not None and last.head == "values" and len(last) > 1
        edits = last.appended(fields) if last and several else form.replaced(len(form) - 1, f"(values _ {fields})")
        yield Proposal("give the labels behind the input", edits)


def returned(scene: Scene) -> Iterator[Proposal]:
    """A forward that ends with a loop: the variable that the loop sets is what it should give."""
    body = scene.form
    bound = symbols_in(body.element(1)) if body.head == "forward" and len(body) > 2 else set()
    while (last := body.inner(len(body) - 1)) is not None and last.head in _BODIES and len(last) > 2:
        bound |= symbols_in(last.element(1))
        body = last
    names = _set_in(last.datum) & bound if last is not None and last.head in _LOOPS else set()
    if len(names) == 1:
        yield Proposal("the variable behind the loop is what it gives", body.appended(names.pop()))


def _set_in(datum: object) -> set[str]:
    """The variables that `setq` sets anywhere in a form."""
    found: set[str] = set()
    if isinstance(datum, Cons):
        items = list(datum)
        if isinstance(items[0], Symbol) and items[0].name in ("setq", "setf"):
            found |= {name.name for name in items[1::2] if isinstance(name, Symbol)}
        for item in items:
            found |= _set_in(item)
    return found
