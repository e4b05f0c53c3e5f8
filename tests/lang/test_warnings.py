"""Warnings: what nothing reads, calls or reaches, and where they hold back."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostic, Diagnostics
from sexpgpu.driver.compile import LIBRARY, new_session
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.standard import standard_session
from sexpgpu.trace.declarations import Declarations, declaring

ROOT = Path(__file__).resolve().parents[2]
OWN_FILES = sorted([*LIBRARY.glob("*.sx"), *(ROOT / "sexpgpu/lang").glob("*.sx"), *(ROOT / "examples").glob("*.sx")])


def told(text: str) -> list[Diagnostic]:
    diagnostics = Diagnostics()
    run_deep(lambda: standard_session(diagnostics).evaluate_text(text, "test.sx"))
    return list(diagnostics)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("(let ((a 1) (b 2)) a)", "W-NAME-004", "1:14"),
        ("(let* ((a 1) (b a)) 3)", "W-NAME-004", "1:15"),
        ("(let (a (b 2)) b)", "W-NAME-004", "1:7"),
        ("(let ((a 1)) (setq a 2) 3)", "W-NAME-004", "1:8"),
        ("(multiple-value-bind (q r) (floor 7 2) r)", "W-NAME-004", "1:23"),
        ("(destructuring-bind (a (b) &key c) '(1 (2)) (list a c))", "W-NAME-004", "1:25"),
        ("(prog ((a 1) (b 2)) (return a))", "W-NAME-004", "1:15"),
        ("(defun f (x) (let ((y x)) (lambda () x)))", "W-NAME-004", "1:21"),
        ("(flet ((f () 1) (g () 2)) (f))", "W-NAME-005", "1:18"),
        ("(labels ((f () 1)) 2)", "W-NAME-005", "1:11"),
        ("(defun f (x) (cond (t 1) ((car x) 2)))", "W-FLOW-001", "1:26"),
        ("(defun f (x) (typecase x (t 1) (string 2)))", "W-FLOW-001", "1:32"),
        ("(defun f () (return-from f 1) 2)", "W-FLOW-001", "1:31"),
        ("(defun f () (error \"no\") (list 2))", "W-FLOW-001", "1:26"),
        ("(defun f (x) (dolist (y x) (return y) (print y)))", "W-FLOW-001", "1:39"),
        ("(defun f () (tagbody a (go a) (print 1)))", "W-FLOW-001", "1:31"),
        ("(defun f (x) (case x (a 1) ((b a) 2)))", "W-CASE-001", "1:32"),
        ("(defun f (x) (case x ('a 1)))", "W-CASE-001", "1:23"),
        ('(print "a\\nb")', "W-READ-001", "1:10"),
        ("(defmacro first (x) x)", "W-NAME-001", "1:1"),
        (
            "(define-condition odd (error) ((n :initarg :n)))\n(let ((c (make-condition (quote odd) :n 1))) 2)",
            "W-NAME-004",
            "2:8",
        ),
    ],
)  # fmt: skip
def test_what_is_told(text: str, code: str, place: str) -> None:
    (found,) = told(text)
    assert (found.code, str(found.span), found.severity) == (code, f"test.sx:{place}", "warning")


@pytest.mark.parametrize(
    "text",
    [
        "(let ((_a 1)) 2)",
        "(let ((a 1)) (declare (ignore a)) 2)",
        "(let* ((a 1) (b 2)) (declare (ignorable a)) b)",
        "(multiple-value-bind (q r) (floor 7 2) (declare (ignore q)) r)",
        "(let ((a 1)) (incf a))",
        "(let ((a 1)) (lambda () a))",
        "(let ((a (list 1))) (setf (car a) 2))",
        "(let ((a 1)) (symbol-macrolet ((b a)) b))",
        "(let ((a 1)) (macrolet ((m () 'a)) (m)))",
        "(let ((f #'car)) (funcall f '(1)))",
        "(flet ((f (x) x)) (mapcar #'f '(1)))",
        "(defun f (x) 1)",
        "(mapcar (lambda (x) 1) '(1))",
        "(dotimes (i 3) (print 1))",
        "(dolist (x '(1)) (print 1))",
        "(loop for x in '(1 2) collect 1)",
        "(loop for (a b) in '((1 2)) with c = 3 count a)",
        "(do ((i 0 (1+ i))) ((= i 2)))",
        "(defvar *a* 1)\n(let ((*a* 2)) 3)",
        "(defmacro m (form) `(let ((unread 1)) ,form))\n(m 2)",
        "(defmacro m (bindings) `(let ,bindings 3))\n(m ((a 1)))",
        "(defmacro m (form) `(flet ((helper () 1)) ,form))\n(m 2)",
        "(defmacro m (form) `(progn ,form (print 1)))\n(defun f () (m (return-from f 1)))",
        "(defmacro m (&rest clauses) `(cond ,@clauses (t 3)))\n(defun f (x) (m (t x)))",
        "(defun f (x) (cond ((car x) 1) (t 2)))",
        "(defun f (x) (when x (return-from f 1)) 2)",
        "(handler-case (car 1 2) (program-error () 1))",
    ],
)
def test_what_is_not_told(text: str) -> None:
    assert told(text) == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("(let ((width 3)) (* 2 widht))", ["E-NAME-001"]),
        ("(let ((a 1)) (let ((b a 2)) b))", ["E-MACRO-001"]),
        ("(flet ((f (x) x)) (car 1 (f 2)))", ["E-ARG-001"]),
        ("(defun f (a) (let ((b a)) (lenght b)) (let ((c a)) (car c c)))", ["E-ARG-001", "E-NAME-002"]),
    ],
)
def test_what_a_fault_mentions_is_used(text: str, codes: list[str]) -> None:
    assert [found.code for found in told(text)] == codes


def test_setting_without_reading_is_said() -> None:
    (found,) = told("(let ((a 1)) (setq a 2) 3)")
    assert found.message == "the variable `a` is set but never read"
    assert found.fix == ()


def test_the_edit_renames_the_variable() -> None:
    (found,) = told("(let ((a 1)) 2)")
    assert [(edit.text, edit.span.col) for edit in found.fix] == [("_a", 8)]


@pytest.mark.parametrize("path", OWN_FILES, ids=lambda path: path.name)
def test_the_files_of_the_product_give_none(path: Path) -> None:
    """As a user's file each would be clean, but for the library's names that it defines anew."""
    diagnostics = Diagnostics()

    def look() -> None:
        session = new_session(diagnostics)
        with declaring(Declarations(path)):
            session.evaluate_text(path.read_text("utf-8"), f"{path}.copy")

    run_deep(look)
    assert [d for d in diagnostics if d.code != "W-NAME-001"] == []
