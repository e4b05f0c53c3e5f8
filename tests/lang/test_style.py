"""The variables that say how values print, and the keywords of `write` that stand for them."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("(let ((*print-base* 16) (*print-radix* t)) (prin1-to-string '(255 1/10)))", '"(#xFF #x1/A)"'),
        ("(let ((*print-base* 2)) (format nil \"~a ~d\" 5 5))", '"101 5"'),
        ("(let ((*print-case* :upcase)) (format nil \"~a ~s ~s\" 'a-b '|Ab| :c))", '"A-B |Ab| :C"'),
        ("(let ((*print-case* :capitalize)) (princ-to-string '(one-two three)))", '"(One-Two Three)"'),
        ("(let ((*print-length* 2)) (prin1-to-string '((1 2 3) #(4 5 6) x)))", '"((1 2 ...) #(4 5 ...) ...)"'),
        ("(let ((*print-length* 0)) (prin1-to-string '(1)))", '"(...)"'),
        ("(let ((*print-level* 1)) (prin1-to-string '(1 (2) #(3) \"s\")))", '"(1 # # \\"s\\")"'),
        ("(let ((*print-circle* t) (x (list 1 2))) (setf (cddr x) x) (prin1-to-string x))", '"#1=(1 2 . #1#)"'),
        ("(let ((*print-circle* t) (x (list 1))) (prin1-to-string (list x x)))", '"(#1=(1) #1#)"'),
        ("(let ((*print-circle* t) (x (list 1 2))) (prin1-to-string (list x (cdr x))))", '"((1 . #1=(2)) #1#)"'),
        ("(let ((*print-gensym* nil)) (prin1-to-string (make-symbol \"v\")))", '"v"'),
        ("(let ((*print-array* nil)) (prin1-to-string (vector 1)))", '"#<array>"'),
        ("(write-to-string '(a b c) :length 1 :case :upcase)", '"(A ...)"'),
        ("(write-to-string \"s\" :escape nil)", '"s"'),
        ("(let ((*print-escape* nil)) (list (write-to-string \"s\") (prin1-to-string \"s\")))", '("s" "\\"s\\"")'),
        ("(let ((*print-base* 2)) (with-standard-io-syntax (prin1-to-string 5)))", '"5"'),
        ("(defstruct point x y) (let ((*print-length* 1)) (prin1-to-string (make-point :x 1)))",
         '"#S(point :x 1 ...)"'),
        ("(defstruct (tag (:print-function (lambda (tag out depth) (format out \"<~a>\" (tag-text tag))))) text)"
         " (format nil \"~a ~s\" (make-tag :text 1) (list (make-tag :text 2)))", '"<1> (<2>)"'),
    ],
)  # fmt: skip
def test_values(form: str, value: str) -> None:
    assert shown(form) == value


def test_what_was_printed_with_labels_reads_back() -> None:
    form = "(let* ((x (list 1 2)) (y (list x x)) (*print-circle* t)) (read-from-string (prin1-to-string y)))"
    assert shown(f"(let ((y {form})) (list y (eq (first y) (second y))))") == "(((1 2) (1 2)) t)"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("(let ((*print-base* 99)) (princ-to-string 1))", "*print-base* is 99"),
        ("(let ((*print-case* 5)) (princ-to-string 'a))", "*print-case* is 5"),
        ("(write-to-string 1 :length -1)", "write-to-string: :length is -1"),
    ],
)
def test_settings_without_a_meaning_are_told(form: str, words: str) -> None:
    found = fault(form)
    assert (found.code, words in found.message) == ("E-VALUE-006", True), found.message
