"""A value that is known only later (a tensor) decides nothing: whatever asks it gets its own refusal."""

from __future__ import annotations

import pytest

from sexpgpu.diag import Diagnostics, error
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.standard import standard_session


class Later(Foreign):
    """As a tensor: every computation on it gives another, no test is decided."""

    __slots__ = ()

    def lisp_generic(self, name: str, args: tuple[object, ...], /) -> object:
        return self

    def lisp_test(self) -> bool:
        raise error("E-FLOW-001", "known only later")


def told(text: str) -> list[str]:
    """The codes of what evaluating `text` reports, `x` being such a value."""
    diagnostics = Diagnostics()

    def work() -> None:
        session = standard_session(diagnostics)
        session.define("x", Later())
        session.evaluate_text(text, "test.sx")

    run_deep(work)
    return [d.code for d in diagnostics]


@pytest.mark.parametrize(
    "text",
    [
        "(case x (1 2) (t 3))",
        "(case x ((a b) 2))",
        "(case x)",
        "(ecase x (1 2))",
        "(dotimes (i x) i)",
        "(dolist (i x) i)",
        "(do () (x))",
        "(loop repeat x do (list 1))",
        "(loop for i below x do (list i))",
        "(loop for i from x to 3 do (list i))",
        "(loop while x do (list 1))",
        "(find-if (lambda (y) (> y x)) '(1 2))",
        "(sort (list 2 1) (lambda (a b) (> (* x a) b)))",
    ],
)
def test_what_asks_it_is_refused(text: str) -> None:
    assert told(text) == ["E-FLOW-001"]


@pytest.mark.parametrize("text", ["(assert (eql x x))", "(assert (eq x x))", "(assert (not (eql x 1)))",
                                  "(assert (member x (list 1 x)))"])  # fmt: skip
def test_identity_is_known(text: str) -> None:
    assert told(text) == []
