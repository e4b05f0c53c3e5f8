"""The extended `loop`: clauses, their order, fresh variables, and what a mistake in it says."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import fault, shown


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("(loop for i from 0 below 5 finally (return i))", "5"),
        ("(loop for i from 10 above 4 by 3 collect i)", "(10 7)"),
        ("(loop for i from 5 to 1 collect i)", "nil"),
        ("(loop for i downfrom 3 to 1 collect i)", "(3 2 1)"),
        ("(loop for i by 2 to 4 collect i)", "(0 2 4)"),
        ("(loop for i from 0 below 10 collect i do (incf i))", "(0 2 4 6 8)"),
        ("(loop for x in '(1 2 3) for y = (* x x) collect y)", "(1 4 9)"),
        ("(loop for x = 1 then (* x 2) for y in '(a b c) collect (cons x y))", "((1 . a) (2 . b) (4 . c))"),
        ("(loop for y in '(a b c) for x = 1 then (* x 2) collect (cons x y))", "((1 . a) (2 . b) (4 . c))"),
        ("(loop for y = (list 1) for x from 0 below 2 collect (cons x y))", "((0 1) (1 1))"),
        ("(loop for a = 1 then b and b = 1 then (+ a b) repeat 6 collect a)", "(1 1 2 3 5 8)"),
        ("(loop for x in '(1 2 3) and prev = nil then x collect (list prev x))", "((nil 1) (1 2) (2 3))"),
        ("(let ((i 7)) (loop for i from 0 below 2 and j from i collect (list i j)))", "((0 7) (1 8))"),
        ("(loop for (a (b) . c) in '((1 (2) 3) (4 (5))) collect (list a b c))", "((1 2 (3)) (4 5 nil))"),
        ("(loop for x on '(1 2 3) by #'cddr collect x)", "((1 2 3) (3))"),
        ("(loop for x on '(1 . 2) collect x)", "((1 . 2))"),
        ('(loop for c across "ab" for i from 0 collect (cons i c))', "((0 . #\\a) (1 . #\\b))"),
        ("(let ((h (make-hash-table))) (setf (gethash 'a h) 1 (gethash 'b h) 2)"
         " (loop for k being the hash-keys of h using (hash-value v) collect (list k v)))", "((a 1) (b 2))"),
        ("(let ((h (make-hash-table))) (setf (gethash 'a h) 1) (loop for v being each hash-value in h sum v))", "1"),
        ("(loop with (a b) = '(1 2) and c = 3 return (list a b c))", "(1 2 3)"),
        ("(loop for x in '(1 2 3 4) if (evenp x) collect x into e and sum x into s else collect x into o end"
         " finally (return (list e s o)))", "((2 4) 6 (1 3))"),
        ("(loop for x in '(nil 3) when x collect it)", "(3)"),
        ("(loop for x in '(1 2 3) thereis (and (> x 1) x))", "2"),
        ("(loop for x in '(1 2 3) never (> x 3))", "t"),
        ("(loop for x in '(1 3) always (oddp x) finally (return :all))", ":all"),
        ("(loop for x in '((1) (2 3)) append x)", "(1 2 3)"),
        ("(loop for x in '((1) (2 . 3)) append x)", "(1 2 . 3)"),
        ("(let ((l (list 3))) (eq l (cddr (loop for x in (list '(1 2) l) append x))))", "nil"),
        ("(loop for x in '(3 1 2) maximize x into m minimize x into n finally (return (list m n)))", "(3 1)"),
        ("(loop for x in '() maximize x)", "nil"),
        ("(loop for x in '(1 2.5) maximize x)", "2.5"),
        ("(loop named outer for i from 0 do (loop for j below 3 when (= (* i j) 4) do (return-from outer (list i j))))",
         "(2 2)"),
        ("(loop for i from 0 do (when (= i 3) (loop-finish)) collect i)", "(0 1 2)"),
        ("(let ((n 0)) (loop (when (= n 3) (return n)) (incf n)))", "3"),
        ("(let ((n 0)) (loop while (< n 3) do (incf n)) n)", "3"),
        ("(loop repeat 2 collect :x)", "(:x :x)"),
        ("(loop :for x :in '(1) :collect x)", "(1)"),
        ("(loop for x fixnum in '(1) for y of-type float = 2.0 collect (+ x y))", "(3.0)"),
        ("(loop initially (return :early) for x in '(1) collect x)", ":early"),
        ("(mapcar #'funcall (loop for i from 1 to 3 collect (lambda () i)))", "(1 2 3)"),
        ("(mapcar #'funcall (loop for (x) in '((1) (2)) for y = (* 10 x) collect (lambda () (+ x y))))", "(11 22)"),
        ("(loop for x = 0 then (1+ x) until (> x 4) collect (funcall (lambda () (incf x))))", "(1 3 5)"),
        ("(defmacro later (form) `(lambda () ,form)) (mapcar #'funcall (loop for i below 3 collect (later i)))",
         "(0 1 2)"),
        ("(let ((out nil)) (loop for i below 3 do (push (lambda () i) out) until (= i 1)) (mapcar #'funcall out))",
         "(1 0)"),
        ("(loop for x in '(1 2) sum x of-type float)", "3.0"),
        ("(loop for x in nil sum x of-type double-float)", "0.0"),
        ("(loop with (a b c) of-type (fixnum float t) return (list a b c))", "(0 0.0 nil)"),
        ("(loop for x in '(3 1 2) maximize x minimize (- x))", "-2"),
        ("(let ((it :outer)) (loop for x in '(1 nil) when x collect it and collect it))", "(1 :outer)"),
        ("(let ((h (make-hash-table :test 'equal))) (setf (gethash '(1 . 2) h) 3)"
         " (loop for v being the hash-values of h using (hash-key (a . b)) collect (list a b v)))", "((1 2 3))"),
        ("(length (loop for i below 100000 collect i))", "100000"),
    ],
)  # fmt: skip
def test_values(form: str, value: str) -> None:
    assert shown(form) == value


@pytest.mark.parametrize(
    ("form", "code", "words"),
    [
        ("(loop for x inn '(1) collect x)", "E-MACRO-010", "after `for x` comes"),
        ("(loop for x in '(1) colect x)", "E-MACRO-010", "a clause cannot begin with colect"),
        ("(loop for x in '(1) (list x))", "E-MACRO-010", "a clause cannot begin with (list x)"),
        ("(loop for 5 in '(1) do (list 1))", "E-MACRO-010", "`for` needs a variable, got 5"),
        ("(loop for x in)", "E-MACRO-010", "`in` has no form after it"),
        ("(loop for x in '(1) do)", "E-MACRO-010", "`do` needs a form in parentheses"),
        ("(loop for x in '(1) collect x sum x)", "E-MACRO-010", "cannot be mixed"),
        ("(loop for x in '(1) for x in '(2) collect x)", "E-MACRO-010", "`x` is bound by two clauses"),
        ("(loop with y = 1 for x in '(1) collect x into y)", "E-MACRO-010", "`y` is bound by two clauses"),
        ("(loop for x in '(1) collect x always x)", "E-MACRO-010", "cannot both give the result"),
        ("(loop for x in '(1) thereis x count x)", "E-MACRO-010", "cannot both give the result"),
        ("(loop for i downto 3 do (print i))", "E-MACRO-010", "counting down needs a start"),
        ("(loop for x in 5 collect x)", "E-TYPE-001", "loop: `in` needs a list, got 5"),
        ("(loop for x across '(1 2) collect x)", "E-TYPE-001", "`across` needs a vector or a string, got (1 2)"),
        ("(loop for x in '(1 a) sum x)", "E-TYPE-001", "loop: `sum` needs a number, got a"),
        ("(loop for x in '(1 nil) sum x into s)", "E-TYPE-001", "loop: `sum` needs a number, got nil"),
        ("(loop for x in '(1 a) maximize x)", "E-TYPE-001", "loop: `maximize` needs a number, got a"),
        ("(loop for x in '(a) minimize x)", "E-TYPE-001", "loop: `minimize` needs a number, got a"),
    ],
)
def test_faults_say_what_is_wrong(form: str, code: str, words: str) -> None:
    found = fault(form)
    assert (found.code, words in found.message) == (code, True), found.message


def test_a_misspelt_clause_is_corrected() -> None:
    assert fault("(loop for x in '(1) colect x)").help == "did you mean `collect`?"


def test_and_outside_a_conditional() -> None:
    found = fault("(loop for i to 3 collect i and collect (* i 10))")
    assert (found.code, found.help and found.help[:30]) == ("E-MACRO-010", "`and` joins the clauses behind")


@pytest.mark.parametrize(
    ("form", "words", "column"),
    [
        ('(loop for i from 1 to "a" collect i)', 'loop: `to` needs a number, got "a"', 23),
        ("(let ((n 'k)) (loop for i below n collect i))", "loop: `below` needs a number, got k", 33),
        ("(loop for i from 1 to 3 by (car '(x)) collect i)", "loop: `by` needs a number, got x", 28),
        ("(loop for (a b) in '((1 2) 3) collect (list a b))", "car needs a list, got 3", 11),
        ("(loop for (a (b c)) in '((1 (2 3)) (1 2)) collect (list a b c))", "car needs a list, got 2", 14),
        ("(loop for x in '(a b) sum x)", "loop: `sum` needs a number, got a", 27),
        ("(loop for x in '(a b) maximize x)", "loop: `maximize` needs a number, got a", 32),
        ("(loop for x in '(1) do)", "loop: `do` needs a form in parentheses", 21),
        ("(loop for x in '(1) do 5)", "loop: `do` needs a form in parentheses, got 5", 24),
        ("(loop for x in '(1) when)", "loop: `when` has no form after it", 21),
        ("(loop for x in '(1) when x)", "loop: a clause is missing at its end", 26),
        ("(loop for x across '(1 2) collect x)", "loop: `across` needs a vector or a string, got (1 2)", 20),
        ("(loop for x across 5 collect x)", "loop: `across` needs a vector or a string, got 5", 20),
    ],
)
def test_the_clause_is_at_fault(form: str, words: str, column: int) -> None:
    found = fault(form)
    assert words in found.message
    assert found.span is not None
    assert found.span.col == column


def test_a_ratio_may_end_a_count() -> None:
    assert shown("(loop for i from 3 downto 1/2 collect i)") == "(3 2 1)"
