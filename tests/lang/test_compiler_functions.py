"""Functions, lambda lists, macros, backquote and closures."""

from __future__ import annotations

import pytest

from tests.lang.evaluation import shown


@pytest.mark.parametrize(
    ("form", "value"),
    [
        # What an expander gives beside its first value is dropped.
        ("(defmacro two (form) (values form 9)) (list (two 1) (multiple-value-list (two 2)))", "(1 (2))"),
        ("(defmacro here (form &environment e) (macroexpand form e)) (macrolet ((m (x) x)) (list (here (m 3))))",
         "(3)"),
        # A special declaration holds where it stands: other bindings of the name stay lexical.
        ("(let ((x 0)) (declare (special x)) (let ((x 1)) (list x (locally (declare (special x)) x))))", "(1 0)"),
        ("(set 'y 4) (let ((y 3)) (list y (symbol-value 'y)))", "(3 4)"),
        ("(block nil (dolist (x (return 1))) 2)", "2"),
        ("(destructuring-bind (a () b) '(1 () 2) (list a b))", "(1 2)"),
        ('(defvar *kept* 3 "What it is.") (setf (documentation \'thing \'function) "Said.")'
         " (list (documentation '*kept* 'variable) (documentation 'thing 'function))", '("What it is." "Said.")'),
        ("(defun f (a &optional (b 2 s) &rest r) (list a b s r)) (append (f 1) (f 1 3 4))", "(1 2 nil nil 1 3 t (4))"),
        ("(funcall (lambda (&key ((:foo bar) 3 bar-p)) (list bar bar-p)) :foo 4)", "(4 t)"),
        ("(funcall (lambda (&key a (b (list a))) (list a b)) :a 1)", "(1 (1))"),
        ("(funcall (lambda (&rest r &key a &allow-other-keys) (list r a)) :z 1 :a 2 :a 3)", "((:z 1 :a 2 :a 3) 2)"),
        ("(funcall (lambda (&key a) a) :b 1 :allow-other-keys t)", "nil"),
        ("(let ((x 1)) (funcall (lambda (&optional (y (incf x)) &aux (z (* y 2))) (list x y z))))", "(2 2 4)"),
        ("(let ((k :b)) ((lambda (&key a b) (list a b)) k 4))", "(nil 4)"),
        ("(defun f (x) (g x)) (defun g (x) 1) (list (f 0) (progn (defun g (x) 2) (f 0)))", "(1 2)"),
        ("(labels ((ev (n) (or (= n 0) (od (1- n)))) (od (n) (and (/= n 0) (ev (1- n))))) (ev 100))", "t"),
        ("(flet ((car (x) (list 'mine x))) (car 1))", "(mine 1)"),
        ("(let ((x 1)) (flet ((set-x (v) (setq x v))) (set-x 5)) x)", "5"),
        ("(let ((n 0)) (defun tick-up () (incf n))) (list (tick-up) (tick-up))", "(1 2)"),
        ("(funcall (eval '(lambda (x) (* x 2))) 4)", "8"),
        ("(multiple-value-list (apply #'values '(1 2 3)))", "(1 2 3)"),
        ("(defun f () \"Says hello.\" 1) (documentation 'f 'function)", '"Says hello."'),
        ('(read-from-string "(1 #.(+ 1 2))")', "(1 3) ; 13"),
        ("(documentation 'car 'function)", '"The first of a list; of nil, nil."'),
        ("(list (documentation 'when 'function) (documentation 'nothing 'function))", "(nil nil)"),
        ("(let ((cont (lambda (x) (* x 2)))) (funcall cont 3))", "6"),
        # macros
        ("(defmacro m (&whole w a &optional (b 2) &key c) `(list ',w ,a ,b ,c)) (m 1 3 :c 4)", "((m 1 3 :c 4) 1 3 4)"),
        ("(defmacro m ((a (b c)) . rest) `(list ,a ,b ,c ',rest)) (m (1 (2 3)) 4 5)", "(1 2 3 (4 5))"),
        ("(defmacro m (&environment e) `',(macroexpand-1 '(q) e)) (macrolet ((q () 7)) (m))", "7"),
        ("(macrolet ((twice (x) `(* 2 ,x))) (twice 4))", "8"),
        ("(let ((x 10)) (symbol-macrolet ((y (+ x 1))) (let ((x 20)) (list y x))))", "(21 20)"),
        ("(defmacro while (c &body b) `(do () ((not ,c)) ,@b)) (let ((i 0)) (while (< i 5) (incf i)) i)", "5"),
        ("(defun f () (later)) (defmacro later () ''late) (f)", "late"),
        ("(destructuring-bind (a (b &optional c) &key (d 4)) '(1 (2)) (list a b c d))", "(1 2 nil 4)"),
        ("(destructuring-bind (a . b) '(1 2 3) (list a b))", "(1 (2 3))"),
        # backquote
        ("(let ((x 5) (l '(1 2))) `(a ,x ,@l b ,@l . ,x))", "(a 5 1 2 b 1 2 . 5)"),
        ("`#(1 ,(+ 1 1) ,@(list 3 4))", "#(1 2 3 4)"),
        ("(let ((x 3)) (eval `(let ((y 4)) `(,y ,,x))))", "(4 3)"),
        ("`(1 `(2 ,(3 ,(+ 1 3))))", "(1 `(2 ,(3 4)))"),
    ],
)  # fmt: skip
def test_values(form: str, value: str) -> None:
    assert shown(form) == value


def test_a_function_keeps_its_identity_when_it_is_compiled() -> None:
    text = "(defun f (x) x) (let ((before #'f)) (f 1) (list (eq before #'f) (funcall before 2)))"
    assert shown(text) == "(t 2)"


def test_generic_calls_reach_python_values() -> None:
    from sexpgpu.diag import Diagnostics
    from sexpgpu.lang.foreign import Foreign
    from sexpgpu.lang.standard import standard_session

    class Metre(Foreign):
        def __init__(self, length: int) -> None:
            self.length = length

        def lisp_generic(self, name: str, args: tuple[object, ...], /) -> object:
            return f"{name}/{len(args)}"

        def lisp_call(self, *args: object) -> object:
            return self.length + len(args)

        def lisp_test(self) -> bool:
            return self.length > 0

    session = standard_session(Diagnostics())
    session.define("long", Metre(3))
    session.define("none", Metre(0))
    text = "(list (+ long 1) (< long 2) (funcall long 'a 'b) (if long 1 2) (if none 1 2) (and none 3) (null none))"
    (result,) = session.evaluate_text(text)
    assert result.line == '("+/2" "</2" 5 1 2 nil nil)'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(let ((x '(1 2))) (eval ``(,,@x)))", "(1 2)"),
        ("(let ((x '(1 2))) (eval ``(a ,,@x b)))", "(a 1 2 b)"),
        ("(let ((x '((list 1) (list 2 3)))) (eval ``(a ,@,@x b)))", "(a 1 2 3 b)"),
        ("(let ((x '())) (eval ``(a ,,@x ,@,@x b)))", "(a b)"),
    ],
)
def test_a_splice_in_an_unquote_gives_it_several_operands(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('(list (eql "ab" "ab") (eql "a" "a"))', "(nil nil)"),
        ('(let ((s "a")) (list (eql s s) (eq s "a")))', "(t nil)"),
        ('(let ((s "relu")) (if (eq s s) 1 2))', "1"),
        ('(let ((n 0)) (list (eq (incf n) "a") n))', "(nil 1)"),
        ('(case "relu" ("relu" 1) (t 2))', "2"),
        ('(case 3 (("3" 3) 1) (t 2))', "1"),
    ],
)
def test_a_string_written_in_place_is_an_object_of_its_own(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_the_documentation_of_a_macro() -> None:
    assert shown("(defmacro m (x) \"As it is.\" x)\n(documentation 'm 'function)") == '"As it is."'
    assert "fresh symbol" in shown("(documentation 'with-gensyms 'function)")
