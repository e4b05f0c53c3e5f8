"""Several faults in one file: each is told, and none because of another."""

from __future__ import annotations

import pytest

from sexpgpu.diag import Diagnostic, Diagnostics
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.standard import standard_session


def told(text: str) -> list[Diagnostic]:
    diagnostics = Diagnostics()
    run_deep(lambda: standard_session(diagnostics).evaluate_text(text, "test.sx"))
    return list(diagnostics)


def brief(text: str) -> list[tuple[str, str]]:
    return sorted((d.code, f"{d.span.line}:{d.span.col}") for d in told(text) if d.span is not None)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        # Several in one function, whether anything calls it or not.
        (
            "(defun f (x) (let ((a (lenght x)) (b (car 1 2))) (+ widht a b)))",
            [("E-ARG-001", "1:45"), ("E-NAME-001", "1:53"), ("E-NAME-002", "1:24")],
        ),
        ("(defun f (x) (car x x) (cdr x x))\n(f 1)", [("E-ARG-001", "1:21"), ("E-ARG-001", "1:31")]),
        # What only begins like a definition: too short for one, or a structure without a name.
        ("(defsetf first-of (l))", [("E-MACRO-001", "1:1")]),
        ("(defun f (x) (list (defstruct 1 a) (car 1 2) x))", [("E-ARG-001", "1:43"), ("E-MACRO-001", "1:20")]),
        ("(list (car 1 2) (let (x 1) x))", [("E-ARG-001", "1:14"), ("E-MACRO-001", "1:22")]),
        # Definitions inside a form.
        (
            "(defun f () (flet ((a (x x) 1) (b () (cdr))) (list (a 1) (b))))",
            [("E-ARG-001", "1:38"), ("E-MACRO-001", "1:26")],
        ),
        ("(defun f () (labels ((a (x) (a)) (b () (a 1 2))) (b)))", [("E-ARG-001", "1:29"), ("E-ARG-001", "1:45")]),
        # Keywords and counts of calls that nothing makes.
        ("(defun f (&key k) k)\n(defun g () (f :kk 1) (f :k))", [("E-ARG-002", "2:16"), ("E-ARG-003", "2:26")]),
        ("(defun f (x &key k) (list x k))\n(defun g () (f 1 2))", [("E-ARG-003", "2:18")]),
        # A macro with a fault, and a macro whose expansion has one.
        ("(defmacro m (x) `(list ,y ,x))\n(m 1)\n(m 2)", [("E-NAME-001", "1:25")]),
        ("(defmacro m (x) `(lenght ,x))\n(defun f () (m 1) (m 2))", [("E-NAME-002", "2:13"), ("E-NAME-002", "2:19")]),
        # What a failed form would have defined.
        ("(def a (car 5))\n(def b (+ a 1))\n(defun f () (list a b))", [("E-TYPE-001", "1:13")]),
        (
            "(defstruct (layer (:include nothing)) width)\n(defun f (x) (layer-width (copy-layer x)))",
            [("E-MACRO-001", "1:1")],
        ),
        (
            "(defclass point () ((x :accessor point-x)))\n(defun f () (point-x (make-instance 'point)))",
            [("E-NAME-005", "1:1")],
        ),
        ('(require "./none.sx")\n(defun f (x) (none-such x) other)', [("E-MOD-001", "1:10")]),
        # Arguments that do not fit are the handler's business where one is written.
        ("(defun f (x) x)\n(defun g () (ignore-errors (f)) (handler-case (car 1 2) (error () 3)))\n(g)", []),
        ("(defun f () (handler-case (let ((x 1 2)) x) (error () 3)))", [("E-MACRO-001", "1:33")]),
    ],
)  # fmt: skip
def test_each_fault_is_told_and_nothing_else(text: str, faults: list[tuple[str, str]]) -> None:
    assert brief(text) == sorted(faults)


def test_every_expansion_is_shown_where_its_call_is_written() -> None:
    (found,) = told(
        "(defmacro inner (x) `(lenght ,x))\n(defmacro outer (x)\n  `(list (inner ,x) (car '(1))))\n(outer 5)"
    )
    trail = [(note.text, str(note.span)) for note in found.trail or found.notes]
    assert trail[:2] == [
        ("in the expansion of (inner ...)", "test.sx:3:10"),
        ("in the expansion of (outer ...)", "test.sx:4:1"),
    ]


def test_a_module_keeps_its_own_function_where_a_file_shadows_it() -> None:
    diagnostics = Diagnostics()
    session = standard_session(diagnostics)
    session.modules.overlay = {
        "/m/lib.sx": "(defun double (x) (* 2 x))\n(defun fourfold (x) (double (double x)))",
    }
    text = '(require "./lib.sx")\n(defun double (x) (list x))\n(list (double 1) (fourfold 1))'
    results = run_deep(lambda: session.evaluate_text(text, "/m/main.sx"))
    assert [str(d.code) for d in diagnostics] == ["W-NAME-001"]
    assert results[-1].line == "((1) 4)"
