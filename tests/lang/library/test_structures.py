"""defstruct and deftype."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown

POINT = "(defstruct point (x 0) y) "


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("(make-point :y 2)", "#S(point :x 0 :y 2)"),
        ("(let ((p (make-point))) (setf (point-x p) 5) (incf (point-x p)) (point-x p))", "6"),
        ("(list (point-p (make-point)) (point-p 5) (typep (make-point) 'point))", "(t nil t)"),
        ("(let* ((p (make-point :x 1)) (q (copy-point p))) (setf (point-x q) 2) (list (point-x p) (equalp p q)))",
         "(1 nil)"),
        ("(list (equalp (make-point :x 1) (make-point :x 1.0)) (equal (make-point) (make-point)))", "(t nil)"),
        ("(type-of (make-point))", "point"),
        ("(typecase (make-point) (list 1) (point 2))", "2"),
        ("(defstruct (point3 (:include point (x 7))) (z 9)) (list (make-point3) (point-x (make-point3))"
         " (point-p (make-point3)) (point3-y (make-point3 :y 4)))", "(#S(point3 :x 7 :y nil :z 9) 7 t 4)"),
        ("(defstruct (pair (:conc-name p-) (:constructor pair (left &optional right)) (:predicate is-pair)"
         " (:copier nil)) left (right 8)) (list (pair 1) (p-left (pair 1)) (is-pair (pair 1)) (fboundp 'copy-pair))",
         "(#S(pair :left 1 :right 8) 1 t nil)"),
        ("(defstruct (pair (:type list) :named (:initial-offset 1)) left (right 8)) (let ((p (make-pair :left 1)))"
         " (setf (pair-right p) 9) (list p (pair-left p) (pair-p p) (pair-p '(1 2)) (copy-pair p)))",
         "((nil pair 1 9) 1 t nil (nil pair 1 9))"),
        ("(defstruct (a (:type vector)) x) (defstruct (b (:type vector) (:include a (x 5))) y)"
         " (let ((b (make-b :y 2))) (list b (a-x b) (b-y b) (fboundp 'b-p)))", "(#(5 2) 5 2 nil)"),
        ("(list (typep (make-point) 'structure-object) (equalp (copy-structure (make-point)) (make-point)))", "(t t)"),
        ("(defstruct fixed (x 0 :read-only t) (y 1 :type integer :read-only nil)) (let ((s (make-fixed :x 3)))"
         " (incf (fixed-y s)) s)", "#S(fixed :x 3 :y 2)"),
        ("(deftype even-or (x) (return-from even-or `(or ,x (integer 0 0)))) (typep 0 '(even-or string))", "t"),
        ("(deftype small () '(integer 0 9)) (list (typep 5 'small) (typep 50 'small))", "(t nil)"),
        ("(deftype upto (n &optional (low 0)) `(integer ,low ,n))"
         " (list (typep 5 '(upto 5)) (typep 5 '(upto 9 6)))", "(t nil)"),
        ("(deftype items (&optional n) `(vector t ,n)) (typep #(1) 'items)", "t"),
    ],
)  # fmt: skip
def test_values(form: str, value: str) -> None:
    assert shown(POINT + form) == value


@pytest.mark.parametrize(
    ("form", "code", "words"),
    [
        ("(point-x 5)", "E-TYPE-001", "point-x needs a point, got 5"),
        ("(make-point :z 1)", "E-ARG-002", "has no keyword :z"),
        ("(defstruct (q (:inculde point)))", "E-MACRO-001", ":inculde is not supported"),
        ("(defstruct (q (:include nothing)))", "E-MACRO-001", ":include names no structure: nothing"),
        ("(defstruct (q (:type list) (:predicate q-p)) a)", "E-MACRO-001", ":predicate q-p needs :named"),
        ("(defstruct (q (:type list) (:include point)) a)", "E-MACRO-001", "which has another :type"),
        ("(defstruct (q (:type tree)) a)", "E-MACRO-001", ":type is list, vector or (vector element-type), got tree"),
        ("(defstruct (q (:type list)) a) (q-a 5)", "E-TYPE-001", "q-a needs a list of 1, got 5"),
        ("(copy-structure 5)", "E-TYPE-001", "copy-structure needs a structure, got 5"),
        ("(defstruct q a a)", "E-MACRO-001", "named twice"),
        ("(defstruct q (a 0 :read-only t)) (incf (q-a (make-q)))", "E-MACRO-003", "the slot `a` is read-only"),
        (
            "(defstruct q (a 0 :type integer :read-only t)) (defstruct (r (:include q)) b) (setf (r-a (make-r)) 1)",
            "E-MACRO-003",
            "the slot `a` is read-only",
        ),
        (
            "(defstruct (r (:include point (x 1 :read-only t)) (:conc-name nil))) (setf (x (make-r)) 1)",
            "E-MACRO-003",
            "the slot `x` is read-only",
        ),
        ("(defstruct 5)", "E-MACRO-001", "the name of a structure is a symbol, got 5"),
        ("(defstruct q (5 1))", "E-MACRO-001", "a slot is a name or (name default)"),
    ],
)
def test_faults_say_what_is_wrong(form: str, code: str, words: str) -> None:
    found = fault(POINT + form)
    assert (found.code, words in found.message) == (code, True), found.message
