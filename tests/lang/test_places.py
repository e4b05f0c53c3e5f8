"""Places: what can be written, once-only evaluation of their parts, and ways to define more."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("(define-modify-macro incf-by (&optional (delta 5)) +) (let ((x 1)) (incf-by x) (incf-by x 10) x)", "16"),
        ("(define-modify-macro appendf (&rest lists) append) (let ((x (list 1))) (appendf x '(2) '(3)) x)", "(1 2 3)"),
        ("(let ((x 255)) (setf (ldb (byte 4 4) x) 5) (incf (mask-field (byte 4 0) x) -15) x)", "80"),
        ("(let ((l (list 0)) (n 0)) (setf (ldb (byte 2 (incf n)) (nth (decf n) l)) 3) (list l n))", "((6) 0)"),
        ("(multiple-value-bind (names values stores writer reader) (get-setf-expansion '(car x))"
         " (list (length names) values (length stores) (car reader)))", "(1 (x) 1 car)"),
        ("(let ((v (vector 0 1 2 3 4)) (i 0)) (symbol-macrolet ((x (aref v (incf i))))"
         " (psetq x (aref v (incf i)) x (aref v (incf i))) (list v i)))", "(#(0 2 2 4 4) 4)"),
        ("(setf (macro-function 'enter) (macro-function 'push)) (let ((x nil)) (enter 1 x) x)", "(1)"),
        ("(let ((l (list 1 2 3))) (setf (car l) 10 (nth 1 l) 20) (incf (third l) 5) l)", "(10 20 8)"),
        ("(let ((i 0) (v (vector 1 2 3))) (incf (aref v (incf i)) 10) (list i v))", "(1 #(1 12 3))"),
        ("(let ((v (vector 1 2 3))) (rotatef (aref v 0) (aref v 2)) v)", "#(3 2 1)"),
        ("(let ((x (list 1 2 3))) (list (shiftf (car x) (cadr x) 99) x))", "(1 (2 99 3))"),
        ("(let ((a 1) (b 2)) (psetf a b b a) (list a b))", "(2 1)"),
        ("(let ((p (list 'a 1 'b 2))) (list (remf p 'a) (remf p 'z) p))", "(t nil (b 2))"),
        ("(let ((p (list :a 1))) (setf (getf p :b) 2 (getf p :a) 3) p)", "(:b 2 :a 3)"),
        ("(let ((p '())) (incf (getf p :n 10) 5) p)", "(:n 15)"),
        ("(let ((h (make-hash-table))) (push 1 (gethash 1 h)) (cons (gethash 1 h) (incf (gethash 2 h 0))))",
         "((1) . 1)"),
        ("(let ((l '(1 2))) (push 0 l) (pushnew 2 l) (list (pop l) l))", "(0 (1 2))"),
        ("(let (a b) (setf (values a b) (floor 7 2)) (list a b))", "(3 1)"),
        ("(let ((x 1)) (setf (the integer x) 5) x)", "5"),
        ("(let ((x 1)) (macrolet ((foo () 'x)) (setf (foo) 5)) x)", "5"),
        ("(let ((l (list 1 2))) (symbol-macrolet ((z (car l))) (setq z 9) (incf z)) l)", "(10 2)"),
        ("(defun (setf mid) (new l) (setf (second l) new)) (let ((l (list 1 2 3))) (setf (mid l) 'x) l)", "(1 x 3)"),
        ("(flet (((setf top) (new l) (setf (car l) new))) (let ((l (list 1))) (setf (top l) 7) l))", "(7)"),
        ("(defsetf mid2 (l) (v) `(progn (setf (second ,l) ,v) ,v)) (let ((x (list 1 2))) (list (setf (mid2 x) 7) x))",
         "(7 (1 7))"),
        ("(defun put-top (l v) (setf (car l) v)) (defsetf top put-top) (let ((x (list 1))) (setf (top x) 7) x)", "(7)"),
        ("(define-modify-macro appendf (&rest more) append) (let ((x '(1))) (appendf x '(2) '(3)) x)", "(1 2 3)"),
        ("(setf (symbol-value 'fresh-q) 3) (symbol-value 'fresh-q)", "3"),
        ("(setf (fdefinition 'twice-q) (lambda (x) (* 2 x))) (twice-q 4)", "8"),
        ("(setf (get 'thing-q 'size) 3) (incf (get 'thing-q 'size)) (get 'thing-q 'size)", "4"),
    ],
)  # fmt: skip
def test_values(form: str, value: str) -> None:
    assert shown(form) == value


@pytest.mark.parametrize(
    ("form", "code", "place"),
    [
        ("(setf (+ 1 2) 3)", "E-MACRO-003", "1:7"),
        ("(setf (nothing-q 1) 3)", "E-MACRO-003", "1:8"),
        ("(setf 5 3)", "E-MACRO-003", "1:7"),
        ("(setf (if t 1 2) 3)", "E-MACRO-003", "1:7"),
        ("(incf :a)", "E-NAME-004", "1:7"),
        ("(setf nil 1)", "E-NAME-004", "1:7"),
        ("(let ((x 1)) (setf x))", "E-MACRO-001", "1:20"),
    ],
)
def test_faults(form: str, code: str, place: str) -> None:
    found = fault(form)
    assert (found.code, str(found.span)) == (code, f"test.sx:{place}")


def test_a_function_without_a_writer_says_how_to_define_one() -> None:
    found = fault("(defun mid (l) (second l))\n(let ((l (list 1 2))) (setf (mid l) 3))")
    assert found.help == "define how to write it: (defun (setf mid) (new l) (setf (second l) new))"
