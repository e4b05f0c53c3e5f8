"""Steps are what work costs, whatever does it, and what contains itself is refused soon."""

from __future__ import annotations

import time

import pytest

from sexpgpu.diag import Diagnostics
from sexpgpu.lang.limits import Limits, run_deep
from sexpgpu.lang.standard import standard_session
from tests.lang.evaluation import fault, shown


@pytest.mark.parametrize(
    "text",
    [
        "(loop (mapcar #'identity '(1 2 3)))",
        "(loop (list 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20))",
        "(loop (append '(1 2 3 4 5 6 7 8 9 10) '(1 2 3 4 5 6 7 8 9 10) '(1)))",
        '(loop (format nil "~,3f ~a" 1.5 1))',
        '(loop (funcall #\'format nil "~,3f ~a" 1.5 1))',
        "(loop (sort (list 3 1 2) #'<))",
        "(loop (coerce '(1 2 3) 'vector))",
        "(loop (print 1))",
        "(loop (gensym))",
        '(loop (read-from-string "(a b c d e f g)"))',
        "(loop (eval '(+ 1 2)))",
        "(loop (ignore-errors (car 1)))",
        "(loop (ignore-errors (no-such-function 1)))",
        "(loop (catch 'a (throw 'a 1)))",
        "(loop (block a (mapc (lambda (x) (return-from a x)) '(1 2))))",
        "(loop (macroexpand-1 '(when 1 2)))",
        "(loop (typep 1 '(or string (integer 0 5) (and symbol (not null)))))",
        "(let ((x (make-list 100))) (loop (member 3 x)))",
        "(let ((x (list 1 2))) (setf (cdr (last x)) x) (dolist (y x) y))",
        "(defun perms (l) (if l (mapcan (lambda (x) (mapcar (lambda (p) (cons x p)) (perms (remove x l)))) l) '(())))"
        "(perms '(1 2 3 4 5 6 7 8 9 10 11 12))",
        "(let ((x nil)) (loop (setq x (list x x))))",
        "(let ((x nil)) (dotimes (i 60) (setq x (list x x))) (equal x (copy-tree x)))",
        "(let ((x nil) (y nil)) (dotimes (i 60) (setq x (list x x) y (list y y))) (equal x y))",
        "(let ((x nil)) (dotimes (i 60) (setq x (list x x))) (subst 1 2 x))",
        "(let ((x nil)) (dotimes (i 60) (setq x (list x x))) (tree-equal x x))",
        "(let ((x 1)) (dotimes (i 60) (setq x (list '+ x x))) (eval x))",
        "(let ((x 'integer)) (dotimes (i 60) (setq x (list 'or x x))) (typep \"a\" x))",
        "(defmacro m (x) `(progn (m ,x) (m ,x))) (list (m 1))",
        "(defun f () (unwind-protect (f) (f))) (f)",
        "(loop collect (make-string 1000000))",
        "(loop collect (make-array 10000))",
    ],
)
def test_steps_are_what_work_costs(text: str) -> None:
    """Whatever a loop calls, its steps are used up in about the time that an empty loop takes for them."""
    diagnostics = Diagnostics()
    session = standard_session(diagnostics, Limits(steps=400_000))
    begun = time.process_time()
    run_deep(lambda: session.evaluate_text(text, "test.sx"))
    assert time.process_time() - begun < 0.5
    assert diagnostics.errors[0].code in ("E-LIMIT-001", "E-LIMIT-002")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(defun f () (handler-case (+ 1 (f)) (error () 1))) (f)", "handlers, catch and unwind-protect forms"),
        ("(defun f () (unwind-protect (f) 1)) (f)", "handlers, catch and unwind-protect forms"),
        ("(defun f (n) (catch 'a (f (+ n 1)))) (f 0)", "handlers, catch and unwind-protect forms"),
        ("(defun f () (eval '(f))) (f)", "evaluation is nested more than 2,200 deep"),
        ("(let ((x (list 'progn 2))) (setf (cadr x) x) (eval x))", "progn is nested more than 2,200 deep"),
        ("(symbol-macrolet ((a (list a))) a)", "the symbol macro `a` is nested more than 2,200 deep"),
        ("(deftype a () '(or a a)) (typep 1 'a)", "the type `a` is nested more than 2,200 deep"),
    ],
)
def test_what_contains_itself(text: str, message: str) -> None:
    begun = time.process_time()
    found = fault(text)
    assert time.process_time() - begun < 5  # with garbage collection, which `check` leaves out
    assert (found.code, found.message[: len(message)]) == ("E-LIMIT-002", message)


def test_a_macro_in_its_own_expansion() -> None:
    assert fault("(defmacro m (x) `(list (m ,(+ x 1)))) (list (m 1))").message == "`m` expands without end"


def test_a_circular_form() -> None:
    assert fault("(let ((x (list 1 2))) (setf (cdr (last x)) x) (eval (cons '+ x)))").code == "E-LIMIT-003"


@pytest.mark.parametrize("digits", ["9" * 100_000, "1/" + "9" * 100_000, "#x" + "f" * 100_000, "1." + "9" * 100_000])
def test_a_number_too_long_to_read(digits: str) -> None:
    assert fault(digits).code == "E-READ-004"


@pytest.mark.parametrize(
    "text",
    [
        "(let ((s 0)) (dotimes (i 1000000) (setq s (+ s i))) s)",
        "(loop for i below 1000000 sum i)",
        "(let ((s 468749625000) (v (vector 0 1))) (dotimes (i 250000) (setq s (+ s i (aref v 0)))) s)",
        "(let ((s 499998500000)) (dolist (i (make-list 1000000 :initial-element 1)) (incf s i)) s)",
    ],
)
def test_a_million_numbers_can_be_added(text: str) -> None:
    assert shown(text) == "499999500000"


@pytest.mark.parametrize("depth", [10, 40, 300])
def test_guards_nest_in_the_text(depth: int) -> None:
    assert shown("(unwind-protect " * depth + "1" + " 2)" * depth) == "1"
    assert shown("(defvar *x* 0) " + "(let ((*x* 1)) " * depth + "*x*" + ")" * depth) == "1"


def test_a_place_that_stands_for_itself() -> None:
    found = fault("(defsetf a (x) (y) `(setf (a ,x) ,y)) (setf (a 1) 2)")
    assert found.code == "E-LIMIT-002"


def test_a_parenthesis_that_closes_nothing_before_any_form() -> None:
    found = fault("\n 1)-1")
    assert (found.code, found.fix[0].span.line, found.fix[0].span.col) == ("E-READ-002", 2, 3)


@pytest.mark.parametrize("text", ["(null -1)", '(null "a")', "(eq 'a 1)", "(not 5)", "(if (null 2) 1 nil)"])
def test_what_is_known_when_it_is_compiled_compiles_without_a_warning(text: str) -> None:
    assert shown(text) == "nil"
