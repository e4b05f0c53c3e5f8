"""Experiments of the pages: compiled whole, or a fragment in the place of the forms of an experiment it replaces."""

from __future__ import annotations

import re
from pathlib import Path

from sexpgpu.diag import render
from sexpgpu.driver.compile import compiling
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection

_DEFINED = re.compile(r"\((def\w*|require|provide)\s*([^\s()]*)")


def diagnostics(path: Path) -> list[str]:
    """Everything the compiler says of a file, warnings included."""

    def check() -> list[str]:
        with compiling(path, Selection()) as done:
            return [render(d, done.session.sources) for d in done.diagnostics]

    return run_deep(check)


def top_level(text: str) -> list[str]:
    """The forms of a file whose forms, and nothing else, start in the first column; comments go with what follows."""
    return [piece for piece in re.split(r"(?m)^(?=\()", text) if piece.startswith("(")]


def defined(form: str) -> str:
    """What a form defines: its name, or for a form without one the operator (`defrun`, `defknobs`)."""
    found = _DEFINED.match(form)
    if found is None:
        return form
    operator, name = found.groups()
    return operator if operator in ("defrun", "defknobs") else name


def patched(base: str, fragment: str) -> str:
    """`base` with the forms of `fragment` in the place of the first that they replace, the others of them gone.

    A fragment that replaces nothing stands before the model.
    """
    new = top_level(fragment)
    names = {defined(form) for form in new}
    result: list[str] = []
    placed = False
    replaces = any(defined(form) in names for form in top_level(base))
    for form in top_level(base):
        name = defined(form)
        if not placed and (name in names if replaces else name == "model"):
            result += new
            placed = True
        if name not in names:
            result.append(form)
    return "\n".join(form.rstrip() for form in result if form) + "\n"
