"""Control flow: blocks, tags, loops, non-local exits, several values, and Python's nesting limit."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import shown


@pytest.mark.parametrize(
    ("form", "value"),
    [
        # order of evaluation
        ("(let ((a 1)) (list a (setq a 2) a (progn (setq a 3) a) a))", "(1 2 2 3 3)"),
        ("(let ((a 1)) (+ a (let ((b 5)) (setq a 10) b) a))", "16"),
        ("(let ((n 0)) (flet ((next () (incf n))) (list (- (next) (next)) (+ (next) (* 10 (next))))))", "(-1 43)"),
        ("(let ((a 1)) (- a (setq a 5)))", "-4"),
        ("(let ((a 1) (f #'list)) (funcall f a (block b (setq a 2) a)))", "(1 2)"),
        # blocks
        ("(+ 1 (block a (+ 1 (return-from a 5))))", "6"),
        ("(block nil (mapcar (lambda (x) (when (= x 2) (return x))) '(1 2 3)))", "2"),
        ("(block a (block b (return-from a 1)) 2)", "1"),
        ("(defun f (x) (dolist (i x) (dolist (j i) (when (eql j 3) (return-from f j))))) (f '((1 2) (3 4)))", "3"),
        ("(let ((x 0)) (block b (dotimes (i 2) (dotimes (j 2) (incf x) (when (= j 1) (return-from b x))))))", "2"),
        ("(list 0 (let ((r (block b (dotimes (i 9) (dotimes (j 9) (if (= j 3) (return-from b (list i j)))))))) r))",
         "(0 (0 3))"),
        # tags
        ("(let ((n 0)) (tagbody top (incf n) (when (< n 10) (go top))) n)", "10"),
        ("(let ((x 0)) (tagbody a (incf x) (dotimes (i 9) (when (= i 5) (if (< x 3) (go a) (go b)))) b) x)", "3"),
        ("(let ((x 0)) (tagbody a (incf x) (mapc (lambda (i) (when (< x 3) (go a))) '(1 2))) x)", "3"),
        ("(let ((r '())) (dolist (x '(1 2 3)) (when (= x 2) (go skip)) (push x r) skip) r)", "(3 1)"),
        ("(prog ((i 0)) top (incf i) (if (< i 5) (go top)) (return i))", "5"),
        # loops make fresh variables where a closure keeps them
        ("(let ((fs '())) (dotimes (i 3) (push (lambda () i) fs)) (mapcar #'funcall fs))", "(2 1 0)"),
        ("(let ((fs '())) (dolist (x '(1 2 3)) (push (lambda () x) fs)) (mapcar #'funcall fs))", "(3 2 1)"),
        ("(do ((i 0 (1+ i)) (fs '())) ((= i 3) (mapcar #'funcall fs)) (push (lambda () i) fs))", "(3 3 3)"),
        ("(let ((r '())) (dotimes (i 2) (let ((j (* i 10))) (push (lambda () (incf j)) r)))"
         " (list (mapcar #'funcall r) (mapcar #'funcall r)))", "((11 1) (12 2))"),
        ("(dotimes (i -2 i))", "0"),
        ("(let ((s 0)) (do* ((i 0 (+ i 1)) (j 0 (* i 2))) ((> i 3) (list i j s)) (incf s j)))", "(4 8 12)"),
        # several values pass through everything that gives its last form's
        ("(multiple-value-list (block b (unwind-protect (catch 'x (if t (values 1 2) 3)) 4)))", "(1 2)"),
        ("(multiple-value-list (cond ((values 1 2)) (t 3)))", "(1)"),
        ("(multiple-value-list (or nil (values 1 2)))", "(1 2)"),
        ("(multiple-value-list (or (values 1 2) 3))", "(1)"),
        ("(multiple-value-list (let ((x (values 1 2))) x))", "(1)"),
        ("(list (values) (values 1 2))", "(nil 1)"),
        ("(multiple-value-list (catch 'x (throw 'x (values 1 2))))", "(1 2)"),
        ("(multiple-value-bind (a b c) (floor 7 2) (list a b c))", "(3 1 nil)"),
        ("(multiple-value-call #'list (values 1 2) (values) (floor 7 3))", "(1 2 2 1)"),
        ("(let (a b) (multiple-value-setq (a b) (values 1 2)) (list a b))", "(1 2)"),
        ("(if (values nil t) 'yes 'no)", "no"),
        # unwinding
        ("(let ((l '())) (catch 'a (unwind-protect (throw 'a 1) (push 'c l))) l)", "(c)"),
        ("(let ((l '())) (dotimes (i 3) (unwind-protect (when (= i 1) (return)) (push i l))) l)", "(1 0)"),
        # dynamic binding
        ("(defvar *s* 1) (defun s () *s*) (list (let ((*s* 2)) (s)) (s))", "(2 1)"),
        ("(defvar *s* 1) (defun s () *s*) (catch 'x (let ((*s* 9)) (throw 'x 1))) (s)", "1"),
        ("(defvar *s* 1) (defun s () *s*) (defun f (*s*) (s)) (list (f 5) (s))", "(5 1)"),
        ("(defvar *s* 1) (let ((*s* 2) (y *s*)) (list *s* y))", "(2 1)"),
        ("(defvar *s* 1) (defun s () *s*) (progv '(*s*) '(42) (s))", "42"),
        # conditions
        ('(handler-case (error "foo ~a" 1) (error (c) (format nil "~a" c)))', '"foo 1"'),
        ("(handler-case (car 5) (type-error () 'type) (error () 'other))", "type"),
        ("(handler-case (/ 1 0) (division-by-zero () 'zero))", "zero"),
        ("(handler-case (undefined-q 1) (undefined-function (c) (cell-error-name c)))", "undefined-q"),
        ("(handler-case ((lambda (x) x)) (program-error () 'count))", "count"),
        ("(multiple-value-bind (v c) (ignore-errors (car 5)) (list v (not (null c))))", "(nil t)"),
        ("(handler-case (values 1 2) (error () 0) (:no-error (a b) (list a b)))", "(1 2)"),
        ("(catch 'out (handler-bind ((error (lambda (c) (throw 'out 'thrown)))) (error \"x\")))", "thrown"),
        ("(catch 'out (handler-bind ((error (lambda (c) (throw 'out 'thrown)))) (car 3)))", "thrown"),
        ('(handler-case (handler-bind ((error (lambda (c) (error "second ~a" c)))) (error "first"))'
         ' (error (c) (format nil "~a" c)))', '"second first"'),
        ("(handler-case (signal 'warning) (warning () 'w))", "w"),
        ("(define-condition odd (error) ((n :initarg :n :reader odd-n))"
         ' (:report (lambda (c s) (format s "~a is odd" (odd-n c)))))'
         " (handler-case (error 'odd :n 3) (odd (c) (list (odd-n c) (format nil \"~a\" c))))", '(3 "3 is odd")'),
    ],
)  # fmt: skip
def test_values(form: str, value: str) -> None:
    assert shown(form) == value


def test_loops_nested_beyond_what_python_allows() -> None:
    depth = 24
    text = f"(defun f () {'(dotimes (i 1) ' * depth}(return-from f 'deep){')' * depth}) (f)"
    assert shown(text) == "deep"


def test_expressions_nested_very_deeply() -> None:
    depth = 1500
    assert shown(f"{'(+ 1 ' * depth}0{')' * depth}") == str(depth)


def test_handlers_nested_beyond_what_python_allows() -> None:
    depth = 15
    text = "(handler-case " * depth + '(error "x")' + " (type-error () 1))" * (depth - 1) + " (error () 'outer))"
    assert shown(text) == "outer"
