"""require and provide: scopes, aliases, exports, and the errors of modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostic, Diagnostics
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.standard import standard_session


def evaluated(folder: Path, main: str, **modules: str) -> tuple[list[str], list[Diagnostic]]:
    """The printed results of main.sx beside the given modules, and what was reported."""
    for name, text in modules.items():
        (folder / f"{name}.sx").write_text(text, "utf-8")
    (folder / "main.sx").write_text(main, "utf-8")
    diagnostics = Diagnostics()
    results = run_deep(lambda: standard_session(diagnostics).evaluate_file(folder / "main.sx"))
    return [result.line for result in results], list(diagnostics)


A = "(def size 3)\n(defun grow (n) (* n size))\n(defmacro twice (x) `(list ,x ,x))\n(defun own () (grow 2))"


def test_names_of_a_module(tmp_path: Path) -> None:
    lines, found = evaluated(tmp_path, '(require "./a.sx")\n(list size (grow 2) (twice 1))', a=A)
    assert (lines, found) == (["nil", "(3 6 (1 1))"], [])


def test_alias_and_import(tmp_path: Path) -> None:
    text = "(require \"./a.sx\" :as m :import (size))\n(list size m:size (m:grow 2) (m:twice 1) (mapcar #'m:grow '(1)))"
    lines, found = evaluated(tmp_path, text, a=A)
    assert (lines[1:], found) == (["(3 3 6 (1 1) (3))"], [])


def test_a_module_keeps_its_own_meaning_of_a_name(tmp_path: Path) -> None:
    lines, _ = evaluated(
        tmp_path, '(require "./a.sx" :import (own))\n(defun grow (n) (list n))\n(list (own) (grow 2))', a=A
    )
    assert lines[-1] == "(6 (2))"


def test_a_definition_over_an_import_leaves_the_module_as_it_was(tmp_path: Path) -> None:
    text = '(require "./a.sx")\n(defun grow (n) (list n))\n(def size 5)\n(list (own) (grow 2) size)'
    lines, found = evaluated(tmp_path, text, a=A)
    assert lines[-1] == "(6 (2) 5)"
    assert [(d.code, d.message) for d in found] == [
        ("W-NAME-001", "`grow` shadows that of ./a.sx"),
        ("W-NAME-001", "`size` shadows that of ./a.sx"),
    ]
    lines, _ = evaluated(tmp_path, '(require "./b.sx")\n(list (grow 2) size)', a=A, b=text)  # what it exports
    assert lines[-1] == "((2) 5)"


def test_only_what_is_provided_is_exported(tmp_path: Path) -> None:
    module = "(provide f)\n(defun g () 1)\n(defun f () (g))"
    lines, found = evaluated(tmp_path, '(require "./a.sx")\n(f)\n(g)', a=module)
    assert lines == ["nil", "1"]
    assert [(d.code, str(d.span)) for d in found] == [("E-NAME-002", f"{tmp_path / 'main.sx'}:3:2")]


def test_a_module_is_evaluated_once_and_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "b.sx").write_text('(require "./c.sx")\n(defun b () (counted))', "utf-8")
    (tmp_path / "lib" / "c.sx").write_text("(def state (list 0))\n(defun counted () (incf (car state)))", "utf-8")
    main = '(require "./lib/b.sx")\n(require "./lib/c.sx")\n(list (b) (counted) (b))'
    lines, found = evaluated(tmp_path, main)
    assert (lines[-1], found) == ("(1 2 3)", [])


@pytest.mark.parametrize(("form", "code", "help"), [
    ("(j:f 1)", "E-READ-009", "did you mean `k:f`?"),
    ("(k::f 1)", "E-READ-009", "write k:f"),
    ("(list k:v)", "E-NAME-001", "the module required as `k` provides no variable `v`"),
    ("(list k:f)", "E-NAME-001", "the module required as `k` provides a function `f`, no such variable"),
])  # fmt: skip
def test_names_that_no_module_gives(tmp_path: Path, form: str, code: str, help: str) -> None:
    text = f'(require "./b.sx" :as k)\n(k:f 1)\n{form}'
    _, found = evaluated(tmp_path, text, b="(defun f (x) x)")
    assert [(d.code, d.help) for d in found] == [(code, help)]


def test_missing_modules(tmp_path: Path) -> None:
    text = '(require "./bb.sx")\n(require "bb")\n(require "sexpgpu/nnn")'
    _, found = evaluated(tmp_path, text, b="(def x 1)")
    assert [d.code for d in found] == ["E-MOD-001"] * 3
    assert found[0].help == 'did you mean "./b.sx"?'
    assert found[2].help == 'did you mean "sexpgpu/nn"?'


def test_cycles_show_both_places(tmp_path: Path) -> None:
    _, found = evaluated(tmp_path, '(require "./a.sx")', a='(require "./b.sx")', b='(require "./a.sx")')
    assert [d.code for d in found] == ["E-MOD-002"]
    assert str(found[0].span) == f"{tmp_path / 'b.sx'}:1:10"
    assert [str(note.span) for note in found[0].notes] == [
        f"{tmp_path / 'main.sx'}:1:10",
        f"{tmp_path / 'a.sx'}:1:10",
    ]


def test_clashing_names_show_both_places(tmp_path: Path) -> None:
    _, (found,) = evaluated(tmp_path, '(require "./a.sx")\n(require "./b.sx")', a="(def x 1)", b="(def x 2)")
    assert (found.code, str(found.span)) == ("E-MOD-003", f"{tmp_path / 'main.sx'}:2:10")
    assert str(found.notes[0].span) == f"{tmp_path / 'main.sx'}:1:10"


def test_a_name_that_is_not_exported(tmp_path: Path) -> None:
    _, (found,) = evaluated(tmp_path, '(require "./a.sx" :import (gorw))', a=A)
    assert (found.code, found.help) == ("E-MOD-004", "did you mean `grow`?")


def test_errors_of_a_module_are_reported_there_and_once(tmp_path: Path) -> None:
    main = '(require "./a.sx")\n(list broken)\n(list fine)'
    lines, found = evaluated(tmp_path, main, a="(def broken (car 5))\n(def fine 1)")
    assert [str(d.span) for d in found] == [f"{tmp_path / 'a.sx'}:1:18"]
    assert lines == ["nil", "(1)"]


def test_an_own_definition_shadows_the_librarys_in_its_file_only(tmp_path: Path) -> None:
    main = '(require "./a.sx" :import (use-first))\n(defun first (x) (list \'mine x))\n(list (first 1) (use-first))'
    lines, found = evaluated(tmp_path, main, a="(defun use-first () (first '(7)))")
    assert lines[-1] == "((mine 1) 7)"
    assert [d.code for d in found] == ["W-NAME-001"]


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "main.sx").write_bytes(b"(def x\n\xff\xfe\x00)")
    diagnostics = Diagnostics()
    standard_session(diagnostics).evaluate_file(tmp_path / "main.sx")
    assert [d.code for d in diagnostics] == ["E-IO-103"]


PARTS = """(defstruct st (x 1))
(def box (list 1))
(defun (setf top) (new) (setf (car box) new))
(defun top () (car box))
(defun (setf only-written) (new) (setf (car box) new))
(deftype small () '(integer 0 9))
(define-condition odd-part (error) ())
"""


@pytest.mark.parametrize("text", [
    '(require "./a.sx")\n(let ((s (make-st))) (setf (st-x s) 4 (top) 5) (incf (st-x s)) (list (st-x s) (top)))',
    '(require "./a.sx" :as m)\n(let ((s (m:make-st))) (setf (m:st-x s) 4 (m:top) 5) (incf (m:st-x s))'
    " (list (m:st-x s) (m:top)))",
    '(require "./a.sx" :import (make-st st-x top only-written))\n'
    "(let ((s (make-st))) (setf (st-x s) 5 (only-written) 5) (list (st-x s) (top)))",
])  # fmt: skip
def test_writers_come_with_their_readers(tmp_path: Path, text: str) -> None:
    lines, found = evaluated(tmp_path, text, a=PARTS)
    assert (lines[-1], found) == ("(5 5)", [])


def test_a_writer_comes_with_a_provided_reader(tmp_path: Path) -> None:
    module = "(provide st-x make-st)\n(defstruct st (x 1))"
    lines, found = evaluated(tmp_path, '(require "./a.sx")\n(setf (st-x (make-st)) 4)', a=module)
    assert (lines[-1], found) == ("4", [])


def test_a_writer_of_ones_own_leaves_the_modules_as_it_was(tmp_path: Path) -> None:
    text = '(require "./a.sx")\n(defun (setf top) (new) (list \'mine new))\n(list (setf (top) 5) (top))'
    lines, _ = evaluated(tmp_path, text, a=PARTS)
    assert lines[-1] == "((mine 5) 1)"


def test_types_come_under_an_alias(tmp_path: Path) -> None:
    text = (
        '(require "./a.sx" :as m)\n(defstruct (wide (:include m:st)) y)\n'
        "(list (typep (m:make-st) 'm:st) (typep 3 'm:st) (typep 3 'm:small) (typep (make-wide) 'm:st)"
        " (typecase (m:make-st) (m:st 'yes)) (handler-case (error 'm:odd-part) (m:odd-part () 'caught)))"
    )
    lines, found = evaluated(tmp_path, text, a=PARTS)
    assert (lines[-1], found) == ("(t nil t t yes caught)", [])
    lines, found = evaluated(tmp_path, '(require "./a.sx" :import (st))\n(typep 3 \'st)', a=PARTS)
    assert (lines[-1], found) == ("nil", [])


def test_symbol_macros_and_setf_methods_come_too(tmp_path: Path) -> None:
    module = "(def box (list 1))\n(define-symbol-macro five 5)\n(defsetf top (x) (new) `(list ,x ,new))"
    lines, found = evaluated(tmp_path, '(require "./a.sx" :as m)\n(list m:five (setf (m:top 1) 2))', a=module)
    assert (lines[-1], found) == ("(5 (1 2))", [])


def test_what_is_provided_must_be_defined(tmp_path: Path) -> None:
    module = "(provide st st-x grwo)\n(defstruct st (x 1))\n(defun grow () 1)"
    _, found = evaluated(tmp_path, '(require "./a.sx")', a=module)
    assert [(d.code, str(d.span), d.help) for d in found] == [
        ("E-MOD-005", f"{tmp_path / 'a.sx'}:1:18", "did you mean `grow`?")
    ]


def test_a_module_that_is_no_text_is_told_at_its_byte_and_its_require(tmp_path: Path) -> None:
    (tmp_path / "a.sx").write_bytes("(def ä 1)\r\n (def é ".encode() + b"\xff)")
    _, found = evaluated(tmp_path, '(def y 1)\n(require "./a.sx")')
    ((code, span, actual, notes),) = [(d.code, str(d.span), d.actual, d.notes) for d in found]
    assert (code, span) == ("E-IO-103", f"{tmp_path / 'a.sx'}:2:9")
    assert actual == "byte 21, 0xff, is no UTF-8"
    assert [(note.text, str(note.span)) for note in notes] == [("it is required here", f"{tmp_path / 'main.sx'}:2:10")]


def test_a_path_without_its_ending(tmp_path: Path) -> None:
    _, found = evaluated(tmp_path, '(require "./a")', a=A)
    assert [(d.code, d.help) for d in found] == [("E-MOD-001", 'did you mean "./a.sx"?')]
