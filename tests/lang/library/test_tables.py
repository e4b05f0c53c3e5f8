"""Hash tables, arrays, equality and types."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("(list (= (sxhash '(a \"b\" 1.5)) (sxhash (list 'a \"b\" 1.5))) (= (sxhash 1) (sxhash 1.0)))", "(t nil)"),
        ("(typep (sxhash \"some text\") '(unsigned-byte 62))", "t"),
        ("(let ((h (make-hash-table))) (setf (gethash 1 h) :a (gethash 1.0 h) :b)"
         " (list (gethash 1 h) (gethash 1.0 h)))",
         "(:a :b)"),
        ("(let ((h (make-hash-table :test 'equal))) (setf (gethash '(1 \"a\") h) 2)"
         " (gethash (list 1 \"a\") h))", "2 ; t"),
        ("(let ((h (make-hash-table :test #'equalp))) (setf (gethash \"AB\" h) 2) (gethash #(#\\a #\\b) h))", "2 ; t"),
        ("(gethash :x (make-hash-table) 7)", "7 ; nil"),
        ("(let ((h (make-hash-table)) (out nil)) (dolist (k '(c a b)) (setf (gethash k h) k))"
         " (maphash (lambda (k v) (push k out)) h) (reverse out))", "(c a b)"),
        ("(let ((h (make-hash-table))) (incf (gethash :n h 5)) (list (remhash :n h) (remhash :n h)))", "(t nil)"),
        ("(make-hash-table :test 'equal)", "#<hash-table equal 0>"),
        ("(list (eql 1 1.0) (eql 0.0 -0.0) (equal 1/2 1/2) (equalp 1 1.0) (= 0.0 -0.0))", "(nil nil t t t)"),
        ("(list (equal #(1) #(1)) (equalp #(1 #\\a) #(1.0 #\\A)) (equalp \"aB\" \"Ab\"))", "(nil t t)"),
        ("(let ((x \"abc\")) (list (eq x x) (equal x \"abc\")))", "(t t)"),
        ("(make-array 2)", "#(0 0)"),
        ("(make-array '(2 2) :initial-contents '((1 2) (3 4)))", "#2A((1 2) (3 4))"),
        ("(make-array nil :initial-element 5)", "#0A5"),
        ("(make-array '(0 2))", "#2A()"),
        ("(let ((a (make-array '(2 3)))) (setf (aref a 1 2) 9) (list (aref a 1 2) (row-major-aref a 5)))", "(9 9)"),
        ("(let ((v (make-array 0 :fill-pointer 0 :adjustable t)))"
         " (list (vector-push-extend 'a v) (vector-push-extend 'b v) (length v) (vector-pop v) v))",
         "(0 1 2 b #(a))"),
        ("(let ((v (make-array 1 :fill-pointer 0))) (list (vector-push 1 v) (vector-push 2 v)))", "(0 nil)"),
        ("(adjust-array (make-array '(2 2) :initial-contents '((1 2) (3 4))) '(3 1) :initial-element 0)",
         "#2A((1) (3) (0))"),
        ("(list (array-rank #(1)) (array-dimensions \"abc\") (array-total-size (make-array '(2 3))))", "(1 (3) 6)"),
        ("(list (array-in-bounds-p #(1) 1) (array-row-major-index (make-array '(2 3)) 1 1))", "(nil 4)"),
        ("(list (typep 5 '(integer 0 9)) (typep 5 '(integer (5))) (typep 2.5 '(float 0 *)) (typep 3 '(mod 3)))",
         "(t nil t nil)"),
        ("(list (typep '(1 . a) '(cons integer symbol)) (typep \"abc\" '(string 3)) (typep #(1) '(vector t 2)))",
         "(t t nil)"),
        ("(list (typep nil 'list) (typep t 'boolean) (typep 'a 'atom) (typep #'car 'function))", "(t t t t)"),
        ("(list (type-of 1) (type-of 1.5) (type-of nil) (type-of \"a\") (type-of '(1)))",
         "(integer double-float null string cons)"),
        ("(list (coerce 1/2 'float) (coerce '(1) 'vector) (coerce 'a 'symbol) (coerce \"x\" 'character))",
         "(0.5 #(1) a #\\x)"),
        ("(funcall (coerce 'car 'function) '(1))", "1"),
    ],
)  # fmt: skip
def test_values(form: str, value: str) -> None:
    assert shown(form) == value


@pytest.mark.parametrize(
    ("form", "code", "words"),
    [
        ("(gethash 1 2)", "E-TYPE-001", "gethash: argument 2 is the integer 2, not a hash table"),
        ("(make-hash-table :test 'frob)", "E-VALUE-006", ":test frob is none of eq, eql, equal, equalp"),
        ("(aref #(1 2) 5)", "E-VALUE-003", "aref: index 5 is outside a vector of 2 (0 to 1)"),
        ("(aref #(1 2) -1)", "E-VALUE-003", "aref: index -1 is outside a vector of 2 (0 to 1)"),
        ("(aref (make-array '(2 3)) 0 3)", "E-VALUE-003", "aref: index 3 is outside axis 1 of 3 (0 to 2)"),
        ("(aref (make-array '(2 3)) 0)", "E-ARG-004", "aref: 1 subscripts for an array of 2 dimensions"),
        ("(svref '(1 2) 0)", "E-TYPE-001", "svref: argument 1 is the list (1 2), not a simple vector"),
        ("(make-array '(100000 100000))", "E-LIMIT-003", "make-array"),
        ("(make-array 3 :initial-contents '(1 2))", "E-VALUE-003", "has 2 elements instead of 3"),
        ("(make-array 3 :displaced-to #(1))", "E-VALUE-006", "displaced arrays are not supported"),
        ("(vector-push 1 (vector 1))", "E-TYPE-001", "needs a vector with a fill pointer"),
        ("(typep 1 'integr)", "E-TYPE-004", "integr is not a type"),
        ("(coerce 'a 'string)", "E-TYPE-001", "coerce: the symbol a cannot become string"),
    ],
)  # fmt: skip
def test_faults_say_what_is_wrong(form: str, code: str, words: str) -> None:
    found = fault(form)
    assert (found.code, words in found.message) == (code, True), found.message


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("(handler-case (car 5) (type-error (c) (list (type-error-datum c) (type-error-expected-type c))))",
         "(5 list)"),
        ("(handler-case (elt #(1) 1) (type-error () :index))", ":index"),
        ('(handler-case (parse-integer "x") (parse-error () :parse))', ":parse"),
        ("(handler-case (/ 1 0) (division-by-zero () :zero))", ":zero"),
        ("(handler-case (exp 1000) (floating-point-overflow () :overflow))", ":overflow"),
    ],
)  # fmt: skip
def test_handlers_see_the_standard_conditions(form: str, value: str) -> None:
    assert shown(form) == value


def test_a_misspelt_type_is_corrected() -> None:
    assert fault("(typep 1 'integr)").help == "did you mean integer?"
