"""What an editor is told of an evaluated file: its names with their places, and the types of its tensors."""

from __future__ import annotations

from typing import Any

from sexpgpu.driver.warm import Name, Place
from sexpgpu.lang.analyze.grammar import SPECIALS
from sexpgpu.lang.forms import all_values
from sexpgpu.lang.module import Module
from sexpgpu.lang.observe import Observer, observer
from sexpgpu.lang.session import Session
from sexpgpu.trace.assemble import TRAIN
from sexpgpu.trace.graph import active_graph
from sexpgpu.trace.tensor import TensorLike

_Where = tuple[str, int, int]
"""A file, and between which of its characters."""
MOST_TYPES = 4
"""How many types of one form are kept: a model's form is evaluated once for each instance."""


def names_of(module: Module) -> tuple[Name, ...]:
    """The functions, macros and variables in a module's own tables, those it has imported included."""
    found = [
        Name(name.name, "macro", macro.shape, span=macro.span) for name, macro in module.macros.items() if name.interned
    ]
    for name, cell in module.functions.items():
        if cell.builtin is not None:
            found.append(Name(name.name, "function", cell.builtin.parameters.text, cell.builtin.doc))
        elif cell.defined and name.interned:
            found.append(Name(name.name, "function", span=cell.span))
    found += [Name(name.name, "variable", span=variable.span) for name, variable in module.variables.items()]
    return tuple(name for name in found if not name.name.startswith("%"))


def library_names(session: Session) -> tuple[Name, ...]:
    """The names that every file sees: special forms, functions and macros of Python and of the prelude."""
    special = [Name(name.name, "special form", form.shape) for name, form in SPECIALS.items() if name.interned]
    return (*special, *names_of(session.base))


class Types:
    """Collects the types of tensors by the place of the form that gave them, in the train graph."""

    def __init__(self) -> None:
        self._own: dict[_Where, dict[str, None]] = {}
        self._expanded: dict[_Where, str] = {}

    def of(self, files: frozenset[str]) -> Observer:
        """The observer that a session evaluating the files is given."""
        return observer(files, self._see)

    def _see(self, value: Any, file: str, start: int, end: int, own: bool) -> None:
        graph = active_graph()
        if graph is None or graph.name != TRAIN:
            return
        values = all_values(value)
        if not any(isinstance(v, TensorLike) for v in values):
            return
        text = ", ".join(str(v.type) if isinstance(v, TensorLike) else "an ordinary value" for v in values)
        if not own:
            self._expanded[file, start, end] = text
        elif len(kept := self._own.setdefault((file, start, end), {})) < MOST_TYPES:
            kept[text] = None

    def places(self) -> dict[str, tuple[Place, ...]]:
        """By file, the forms that gave tensors; of what a macro wrote at a form's place, the last value is its own."""
        found: dict[_Where, tuple[str, ...]] = {where: (text,) for where, text in self._expanded.items()}
        found |= {where: tuple(texts) for where, texts in self._own.items()}
        by_file: dict[str, list[Place]] = {}
        for (file, start, end), texts in found.items():
            by_file.setdefault(file, []).append(Place(start, end, texts))
        return {file: tuple(places) for file, places in by_file.items()}
