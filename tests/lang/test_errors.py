"""What an error says: its code, its place, a help, the expansions and calls that led to it."""

from __future__ import annotations

import pytest

from sexpgpu.diag import Diagnostic, Diagnostics
from sexpgpu.lang.analyze.outside import OUTSIDE
from sexpgpu.lang.forms import symbol
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.standard import standard_session
from tests.lang.evaluation import fault


def told(text: str) -> list[Diagnostic]:
    """All that evaluating `text` reports, in order."""
    diagnostics = Diagnostics()
    run_deep(lambda: standard_session(diagnostics).evaluate_text(text, "test.sx"))
    return list(diagnostics)


@pytest.mark.parametrize(
    ("text", "code", "place", "help"),
    [
        ("(let ((width 3)) (* 2 widht))", "E-NAME-001", "1:23", "`width` is bound at 1:7"),
        ("(+ 1 car)", "E-NAME-001", "1:6", "`car` is a function: write #'car to pass it, (car ...) to call it"),
        ("(setq fresh 3)", "E-NAME-001", "1:7", "bind it with let, or define it with (def fresh ...)"),
        ("(lenght '(1 2))", "E-NAME-002", "1:2", "did you mean `length`?"),
        ("(def f #'car)\n(f '(1))", "E-NAME-002", "2:2", "`f` is a variable: write (funcall f ...)"),
        ("(def f 5)\n(f 1)", "E-NAME-002", "2:2", "`f` is a variable, and its value is no function"),
        ("(funcall nil)", "E-NAME-002", "1:1", "`nil` is a constant, and its value is no function"),
        ("(nil)", "E-NAME-002", "1:2", "`nil` is a constant, and its value is no function"),
        ("(let ((y x) (x 1)) (list x y))", "E-NAME-001", "1:10", "bind it with let, or define it with (def x ...)"),
        ("(setf (foo 1) 2)", "E-MACRO-003", "1:8", None),
        ("(setf (caddar1 '(1)) 2)", "E-MACRO-003", "1:8", "did you mean `caddar`?"),
        ("(let ((f #'car)) (f '(1 2)))", "E-NAME-003", "1:19", "write (funcall f ...)"),
        ("(setq nil 3)", "E-NAME-004", "1:7", None),
        ("(defun if (x) x)", "E-NAME-004", "1:8", None),
        ("(car 1 2)", "E-ARG-001", "1:8", None),
        ("(defun f (a) a)\n(f)", "E-ARG-001", "2:1", None),
        ("(funcall #'car 1 2)", "E-ARG-001", "1:1", None),
        ("(defun f (&key width) width)\n(f :widht 4)", "E-ARG-002", "2:4", "did you mean :width?"),
        ("(sort '(1) #'< :kye #'car)", "E-ARG-002", "1:16", None),
        ("(defun f (&key width) width)\n(f :width)", "E-ARG-003", "2:4", None),
        ("(car 5)", "E-TYPE-001", "1:6", None),
        ("(dolist (x 5) x)", "E-TYPE-001", "1:12", None),
        ("(let ((x 5)) `(a ,@x b))", "E-TYPE-001", "1:18", None),
        ("(funcall 5)", "E-TYPE-002", "1:1", None),
        ("((f) 1)", "E-TYPE-002", "1:2", "write (funcall (f) ...)"),
        ("(/ 1 0)", "E-VALUE-001", "1:6", None),
        ("(elt '(1 2) 5)", "E-VALUE-003", "1:13", None),
        ("(ecase 3 (1 'a) (2 'b))", "E-VALUE-004", "1:8", None),
        ('(error "width ~a is odd" 3)', "E-VALUE-005", "1:1", None),
        ("(assert (= 1 2))", "E-VALUE-005", "1:1", None),
        ("(let (x (list 1)) x)", "E-MACRO-001", "1:6", "write (let ((x (list 1))) ...)"),
        ("(let ((x 1 2)) x)", "E-MACRO-001", "1:7", None),
        ("(let ((x 1) (x 2)) x)", "E-MACRO-001", "1:13", "use let*"),
        ("(cond x)", "E-MACRO-001", "1:7", None),
        ("(if 1 2 3 4)", "E-MACRO-001", "1:1", None),
        ("(dotimes i 3)", "E-MACRO-001", "1:10", None),
        ("(lambda (x x) 1)", "E-MACRO-001", "1:12", None),
        ("(lambda (&rest) 1)", "E-MACRO-001", "1:10", None),
        ("(destructuring-bind (a b) '(1 2 3) a)", "E-MACRO-002", "1:21", None),
        ("(defmacro grid (a b) `(list ,a ,b))\n(grid 1)", "E-MACRO-002", "2:1", None),
        ("(return-from nowhere 1)", "E-MACRO-004", "1:14", None),
        ("(go x)", "E-MACRO-004", "1:5", None),
        ("(tagbody (go #(1 2)))", "E-MACRO-004", "1:14", None),
        ("(tagbody start (go strat))", "E-MACRO-004", "1:20", "did you mean `start`?"),
        ('(handler-bind ((error 5)) (error "x"))', "E-TYPE-002", "1:23", None),
        ('(handler-case (error "x") (eror () 1))', "E-TYPE-001", "1:28", "did you mean `error`?"),
        ("(signal 'simple-eror)", "E-TYPE-001", "1:10", "did you mean `simple-error`?"),
        ("(throw 'x 1)", "E-MACRO-004", "1:1", None),
        ("(let (f) (block b (setq f (lambda () (return-from b 1)))) (funcall f))", "E-MACRO-004", "1:38", None),
        ("(list ,x)", "E-MACRO-005", "1:7", None),
        ("(defmacro dolist (x) x)", "E-NAME-004", "1:11", None),
        ("(defstruct layer width)\n(layer-width 5)", "E-TYPE-001", "2:1", None),
        ("(defstruct layer width)\n(setf (layer-width 5) 3)", "E-TYPE-001", "2:1", None),
        ("(list 1 (eval '(car 5)))", "E-TYPE-001", "1:9", None),
        ("(list 1 (eval '(lenght 5)))", "E-NAME-002", "1:9", "did you mean `length`?"),
        ("(list 1 (eval '(let (x 1) x)))", "E-MACRO-001", "1:9", None),
        ("(list 1 (read-from-string \"#.(car 5)\"))", "E-TYPE-001", "1:9", None),
        ("(apply #'max '())", "E-ARG-001", "1:1", None),
        ("(apply #'floor '(1 2 3))", "E-ARG-001", "1:1", None),
        ("(apply #'remove '(1))", "E-ARG-001", "1:1", None),
    ],
)  # fmt: skip
def test_code_place_and_help(text: str, code: str, place: str, help: str | None) -> None:
    found = fault(text)
    assert (found.code, str(found.span)) == (code, f"test.sx:{place}")
    if help is not None:
        assert found.help == help


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("(case 3 ('a 1))", "W-CASE-001", "1:10"),
        ('(case 3 ("a" 1))', "W-CASE-001", "1:10"),
        ("(defun f (x) (declare (ignroe x)) 1)", "W-DECL-001", "1:24"),
        ("(defun first (x) x)", "W-NAME-001", "1:1"),
        ("(defvar width 3)\n(let ((width 4)) width)", "W-NAME-002", "2:7"),
        ("(defun f () 1)\n(defun f () 2)", "W-NAME-003", "2:1"),
        ("(defun f () 1)\n(defmacro f () 2)", "W-NAME-003", "2:1"),
        ("(defmacro f () 1)\n(defun f () 2)", "W-NAME-003", "2:1"),
        ("(def model 1)\n(def model 2)", "W-NAME-003", "2:1"),
        ("(defvar *a* 1)\n(defparameter *a* 2)", "W-NAME-003", "2:1"),
        ("(defstruct part width)\n(defstruct part width depth)", "W-NAME-003", "2:1"),
        ("(defun f () (handler-case (no-such 1) (error () 2)))", "W-NAME-006", "1:28"),
        ("(ignore-errors (no-such 1))", "W-NAME-006", "1:17"),
        ("(defun f () (ignore-errors (funcall #'no-such 1)))", "W-NAME-006", "1:39"),
        ('(warn "careful")', "W-USER-001", "1:1"),
    ],
)
def test_warnings(text: str, code: str, place: str) -> None:
    (found,) = told(text)
    assert (found.code, str(found.span), found.severity) == (code, f"test.sx:{place}", "warning")


def test_the_lambda_list_and_the_definition_are_shown() -> None:
    found = fault("(defun mlp (width depth &optional act) (list width depth act))\n(mlp 3)")
    assert found.message == "`mlp` takes 2 to 3 arguments (width depth &optional act), got 1"
    assert [(note.text, str(note.span)) for note in found.notes] == [("`mlp` is defined here", "test.sx:1:1")]


def test_calls_are_noted_innermost_first() -> None:
    found = fault("(defun a (x) (car x))\n(defun b (x) (a x))\n(b 5)")
    assert str(found.span) == "test.sx:1:19"
    assert [(note.text, str(note.span)) for note in found.notes] == [
        ("in the call of `a`", "test.sx:2:14"),
        ("in the call of `b`", "test.sx:3:1"),
    ]


def test_repeated_calls_are_counted() -> None:
    found = fault("(defun f (n) (if (= n 0) (car n) (+ 1 (f (- n 1)))))\n(f 10)")
    assert [note.text for note in found.notes] == [
        "in the call of `f`",
        "... 9 more calls of `f`",
        "in the call of `f`",
    ]


def test_what_a_macro_wrote_is_shown_at_its_call() -> None:
    found = fault("(defmacro first-of (x) `(car ,x))\n(defun g ()\n  (first-of 5))\n(g)")
    assert str(found.span) == "test.sx:3:3"
    assert [note.text for note in found.trail] == ["in the expansion of (first-of ...)"]


def test_what_the_caller_wrote_inside_a_macro_call_is_shown_itself() -> None:
    found = fault("(defmacro twice (x) `(progn ,x ,x))\n(twice (car 5))")
    assert str(found.span) == "test.sx:2:13"
    assert found.trail == ()


def test_all_errors_of_a_file_are_found_in_one_run() -> None:
    text = "(def a (car 1))\n(def b widht)\n(defun unused (x) (lenght x))\n(def c '(1 . 2 3))\n(def d 4)\n"
    assert [(d.code, d.span.line if d.span else 0) for d in told(text)] == [
        ("E-READ-005", 4),
        ("E-TYPE-001", 1),
        ("E-NAME-001", 2),
        ("E-NAME-002", 3),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "(def x (car 1))\n(+ x 1)\n(defun f () x)\n(f)",
        "(defun f (x (y)) x)\n(f 1)\n(mapcar #'f '(1))",
        "(defmacro m (x) (car 5))\n(m 1)",
        "(def x #\\Spcae)\n(list x)",
        '(def x "never closed)\n(list y)',
        "(defun f () (g))\n(defun g () widht)\n(f)\n(f)",
    ],
)
def test_one_fault_is_reported_once(text: str) -> None:
    assert len(told(text)) == 1


def test_a_name_defined_further_down() -> None:
    found = fault("(defun f (x) (later x))\n(f 1)\n(defun later (x) x)")
    assert found.help == "`later` is defined at 3:1, below"
    found = fault("(defun f () size)\n(f)\n(def size 3)")
    assert (found.code, found.message) == ("E-NAME-001", "variable `size` has no value yet")
    assert found.help == "`size` is defined by the def at 3:1, below"


def test_functions_may_use_what_is_defined_after_them() -> None:
    assert told("(defun f () (g size))\n(defun g (x) x)\n(def size 3)\n(f)") == []


def test_a_handled_error_is_not_reported() -> None:
    assert told('(ignore-errors (car 5))\n(handler-case (error "x") (error () 1))') == []


def test_a_let_that_should_be_in_turn() -> None:
    (found,) = told("(let ((x 1)\n      (y (lambda () x)))\n  y)")
    assert (found.code, str(found.span)) == ("E-NAME-001", "test.sx:2:21")
    assert found.help == "the same let binds `x`: let* does so before this is evaluated"
    assert [(edit.text, str(edit.span)) for edit in found.fix] == [("let*", "test.sx:1:2")]


def test_a_structure_defined_twice_is_named() -> None:
    (found,) = told("(defstruct (part (:copier nil)) width)\n(defstruct part depth)")
    assert found.message == "`part` is defined twice; the first definition is at 1:1"


@pytest.mark.parametrize("text", [
    "(defun f () (handler-case (later) (error () 1)))\n(defun later () 2)\n(f)",
    "(defvar *a*)\n(defparameter *a* 1)",
    "(defvar *a* 1)\n(defvar *a* 2)",
    "(defun f (n) (def last n))\n(f 1)\n(f 2)",
    "(defconstant c 1)\n(defconstant c 1)",
])  # fmt: skip
def test_what_is_not_defined_twice_or_missing(text: str) -> None:
    assert told(text) == []


def test_a_variable_does_not_become_a_constant() -> None:
    found = fault("(defparameter *p* 1)\n(defconstant *p* 2)")
    assert (found.code, str(found.span)) == ("E-NAME-004", "test.sx:2:1")


def test_operands_are_counted() -> None:
    assert fault("(def x)").message == "`def` takes 2 to 3 operands, got 1"
    assert fault("(apply #'max '())").message == "`max` takes at least 1 argument (number &rest more), got 0"


def test_depth_is_told_in_calls_that_are_promised() -> None:
    found = fault("(defun f (n) (dolist (x '(1)) (funcall (lambda () (f x)))))\n(f 1)")
    assert found.message.startswith("calls are nested more than 100,000 deep: ")
    assert "turn" not in found.message
    assert any(note.text.startswith("... more than 100,000 more calls of ") for note in found.notes)


@pytest.mark.parametrize(
    ("text", "place", "help"),
    [
        ("(defclass point () ((x) (y)))", "1:1", "a defstruct holds the data, defuns work on it"),
        ('(defun f () (open "x"))', "1:13", "data comes in by a loader's fields, settings by defknobs"),
        ("(mapcar #'open '(1))", "1:11", "data comes in by a loader's fields, settings by defknobs"),
        ("(trace car)", "1:1", None),
    ],
)
def test_operators_outside_the_subset(text: str, place: str, help: str | None) -> None:
    found = fault(text)
    assert (found.code, str(found.span), found.help) == ("E-NAME-005", f"test.sx:{place}", help)


def test_a_file_may_define_what_the_subset_lacks() -> None:
    assert told("(defmacro defclass (&rest x) `(list ,@x))\n(defclass 1 2)\n(defun sleep (x) x)\n(sleep 1)") == []


def test_what_the_subset_lacks_is_not_there() -> None:
    session = standard_session(Diagnostics())
    assert [name for name in OUTSIDE if session.is_function(symbol(name))] == []


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("(defun g () (f 1 2))\n(defun f (x) x)", ["1:18"]),
        ("(defun f (x) x)\n(defun g () (f 1 2))\n(g)", ["2:18"]),
        ("(defun f (x &optional y) (list x y))\n(defun g () (f) (f 1) (f 1 2) (f 1 2 3))", ["2:13", "2:38"]),
        ("(defun f (&rest x) x)\n(defun g () (f) (f 1))", []),
        ("(defun f (&key x) x)\n(defun g () (f) (f :x 1))", []),
    ],
)
def test_calls_that_nothing_made_are_counted(text: str, places: list[str]) -> None:
    found = told(text)
    assert [(d.code, str(d.span)) for d in found] == [("E-ARG-001", f"test.sx:{place}") for place in places]


def test_calls_of_what_is_redefined_are_not_counted() -> None:
    found = told("(defun f (x) x)\n(defun g () (f 1 2))\n(defun f (x y) (list x y))\n(g)")
    assert [d.code for d in found] == ["W-NAME-003"]


@pytest.mark.parametrize(
    ("form", "code", "words"),
    [
        ("gone", "E-NAME-001", "bind it with let, or define it with (def gone ...)"),
        ("(setf (gone 1) 2)", "E-MACRO-003", "(gone 1) is not a place: there is no function `gone`"),
        ("(let ((x gone 2)) x)", "E-MACRO-001", "write (x gone)"),
        ("(cond (gone 1))", "E-NAME-001", "bind it with let"),
    ],
)
def test_a_call_makes_no_function(form: str, code: str, words: str) -> None:
    diagnostics = Diagnostics()
    standard_session(diagnostics).evaluate_text(f"(gone 1)\n{form}", "test.sx")
    called, found = diagnostics.errors
    assert (called.code, found.code) == ("E-NAME-002", code)
    assert words in f"{found.message} {found.help}"


@pytest.mark.parametrize(
    ("form", "help", "edit"),
    [
        ("(lenght '(1 2))", "did you mean `length`?", "length"),
        ("(lenght '(1 2) 3)", "did you mean `length`?", None),
        ("(defun f () (lenght '(1 2) 3))", "did you mean `length`?", None),
        ("(defun zeros-init (shape key) (list shape key)) (zeros-like 1)", "did you mean `zeros-init`?", None),
        ("(foo 1)", None, None),
        ("(defun dense (n &key bias) (list n bias)) (dens 1 :bias 2)", "did you mean `dense`?", "dense"),
        ("(defun dense (n &key bias) (list n bias)) (dens 1 :scale 2)", "did you mean `dense`?", None),
        ("(defmacro twice (x) `(list ,x ,x)) (twic 1)", "did you mean `twice`?", "twice"),
        ("(defmacro twice (x) `(list ,x ,x)) (twic 1 2)", "did you mean `twice`?", None),
        ("(dolst (x '(1)) x)", "did you mean `dolist`?", "dolist"),
        ("(dolst 5)", "did you mean `dolist`?", None),
        ("(whn 1 2)", "did you mean `when`?", "when"),
        ("(setf (aref* 1) 2)", "did you mean `aref`?", "aref"),
        ("(setf (getff) 2)", "did you mean `getf`?", None),
    ],
)
def test_the_edit_of_a_misspelt_head_is_one_that_takes_the_operands(
    form: str, help: str | None, edit: str | None
) -> None:
    found = fault(form)
    assert (found.help, [made.text for made in found.fix]) == (help, [] if edit is None else [edit])


@pytest.mark.parametrize(
    ("form", "place", "edits"),
    [
        ("(/ 1 0)", "1:6", []),
        ("(floor 1.0 0.0)", "1:12", []),
        ("(expt 0 -1)", "1:7", []),
        ("(log 0)", "1:6", []),
        ("(log 5 1)", "1:8", []),
        ("(let ((n 0)) (mod 7 n))", "1:21", ["(max 1 ", ")"]),
        ("(let ((n 0)) (expt n -1))", "1:20", []),
    ],
)
def test_a_zero_that_is_written_is_not_made_another_number(form: str, place: str, edits: list[str]) -> None:
    found = fault(form)
    assert (found.code, str(found.span)) == ("E-VALUE-001", f"test.sx:{place}")
    assert [made.text for made in found.fix] == edits


def test_what_is_wrong_in_a_string_is_told_of_the_string() -> None:
    found = fault('(list 1)\n(read-from-string "(1\n 2")')
    assert (found.message, str(found.span)) == ("this ( is never closed, at 1:1 of the string", "test.sx:2:1")
    assert found.help == "in the string, write `)` at the end of line 2"


def test_a_function_defined_below_is_one() -> None:
    found = fault("(defun f () (g 1))\n(defun h () (setf (g 1) 2))\n(defun g (x) x)")
    assert (found.code, found.message) == ("E-MACRO-003", "`g` is a function without a setf")
