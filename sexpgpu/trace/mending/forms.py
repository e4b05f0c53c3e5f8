"""Mending by another form: what ordinary control flow and ordinary definitions cannot do with tensors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from sexpgpu.dialects.opdef import parse_type
from sexpgpu.lang.enclosing import ListText
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list
from sexpgpu.lang.functions import info_of_function
from sexpgpu.trace.mending.scene import Proposal, Scene
from sexpgpu.trace.models import Model
from sexpgpu.trace.optimizers import Optimizer, OptimizerGroups
from sexpgpu.trace.tensor import TensorLike

_ELEMENTWISE = {"and": "logical-and", "or": "logical-or", "not": "logical-not"}
_ELEMENT = {"aref": (1, 2), "svref": (1, 2), "elt": (1, 2), "nth": (2, 1)}
"""Functions of an element of a sequence: which argument is the sequence, which the index."""


def choices(scene: Scene) -> Iterator[Proposal]:
    """A test of tensors: `where` and the logical functions do by element what `if`, `and` and `or` do once."""
    form = _parent(scene)
    head = form.head
    if head == "if" and len(form) == 4:
        if _picks(scene, *(form.text(i) for i in (1, 2, 3))):
            yield Proposal("`where` picks by element", form.replaced(0, "where"))
    elif head in _ELEMENTWISE and len(form) == (2 if head == "not" else 3):
        name = _ELEMENTWISE[head]
        text = f"({name} {' '.join(form.text(i) for i in range(1, len(form)))})"
        if scene.tried(partial(scene.evaluate, text, None, scene.variables)) is not None:
            yield Proposal(f"`{name}` works by element", form.replaced(0, name))
    elif form.outer is not None and form.outer.head == "cond":
        yield from _clauses(scene, form.outer)
    elif scene.diagnostic.expected == "an integer":
        yield from _counted(scene)


def _counted(scene: Scene) -> Iterator[Proposal]:
    """A tensor as a count: that of its rows is meant."""
    at = scene.form.index_at(scene.diagnostic.span)
    value = scene.variables.get(scene.form.text(at)) if at is not None else None
    if at is not None and isinstance(value, TensorLike) and value.type.rank:
        yield Proposal("`dim` gives the number of its rows, which is known", scene.form.replaced(at, "(dim _ 0)"))


def instances(scene: Scene) -> Iterator[Proposal]:
    """The name of a `defmodel` or `defoptimizer` where what it makes is meant: `(def model net)`."""
    form = scene.form
    if form.head not in ("def", "defsub") or len(form) != 3 or form.index_at(scene.diagnostic.span) != 2:
        return
    name = form.text(2)
    function = scene.session.function(name)
    if function is None:
        return
    made = scene.tried(partial(scene.evaluate, f"({name})"))
    info = info_of_function(function)
    if isinstance(made, Model | Optimizer | OptimizerGroups):
        yield Proposal(f"`({name})` makes one", form.replaced(2, f"({name})"))
    elif info is not None and (form.head == "defsub" or form.text(1) in ("model", "optimizer")):
        yield Proposal(f"`{name}` is a function: ({name} {info.parameters.text[1:-1]}) makes one", ())


def _parent(scene: Scene) -> ListText:
    """The list that has the test among its elements."""
    form = scene.form
    whole = form.source.span(form.datum.start, form.datum.end) == scene.diagnostic.span
    return form.outer if whole and form.outer is not None else form


def _picks(scene: Scene, test: str, first: str, second: str) -> bool:
    """Whether `where` gives what one of the two forms would: each is one value, and none is stretched."""

    def value(text: str) -> Any:
        return scene.tried(partial(scene.evaluate, text, None, scene.variables))

    branches = [value(f"(multiple-value-list {text})") for text in (first, second)]
    if not all(isinstance(values, Cons) and values.cdr is NIL for values in branches):
        return False
    picked = value(f"(where {test} {first} {second})")
    wanted = {values.car.type for values in branches if isinstance(values.car, TensorLike)}
    return isinstance(picked, TensorLike) and wanted <= {picked.type}


def _clauses(scene: Scene, form: ListText) -> Iterator[Proposal]:
    """`(cond (test a) (t b))` as `(where test a b)`."""
    clauses = [form.inner(i) for i in range(1, len(form))]
    if len(clauses) != 2 or any(clause is None or len(clause) != 2 for clause in clauses):
        return
    first, last = clauses
    assert first is not None
    assert last is not None
    if last.text(0) != "t" or not _picks(scene, first.text(0), first.text(1), last.text(1)):
        return
    text = f"(where {first.text(0)} {first.text(1)} {last.text(1)})"
    yield Proposal("`where` picks by element", form.whole(text))


def elements(scene: Scene) -> Iterator[Proposal]:
    """An element of a tensor by a function of sequences: `gather` takes a part of a tensor."""
    form = scene.form
    if form.head not in _ELEMENT or len(form) != 3 or scene.call is None:
        return
    which, at = _ELEMENT[form.head]
    if isinstance(scene.call.values[which - 1], TensorLike):
        values = dict(zip("xi", (scene.call.values[which - 1], scene.call.values[at - 1]), strict=True))
        if scene.tried(partial(scene.evaluate, "(gather x i)", None, values)) is not None:
            text = f"(gather {form.text(which)} {form.text(at)})"
            yield Proposal("`gather` takes a part of a tensor", form.whole(text))


def definitions(scene: Scene) -> Iterator[Proposal]:
    """A tensor kept in a global variable: a symbol macro stands for the form in each graph that uses it."""
    top = scene.top()
    if top.head in ("def", "defvar", "defparameter", "defconstant") and len(top) == 3:
        words = "the name stands for the form: each graph that uses it computes it"
        yield Proposal(words, top.replaced(0, "define-symbol-macro"))


def guarded(scene: Scene) -> Iterator[Proposal]:
    """Something that only training does."""
    yield Proposal("only while training", scene.form.around("(when (training-p) ", ")"))


def initialized(scene: Scene) -> Iterator[Proposal]:
    """A declaration without an initializer."""
    form = scene.form
    if form.head in ("defparam", "defbuffer") and len(form) > 2:
        shape = form.inner(2)
        init = "(normal 0.02)" if form.head == "defparam" and shape is not None and len(shape) > 1 else "(zeros-init)"
        yield Proposal("say how it starts", form.appended(f":init {init}"))


def folded(scene: Scene) -> Iterator[Proposal]:
    """A list of layers called as if it were one: each takes what the one before gave."""
    form = scene.form
    if len(form) == 2 and isinstance(form.element(0), Symbol):
        name, given = form.text(0), form.text(1)
        text = f"(reduce (lambda (x layer) (funcall layer x)) {name} :initial-value {given})"
        yield Proposal("call one after the other", form.whole(text))


def state_shapes(scene: Scene) -> Iterator[Proposal]:
    """A state whose value has another shape than the parameter."""
    top = scene.top()
    form = scene.form
    value = scene.callee.f_locals.get("value") if scene.callee is not None else None
    if form.head != "set-state" or len(form) < 2 or not isinstance(value, TensorLike):
        return
    name = form.text(1)
    for i in range(1, len(top)):
        state = top.inner(i)
        if state is None or state.head != "defstate" or state.text(1) != name:
            continue
        at = next((j for j in range(2, len(state) - 1) if state.text(j) == ":like"), None)
        if at is not None and not value.type.shape:
            edits = (*state.replaced(at, ":shape"), *state.replaced(at + 1, "nil"))
            yield Proposal("a state of its own shape", edits)


def initializers(scene: Scene) -> Iterator[Proposal]:
    """An initializer that makes a tensor of a shape of its own instead of the one that it is given."""
    form = scene.form
    at = next((i for i in range(3, len(form) - 1) if form.text(i) == ":init"), None)
    made = form.inner(at + 1) if at is not None else None
    body = made.inner(2) if made is not None and made.head == "lambda" and len(made) == 3 else None
    parameters = made.inner(1) if made is not None and body is not None else None
    if made is None or body is None or parameters is None or len(parameters) != 1:
        return
    wanted = parse_type(scene.diagnostic.expected or "")
    sizes = lisp_list(wanted.shape)
    for i in range(1, len(body)):
        words = [parameters.text(0) if j == i else body.text(j) for j in range(len(body))]
        text = f"(funcall (lambda ({parameters.text(0)}) ({' '.join(words)})) _)"
        value = scene.tried(partial(scene.evaluate, text, sizes))
        if isinstance(value, TensorLike) and value.type.shape == wanted.shape:
            yield Proposal("make the shape that is given", body.replaced(i, parameters.text(0)))
