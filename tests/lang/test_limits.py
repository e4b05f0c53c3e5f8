"""The bounds of evaluation: deep recursion works, endless evaluation ends with an error."""

from __future__ import annotations

import time

import pytest

from sexpgpu.diag import Diagnostics
from sexpgpu.lang.collection import uncollected
from sexpgpu.lang.limits import Limits, run_deep
from sexpgpu.lang.standard import standard_session
from tests.lang.evaluation import fault, shown


@pytest.mark.parametrize(
    "text",
    [
        "(defun f (n) (if (= n 0) 0 (+ 1 (f (- n 1))))) (f 100000)",
        "(defun ev (n) (if (= n 0) 0 (+ 1 (od (- n 1))))) (defun od (n) (if (= n 0) 0 (+ 1 (ev (- n 1))))) (ev 100000)",
        "(labels ((f (n) (if (= n 0) 0 (+ 1 (f (- n 1)))))) (f 100000))",
    ],
)
def test_a_hundred_thousand_nested_calls(text: str) -> None:
    assert shown(text) == "100000"


def test_calls_through_builtins_nest_deeply_too() -> None:
    assert shown("(defun f (n) (if (= n 0) 0 (+ 1 (car (mapcar #'f (list (- n 1))))))) (f 30000)") == "30000"


def test_endless_recursion_names_the_functions() -> None:
    found = fault("(defun ev (n) (+ 1 (od n)))\n(defun od (n) (+ 1 (ev n)))\n(ev 5)")
    assert found.code == "E-LIMIT-002"
    assert "ev -> od" in found.message or "od -> ev" in found.message
    assert any(note.text.endswith("more calls of `ev`, `od`") or note.text.endswith("more calls of `od`, `ev`")
               for note in found.notes)  # fmt: skip


@pytest.mark.parametrize("text", ["(loop)", "(dotimes (i 100000000) i)", "(tagbody a (go a))", "(do () (nil))"])
def test_endless_loops_end(text: str) -> None:
    diagnostics = Diagnostics()
    session = standard_session(diagnostics, Limits(steps=100_000))
    run_deep(lambda: session.evaluate_text(f"{text}\n(+ 1 2)", "test.sx"))
    assert [d.code for d in diagnostics] == ["E-LIMIT-001"]


def test_what_was_not_evaluated_is_not_at_fault() -> None:
    diagnostics = Diagnostics()
    session = standard_session(diagnostics, Limits(steps=100_000))
    text = "(defun g (x) (undefined-yet x))\n(loop)\n(def a (car 5))\n(print a)\n(defun h () a)"
    run_deep(lambda: session.evaluate_text(text, "test.sx"))
    assert [(d.code, str(d.span)) for d in diagnostics] == [("E-LIMIT-001", "test.sx:2:1")]
    assert session.exhausted


def test_what_is_not_examined_is_said() -> None:
    found = fault("(loop)")
    assert "needs more than the 4,000,000 steps that it has in all" in (found.help or "")
    assert [note.text for note in found.notes] == ["what would be evaluated after it is not examined"]


def test_each_endless_recursion_takes_its_share_of_the_steps() -> None:
    """Several of them are told, and then that the steps are used up: once, at the form that gets none."""
    diagnostics = Diagnostics()
    session = standard_session(diagnostics)
    functions = "".join(f"(defun f{i} (n) (+ 1 (f{i} n)))\n" for i in range(9))
    calls = "".join(f"(f{i} 1)\n" for i in range(9))
    begun = time.process_time()
    with uncollected():
        run_deep(lambda: session.evaluate_text(f"{functions}{calls}(car 1)", "test.sx"))
    assert time.process_time() - begun < 2.5
    told = [d.code for d in diagnostics]
    assert told == ["E-LIMIT-002"] * (len(told) - 1) + ["E-LIMIT-001"]
    assert 2 <= len(told) <= 5


def test_an_error_far_down_shows_the_calls_at_both_ends() -> None:
    text = "(defun g (x) (car x))\n(defun f (n) (if (= n 0) (g 5) (+ 1 (f (- n 1)))))\n(defun h () (f 50000))\n(h)"
    found = fault(text)
    assert (found.code, found.span and found.span.line) == ("E-TYPE-001", 1)
    assert [note.text for note in found.notes] == [
        "in the call of `g`",
        "in the call of `f`",
        "... more than 49,000 more calls of `f`",
        "in the call of `h`",
    ]


def test_a_handler_does_not_hide_that_the_steps_are_used_up() -> None:
    diagnostics = Diagnostics()
    session = standard_session(diagnostics, Limits(steps=10_000))
    run_deep(lambda: session.evaluate_text("(ignore-errors (loop))", "test.sx"))
    assert [d.code for d in diagnostics] == ["E-LIMIT-001"]


def test_a_macro_that_always_expands() -> None:
    found = fault("(defmacro m (x) `(m ,x))\n(list (m 1))")
    assert (found.code, found.message) == ("E-LIMIT-001", "`m` expands without end")


def test_the_result_of_a_deep_run_and_its_exception_come_back() -> None:
    assert run_deep(lambda: 3) == 3
    with pytest.raises(KeyError):
        run_deep(lambda: dict[str, int]()["missing"])


def test_a_number_that_doubles_for_ever_is_bounded() -> None:
    slow = ("E-LIMIT-001", "E-LIMIT-003")  # it takes a quarter of a million turns
    assert fault("(let ((x 1)) (loop (setq x (+ x x))))").code in slow
    assert fault("(let ((x -1)) (loop (setq x (- x (- x)))))").code in slow
    assert fault("(let ((x 3)) (loop (setq x (* x x))))").code == "E-LIMIT-003"
    assert fault("(let ((x 3) (y -7)) (loop (setq x (* x y)) (rotatef x y)))").code == "E-LIMIT-003"


def test_long_integers_add_exactly() -> None:
    assert shown("(let ((a (expt 2 62)) (b 1)) (list (+ a b) (- b a) (+ (- a) a)))") == (
        "(4611686018427387905 -4611686018427387903 0)"
    )


CIRCLES = """(defstruct box inside)
(defun v () (let ((v (vector 1))) (setf (aref v 0) v) v))
(defun l () (let ((l (list 1))) (setf (car l) l) l))
(defun b () (let ((b (make-box))) (setf (box-inside b) b) b))
(defun h () (let ((h (make-hash-table))) (setf (gethash 1 h) h) h))
"""


@pytest.mark.parametrize("form", [
    "(equalp (list (v) (b) (h)) (list (v) (b) (h)))", "(equal (l) (l))", "(copy-tree (l))", "(subst 1 2 (l))",
    "(setf (gethash (b) (make-hash-table :test 'equalp)) 1)",
])  # fmt: skip
def test_a_builtin_that_walks_a_circle(form: str) -> None:
    found = fault(f"{CIRCLES}{form}")
    assert (found.code, found.help, found.span and found.span.line) == ("E-LIMIT-002", "is it circular?", 6)


def test_a_circle_handed_to_what_refuses_it() -> None:
    assert fault(f"{CIRCLES}(+ 1 (v))").code == "E-TYPE-001"
