"""Conses, association lists, sets and trees."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("(let ((x (list 1 2 3 4))) (list (nbutlast x 2) x (nbutlast x 9)))", "((1 2) (1 2) nil)"),
        (
            "(sublis '((5 . low) (9 . high)) '(3 (7) 12) :test (lambda (x y) (and (realp x) (< x y))))",
            "(low (high) 12)",
        ),
        ("(adjoin 1 '(2) :allow-other-keys t :other 3)", "(1 2)"),
        ("(adjoin 1 '(2) :allow-other-keys t 'other 3)", "(1 2)"),
        ("(list* 1 2 '(3))", "(1 2 3)"),
        ("(last '(1 2 . 3))", "(2 . 3)"),
        ("(last '(1 2 3) 0)", "nil"),
        ("(butlast '(1 2 3) 5)", "nil"),
        ("(nthcdr 5 '(1))", "nil"),
        ("(append '(1) nil '(2 . 3))", "(1 2 . 3)"),
        ("(nconc (list 1) nil (list 2) 3)", "(1 2 . 3)"),
        ("(revappend '(1 2) '(3))", "(2 1 3)"),
        ("(list-length '(1 2))", "2"),
        ("(let ((x (list 1 2))) (setf (cddr x) x) (list-length x))", "nil"),
        ("(ldiff '(1 2 3) nil)", "(1 2 3)"),
        ("(let* ((x (list 1 2 3)) (y (cdr x))) (list (ldiff x y) (tailp y x)))", "((1) t)"),
        ("(copy-tree '(1 (2 3) . 4))", "(1 (2 3) . 4)"),
        ("(member 2.0 '(1 2 3) :test #'=)", "(2 3)"),
        ("(member 1 '(3 2 1) :test-not #'<)", "(1)"),
        ("(member-if #'oddp '(2 3 4))", "(3 4)"),
        ('(assoc "b" \'(("a" . 1) ("b" . 2)) :test #\'equal)', '("b" . 2)'),
        ("(assoc 'x nil)", "nil"),
        ("(rassoc-if #'evenp '((a . 1) (b . 2)))", "(b . 2)"),
        ("(adjoin '(1) '((1)) :test #'equal)", "((1))"),
        ("(union '(1 2) '(2 3))", "(1 2 3)"),
        ("(intersection '(1 2 3) '(3 1))", "(1 3)"),
        ("(set-difference '((a 1) (b 2)) '((a 9)) :key #'car)", "((b 2))"),
        ("(set-exclusive-or '(1 2) '(2 3))", "(1 3)"),
        ("(subsetp '(1) '(2 1))", "t"),
        ("(subst 'x 1 '(1 (1 . 1)))", "(x (x . x))"),
        ("(sublis '((a . 1)) '(a (b . a)))", "(1 (b . 1))"),
        ("(tree-equal '(1 (2)) '(1.0 (2)) :test #'equalp)", "t"),
        ("(get-properties '(:a 1 :b 2) '(:c :b))", ":b ; 2 ; (:b 2)"),
        ("(getf '(:a 1 :a 2) :a)", "1"),
        ("(pairlis '(a b) '(1 2))", "((b . 2) (a . 1))"),
        ("(mapcar #'+ '(1 2 3) '(10 20))", "(11 22)"),
        ("(maplist #'length '(a b))", "(2 1)"),
        ("(mapcan (lambda (x) (if (oddp x) (list x x))) '(1 2 3))", "(1 1 3 3)"),
        ("(let ((n 0)) (list (mapc (lambda (x) (incf n x)) '(1 2)) n))", "((1 2) 3)"),
        ("(length (append (make-list 200000) nil))", "200000"),
        ("(equal (make-list 200000 :initial-element 1) (make-list 200000 :initial-element 1))", "t"),
        ("(let ((x (list 1 2 3))) (setf (third x) 9 (cadr x) 8) x)", "(1 8 9)"),
    ],
)
def test_values(form: str, value: str) -> None:
    assert shown(form) == value


@pytest.mark.parametrize(
    ("form", "code", "words"),
    [
        ("(car 5)", "E-TYPE-001", "car needs a list, got 5"),
        ("(cadr '(1 . 2))", "E-TYPE-001", "cadr needs a list"),
        ("(mapcar #'1+ '(1 . 2))", "E-TYPE-001", "mapcar needs a proper list; (1 . 2) ends in 2"),
        ("(mapcar #'car '(1 2))", "E-TYPE-001", "car needs a list, got 1"),
        ("(append '(1) 2 '(3))", "E-TYPE-001", "append: argument 2 is the integer 2, not a list"),
        ("(nth -1 '(1))", "E-TYPE-001", "nth: argument 1 is the integer -1, not an integer of at least 0"),
        ("(getf '(:a) :b)", "E-TYPE-001", "is no property list"),
        ("(assoc 1 '(2))", "E-TYPE-001", "is no pair"),
        ("(make-list 1000000000)", "E-LIMIT-003", "make-list"),
        ("(let ((x (list 1))) (setf (cdr x) x) (length x))", "E-LIMIT-003", "length: the list has more than"),
        ("(let ((x (list 1))) (setf (cdr x) x) (mapl #'identity x))", "E-LIMIT-001", "too many steps"),
        ("(let ((l (make-list 100000))) (loop (length l)))", "E-LIMIT-001", "too many steps"),
        ("(let ((x (list 1))) (loop (setq x (append x x))))", "E-LIMIT-001", ""),
        ("(mapcar 5 '(1))", "E-TYPE-002", "5 is not a function"),
    ],
)
def test_faults_say_what_is_wrong(form: str, code: str, words: str) -> None:
    found = fault(form)
    assert (found.code, words in found.message) == (code, True), found.message
