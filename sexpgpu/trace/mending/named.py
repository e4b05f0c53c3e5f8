"""Which argument of a call an error is about, where what refused it knows the value only."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from attrs import evolve

from sexpgpu.diag import Diagnostic, Note
from sexpgpu.lang.builtin import Parameters, show
from sexpgpu.lang.forms import NIL, Symbol
from sexpgpu.lang.functions import info_of_function
from sexpgpu.lang.modules import LIBRARY
from sexpgpu.trace.builtins import LIBRARIES
from sexpgpu.trace.mending.scene import Scene
from sexpgpu.trace.tensor import described

NAMING: Final = re.compile(r"E-(TYPE|ARG|VALUE|DTYPE|FLOW-001|LOAD-010|OPT-001|NAME-002|SHAPE-005)")
"""Errors that a single value may be the reason of."""


def naming(scene: Scene, diagnostic: Diagnostic) -> Diagnostic:
    """The error at the argument whose value it tells, with the argument's name, where only one has that value."""
    parameters = _parameters(scene)
    if parameters is None or scene.callee is None or NAMING.match(diagnostic.code) is None:
        return diagnostic
    told = [(i, name) for i, name, value in _given(scene, parameters, scene.callee) if _tells(diagnostic, value)]
    if len(told) > 1:
        told = [(i, name) for i, name in told if _says(diagnostic.message, name)]
    if len(told) != 1:
        return diagnostic
    index, name = told[0]
    cell = scene.form.cells[index]
    if diagnostic.span == scene.form.span:
        diagnostic = evolve(diagnostic, span=scene.form.source.span(cell.car_start, cell.car_end))
    texts = (diagnostic.message, diagnostic.expected, diagnostic.help)
    made_up = "#:" in parameters.text  # by the macro that wrote the function: no name of the user's world
    if made_up or any(_says(text, name) for text in texts if text is not None):
        return diagnostic
    call = f"({scene.form.head} {parameters.text[1:-1]})"
    return evolve(diagnostic, notes=(Note(f"this is the argument `{name}` of {call}"), *diagnostic.notes))


def _parameters(scene: Scene) -> Parameters | None:
    """Those of a function of tensors, or of one that a module of the product defines."""
    head = scene.form.head
    for library in LIBRARIES:
        if head in library.table:
            return library.table[head].parameters
    function = scene.session.function(head) if head else None
    info = None if function is None else info_of_function(function)
    ours = info is not None and info.span is not None and info.span.file.startswith(str(LIBRARY))
    return info.parameters if info is not None and ours else None


def _given(scene: Scene, parameters: Parameters, callee: FrameType) -> Iterator[tuple[int, str, Any]]:
    """Of each argument that the form writes its number there, the name of its parameter and the value."""
    values, several = _values(callee)
    positional = (*parameters.required, *parameters.optional)
    written = [cell.car for cell in scene.form.cells[1:]]
    for index, datum in enumerate(written):
        key = written[index - 1] if index > len(parameters.required) else None
        name = (*positional, *[parameters.rest or ""] * len(written))[index]
        if isinstance(key, Symbol) and key.keyword and (index >= len(positional) or key.name in values):
            name = key.name
        if isinstance(datum, int | float | str) or datum is NIL or (isinstance(datum, Symbol) and datum.keyword):
            yield index + 1, name, datum
        elif name in values:
            yield index + 1, name, values[name]
        elif index - len(positional) in range(len(several)):
            yield index + 1, name, several[index - len(positional)]


def _values(callee: FrameType) -> tuple[dict[str, Any], list[Any]]:
    """A function's arguments: those with a name by the name that Lisp has for it, and the rest."""
    code, found = callee.f_code, callee.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    values = {_lisp_name(name): found[name] for name in code.co_varnames[:count] if name in found}
    several: list[Any] = []
    if code.co_flags & inspect.CO_VARARGS:
        rest = found.get(code.co_varnames[count])
        several = [] if rest is NIL or rest is None else list(rest)
        count += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        keys = found.get(code.co_varnames[count])
        values |= {_lisp_name(name): value for name, value in keys.items()} if isinstance(keys, dict) else {}
    return values, several


def _lisp_name(name: str) -> str:
    """The parameter of a Python variable: `from_` is `from`, `top_k` is `top-k`, a compiled `x.1` is `x`."""
    return name.partition(".")[0].rstrip("_").replace("_", "-")


def _tells(diagnostic: Diagnostic, value: Any) -> bool:
    texts = {show(value), described(value)}
    if isinstance(value, int):
        texts.add(show(float(value)) if abs(value) < 1 << 53 else "")
    if diagnostic.actual is not None:  # `-1`, or `the integer -1`
        return any(re.fullmatch(rf"(the [a-z ]+ )?{re.escape(text)}", diagnostic.actual) for text in texts if text)
    return any(_says(diagnostic.message, text) for text in texts if text)


def _says(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None
