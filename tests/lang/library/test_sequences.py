"""Sequences: lists, vectors and strings alike, with their keyword arguments."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("(reduce #'+ '())", "0"),
        ("(reduce #'- '(1 2 3 4) :from-end t :initial-value 10)", "8"),
        ("(reduce #'list #(1 2 3) :start 1 :key #'1+)", "(3 4)"),
        ("(find 3 '((1) (3)) :key #'car)", "(3)"),
        ("(find-if-not #'evenp #(2 3 5) :from-end t)", "5"),
        ('(position #\\n "banana" :start 3)', "4"),
        ("(position 2 '(1 2 3 2) :from-end t)", "3"),
        ("(count 1 '(1 2 1) :end 2)", "1"),
        ("(count-if-not #'evenp #(1 2 3))", "2"),
        ("(remove 1 '(1 2 1 3) :count 1)", "(2 1 3)"),
        ("(remove 1 #(1 2 1 3) :count 1 :from-end t)", "#(1 2 3)"),
        ('(remove-if #\'upper-case-p "aBc")', '"ac"'),
        ("(remove 2 '(1 2 3) :test #'<)", "(1 2)"),
        ("(remove-duplicates '(1 2 1 3))", "(2 1 3)"),
        ("(remove-duplicates '((a 1) (b 1)) :key #'second :from-end t)", "((a 1))"),
        ("(remove-duplicates '(1 2.0 2) :test #'=)", "(1 2)"),
        ("(substitute 9 1 '(1 2 1) :count 1)", "(9 2 1)"),
        ('(substitute-if #\\x #\'digit-char-p "a1b2")', '"axbx"'),
        ("(search '(2 3) #(1 2 3))", "1"),
        ('(search "an" "banana" :from-end t)', "3"),
        ("(mismatch '(1 2 3) '(1 2 4))", "2"),
        ('(mismatch "ab" "xab" :from-end t)', "0"),
        ("(sort (list 3 1 2) #'<)", "(1 2 3)"),
        ("(sort (list '(b 2) '(a 2) '(c 1)) #'< :key #'second)", "((c 1) (b 2) (a 2))"),
        ("(let ((v (vector 3 1 2))) (sort v #'>) v)", "#(3 2 1)"),
        ("(stable-sort (vector 1.5 1/2 1) #'<)", "#(1/2 1 1.5)"),
        ("(merge 'list (list 1 4) (list 2 3) #'<)", "(1 2 3 4)"),
        ("(merge 'vector #(1) #(1.0) #'<)", "#(1 1.0)"),
        ("(concatenate 'string \"a\" '(#\\b) #(#\\c))", '"abc"'),
        ("(concatenate 'list #(1) '(2))", "(1 2)"),
        ("(map 'vector #'* '(1 2) #(3 4))", "#(3 8)"),
        ("(map-into (make-array 3 :initial-element 0) #'1+ '(1 2))", "#(2 3 0)"),
        ('(coerce "ab" \'list)', "(#\\a #\\b)"),
        ("(every #'< '(1 2) '(2 3))", "t"),
        ('(some #\'digit-char-p "ab7")', "7"),
        ("(notany #'oddp nil)", "t"),
        ("(fill (list 1 2 3) 0 :start 1)", "(1 0 0)"),
        ("(replace (vector 1 2 3) '(8 9) :start1 1)", "#(1 8 9)"),
        ("(make-sequence 'list 2 :initial-element 'x)", "(x x)"),
        ("(let ((v (vector 1 2 3))) (setf (subseq v 1) '(8 9)) v)", "#(1 8 9)"),
        ('(reverse "abc")', '"cba"'),
        ("(subseq #(1 2 3) 1 2)", "#(2)"),
        ("(find 'b '(a b c) :test 'eq)", "b"),
        ("(position-if #'zerop #(1 0))", "1"),
        ("(find 1 '(2 1 3) :test (lambda (a b) (values (= a b) :more)))", "1"),
    ],
)
def test_values(form: str, value: str) -> None:
    assert shown(form) == value


@pytest.mark.parametrize(
    ("form", "code", "words"),
    [
        ("(length 5)", "E-TYPE-001", "length needs a list, a vector or a string, got 5"),
        ("(elt #(1 2) 5)", "E-VALUE-003", "elt: index 5 is outside a sequence of 2 (0 to 1)"),
        ('(subseq "abc" 2 1)', "E-VALUE-003", "subseq: 2 to 1 is no part of a sequence of 3 elements"),
        ("(sort (list 1 'a) #'<)", "E-TYPE-001", "<: argument"),
        ("(sort (list 2 1))", "E-ARG-001", "sort"),
        ('(setf (elt "abc" 0) #\\x)', "E-TYPE-003", "strings cannot be changed"),
        ("(concatenate 'string \"a\" '(1))", "E-TYPE-001", "a string holds characters, not the integer 1"),
        ("(concatenate 'foo '(1))", "E-TYPE-004", "foo is no sequence type"),
        ("(find 1 '(1) :tset #'eql)", "E-ARG-002", ":test"),
    ],
)
def test_faults_say_what_is_wrong(form: str, code: str, words: str) -> None:
    found = fault(form)
    assert found.code == code, found.message
    assert words in found.message + (found.help or "")
