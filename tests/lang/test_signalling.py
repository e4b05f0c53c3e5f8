"""When handlers run, which of them see a condition, and what conditions hold."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown, written

DEPTH = "(defvar *depth* 0) "


@pytest.mark.parametrize(
    ("form", "value"),
    [
        # Errors of builtins are seen where they happen: with the bindings of that place, before any cleanup.
        ("(block b (handler-bind ((error (lambda (c) (return-from b *depth*)))) (let ((*depth* 2)) (car 5))))", "2"),
        ("(let ((seen nil)) (ignore-errors (handler-bind ((error (lambda (c) (push :handler seen))))"
         " (unwind-protect (/ 1 0) (push :cleanup seen)))) (reverse seen))", "(:handler :cleanup)"),
        ("(let ((seen nil)) (ignore-errors (handler-bind ((error (lambda (c) (push *depth* seen))))"
         " (progv '(*depth*) '(7) (vector-pop 5)))) seen)", "(7)"),
        # Each handler sees an error once, the innermost first.
        ("(let ((seen nil)) (ignore-errors (handler-bind ((error (lambda (c) (push 1 seen))))"
         " (handler-bind ((error (lambda (c) (push 2 seen)))) (let ((*depth* 1)) (unwind-protect (car 5))))))"
         " (reverse seen))", "(2 1)"),
        ("(let ((seen nil)) (handler-bind ((error (lambda (c) (push 1 seen))))"
         " (handler-case (let ((*depth* 1)) (car 5)) (error () (push 2 seen)))) seen)", "(2)"),
        ("(let ((seen nil)) (handler-case (handler-bind ((error (lambda (c) (setq seen c))))"
         " (let ((*depth* 1)) (/ 1 0))) (error (c) (eq c seen))))", "t"),
        # What conditions say of themselves.
        ("(handler-case (caddr '(1 2 . 3)) (type-error (c) (list (type-error-datum c) (type-error-expected-type c))))",
         "(3 list)"),
        ("(handler-case (mapcar 3 '(1)) (type-error (c) (list (type-error-datum c) (type-error-expected-type c))))",
         "(3 function)"),
        ("(loop for f in (list (lambda () (coerce 5 'list)) (lambda () (subseq '(1) 'a)) (lambda () (assoc 1 '(5))))"
         " collect (handler-case (funcall f)"
         " (type-error (c) (list (type-error-datum c) (type-error-expected-type c)))))",
         "((5 list) (a unsigned-byte) (5 list))"),
        ("(handler-case (error \"n is ~a\" 3) (simple-condition (c)"
         " (apply #'format nil (simple-condition-format-control c) (simple-condition-format-arguments c))))",
         '"n is 3"'),
        ("(handler-case (error (formatter \"n is ~a\") 3) (error (c) (princ-to-string c)))", '"n is 3"'),
        ("(handler-case (throw 'nowhere 1) (control-error () :control))", ":control"),
        ("(define-condition odd (error) ((n :initarg :n :initarg :number :initform 1 :reader odd-n))"
         " (:default-initargs :n (+ 3 4))) (list (odd-n (make-condition 'odd))"
         " (odd-n (make-condition 'odd :number 5 :n 6)))", "(7 5)"),
        ("(defun depth () *depth*) (handler-case (error \"e\") (error (*depth*) (typep (depth) 'simple-error)))", "t"),
    ],
)  # fmt: skip
def test_values(form: str, value: str) -> None:
    assert shown(DEPTH + form) == value


def test_a_handler_may_print_before_the_cleanup_does() -> None:
    form = (
        '(handler-case (handler-bind ((error (lambda (c) (princ "handler ")))) '
        '(unwind-protect (car 5) (princ "cleanup"))) (error () nil))'
    )
    assert written(form) == "handler cleanup"


def test_an_error_passed_by_a_handler_is_reported_with_its_place() -> None:
    found = fault(DEPTH + "(handler-bind ((error (lambda (c) nil)))\n  (let ((*depth* 1))\n    (car 5)))")
    assert (found.code, found.span and found.span.line) == ("E-TYPE-001", 3)


@pytest.mark.parametrize("form", ["(warn 'error)", "(warn (make-condition 'simple-error))"])
def test_only_warnings_are_warned_of(form: str) -> None:
    assert fault(form).code == "E-TYPE-001"


@pytest.mark.parametrize(
    ("form", "word", "column"),
    [
        ("(defun f () (handler-case 1 (arith-error () 2)))", "arith-error", 30),
        ("(defun f () (handler-case 1 (error () 2) ((or division-by-zero tpye-error) () 2)))", "tpye-error", 64),
        ("(defun f () (handler-bind ((erorr #'list)) 1))", "erorr", 29),
        ("(handler-case 1 (erorr () 2) (:no-error (x) x))", "erorr", 18),
        ("(handler-case 1 (mine () 2))\n(defun mine () 1)", "mine", 18),
    ],
)
def test_a_handler_of_no_condition_type_is_at_fault_unsignalled(form: str, word: str, column: int) -> None:
    found = fault(form)
    assert (found.code, found.message) == ("E-TYPE-001", f"`{word}` is not a condition type")
    assert found.span is not None
    assert (found.span.line, found.span.col, found.span.end_col) == (1, column, column + len(word))


def test_a_handler_of_no_condition_type_is_told_once() -> None:
    found = fault("(defun f () (handler-case (car 5) (tpye-error () 2)))\n(f)")
    assert (found.help, len(found.fix)) == ("did you mean `type-error`?", 1)


@pytest.mark.parametrize(
    "form",
    [
        "(handler-case 1 (later () 2))\n(define-condition later (error) ())\n1",
        "(defun f () (handler-case 1 (later () 2)))\n(defmacro make (n) `(define-condition ,n () ()))\n(make later)\n1",
        "(handler-case 1 (t () 2) (nil () 3) ((not error) () 4))",
        "(handler-case (car 5) (nil () 3) (error () 1))",
    ],
)
def test_a_type_may_be_defined_below_its_handler(form: str) -> None:
    assert shown(form) == "1"


def test_a_handler_of_what_failed_to_be_defined_is_no_fault() -> None:
    found = fault("(define-condition mine (error) (5))\n(defun f () (handler-case 1 (mine () 2)))")
    assert found.span is not None
    assert found.span.line == 1


def test_what_can_be_no_type_is_refused() -> None:
    assert fault("(handler-case 1 (5 () 2))").code == "E-MACRO-001"
