"""Definitions whose `(` is missing: one error each, and nothing of what stands between."""

from __future__ import annotations

import pytest

from sexpgpu.diag import Diagnostics, apply_edits
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.standard import standard_session


def told(text: str) -> list[tuple[str, str, str]]:
    """Code, place, and the text with the fix made."""
    diagnostics = Diagnostics()
    run_deep(lambda: standard_session(diagnostics).evaluate_text(text, "test.sx"))
    return [(d.code, f"{d.span.line}:{d.span.col}", apply_edits(text, d.fix)) for d in diagnostics if d.span]


@pytest.mark.parametrize(
    "text",
    [
        "(defun f (x)\n  (* x x))\n(print (f 3))\n",
        "(defmacro m (x) `(list ,x))\n(defun g () (m 1))\n",
        "(def limit (+ 1 2))\n(print limit)\n",
        "(print 1)\n(defvar *a* 'b)\n(print *a*)\n",
    ],
)
def test_a_definition_without_its_parenthesis_is_one_error(text: str) -> None:
    at = text.index("(def")
    without = text[:at] + text[at + 1 :]
    line = without.count("\n", 0, at) + 1
    assert told(without) == [("E-READ-002", f"{line}:1", text)]


def test_two_of_them_are_two_errors() -> None:
    found = told("defun f () 1)\ndefun g () (f))\n(print (g))\n")
    assert [(code, place) for code, place, _ in found] == [("E-READ-002", "1:1"), ("E-READ-002", "2:1")]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("defun\n(print 1))\n", ["E-NAME-001", "E-READ-002"]),  # the `)` is another form's
        ("defun f () 1\n(print 2)\n", ["E-NAME-001", "E-NAME-001"]),  # no `)` is left over
        ("limit 3)\n", ["E-NAME-001", "E-READ-002"]),
    ],
)
def test_other_bare_names_are_left_alone(text: str, codes: list[str]) -> None:
    assert sorted(code for code, _, _ in told(text) if code != "E-NAME-002") == codes
