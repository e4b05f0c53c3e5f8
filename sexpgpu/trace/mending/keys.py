"""Mending a key that a property list does not have: `ctx` and its metrics, read with `getf`, give nil for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sexpgpu.diag import nearest
from sexpgpu.lang.enclosing import ListText
from sexpgpu.lang.forms import Cons, Symbol
from sexpgpu.trace.mending.scene import Proposal, Scene

FEW = 12
"""So many keys are listed; of more only the nearest is told."""


def misspelt(scene: Scene) -> Iterator[Proposal]:
    """A nil that is the value of a key in no property list that the function was given."""
    lists = [known for value in scene.variables.values() for known in _lists(value)]
    for form in _forms(scene.top()):
        key = form.element(2) if form.head == "getf" and len(form) == 3 else None
        if not isinstance(key, Symbol) or not key.keyword or any(key.name in known for known in lists):
            continue
        near = next(filter(None, (nearest(key.name, known) for known in lists)), None)
        if near is not None:
            yield Proposal(f"there is no :{key.name}: did you mean :{near}?", form.replaced(2, f":{near}"))
        elif lists and len(lists[-1]) <= FEW:
            yield Proposal(f"there is no :{key.name}; there are " + " ".join(f":{k}" for k in lists[-1]), ())


def _lists(value: Any) -> Iterator[list[str]]:
    """The keys of a property list, and of those inside it."""
    items = list(value) if isinstance(value, Cons) else []
    keys = items[::2]
    if items and len(items) % 2 == 0 and all(isinstance(key, Symbol) and key.keyword for key in keys):
        yield [key.name for key in keys]
        for inner in items[1::2]:
            yield from _lists(inner)


def _forms(form: ListText) -> Iterator[ListText]:
    yield form
    for i in range(len(form)):
        inner = form.inner(i)
        if inner is not None:
            yield from _forms(inner)
