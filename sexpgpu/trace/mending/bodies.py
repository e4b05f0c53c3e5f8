"""Mending what a function gives: the last form of its body."""

from __future__ import annotations

from collections.abc import Iterator

from sexpgpu.lang.enclosing import symbols_in
from sexpgpu.lang.forms import Cons, Symbol
from sexpgpu.trace.declarations import LoaderValue
from sexpgpu.trace.graph import active_graph
from sexpgpu.trace.mending.scene import Proposal, Scene

_BODIES = ("let", "let*", "flet", "labels")
"""Forms whose value is that of their last element."""
_LOOPS = ("dolist", "dotimes", "loop", "do")


def averaged(scene: Scene) -> Iterator[Proposal]:
    """An objective that gives one number a record: training needs one a batch."""
    form = scene.form
    if form.head == "defun" and len(form) > 3 and (scene.diagnostic.actual or "").startswith("f"):
        yield Proposal("take the mean", form.replaced(len(form) - 1, "(mean _)"))


def labelled(scene: Scene) -> Iterator[Proposal]:
    """A `prepare` that gives no labels, where its loader has as many fields more as the objective wants."""
    form, graph = scene.form, active_graph()
    loader = scene.session.variable("train-loader")
    parameters = form.inner(2) if form.head == "defun" and len(form) > 3 else None
    if parameters is None or graph is None or not isinstance(loader, LoaderValue) or not len(parameters):
        return
    read = {given.name for given in graph.inputs}
    unread = [name for name in loader.fields if name not in read]
    wanted = (scene.diagnostic.expected or "").count(" ") - 1
    if unread and len(unread) == wanted:
        fields = "".join(f" (field {parameters.text(0)} '{name})" for name in unread)
        yield Proposal("give the labels behind the input", form.replaced(len(form) - 1, f"(values _{fields})"))


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
