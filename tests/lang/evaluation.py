"""What the tests of the language share: evaluate a text in a fresh session and look at what came of it."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import Diagnostic, Diagnostics
from sexpgpu.lang.forms import Source
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.reader import read_text
from sexpgpu.lang.standard import standard_session


def shown(text: str) -> str:
    """The printed values of the last form of `text`, separated by ` ; `; any error fails the test."""
    diagnostics = Diagnostics()
    results = run_deep(lambda: standard_session(diagnostics).evaluate_text(text, "test.sx"))
    assert diagnostics.errors == []
    return " ; ".join(print_form(value) for value in results[-1].values)


def fault(text: str) -> Diagnostic:
    """The one error of `text`."""
    diagnostics = Diagnostics()
    run_deep(lambda: standard_session(diagnostics).evaluate_text(text, "test.sx"))
    (found,) = diagnostics.errors
    return found


def written(text: str) -> str:
    """What evaluating `text` prints."""
    diagnostics = Diagnostics()
    session = standard_session(diagnostics)
    run_deep(lambda: session.evaluate_text(text, "test.sx"))
    assert diagnostics.errors == []
    return session.output.text()


def read_one(text: str) -> Any:
    """The one form that `text` reads as."""
    found: list[Diagnostic] = []
    (form,) = read_text(Source("test.sx", text), found.append)
    assert [d for d in found if d.severity == "error"] == []
    return form.datum
