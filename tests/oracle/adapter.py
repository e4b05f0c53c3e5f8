"""The language as the oracle's runner drives it: a fresh session for each text, values as they print."""

from __future__ import annotations

from sexpgpu.diag import Diagnostics, SxError
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.standard import standard_session

Answer = tuple[str, list[str] | str, str]


def evaluate(text: str) -> Answer:
    """("ok", printed values of the last form, output), or ("error", the first error, output)."""
    return run_deep(lambda: _evaluate(text))


def _evaluate(text: str) -> Answer:
    diagnostics = Diagnostics()
    session = standard_session(diagnostics)
    results = session.evaluate_text(text, "oracle.sx")
    output = session.output.text()
    if diagnostics.errors:
        first = diagnostics.errors[0]
        return "error", f"{first.code}: {first.message}", output
    try:
        return "ok", [print_form(value) for value in results[-1].values] if results else [], output
    except SxError as unprintable:
        return "error", str(unprintable), output
