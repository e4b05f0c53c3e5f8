"""The session from outside: results, names, calls, places of running code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sexpgpu.diag import Diagnostics, Span, SxError
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL, Symbol
from sexpgpu.lang.session import Session, current_span
from sexpgpu.lang.standard import standard_session


def session_of(text: str) -> Session:
    session = standard_session(Diagnostics())
    session.evaluate_text(text, "test.sx")
    return session


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("(+ 1 2)", "3"),
        ("(values 1 2)", "#<values 1 2>"),
        ("(values)", "#<values>"),
        ("(def width 3)", "width = 3"),
        ("(defvar *depth* 4)", "*depth* = 4"),
        ("(defun f (x) x)", "f = #<function f>"),
        ("(defmacro m (x) x)", "m"),
        ("(defknobs (a 1))", "defknobs"),
        ('"text"', '"text"'),
    ],
)
def test_the_line_that_eval_prints(form: str, line: str) -> None:
    (result,) = standard_session(Diagnostics()).evaluate_text(form)
    assert result.line == line


def test_names_from_outside() -> None:
    session = session_of("(def width 3)\n(defun f (x) (* x width))\n(def broken (car 1))\n(nothing)")
    f = session.function("f")
    assert f is not None
    assert session.call(f, 2) == 6
    assert session.variable("width") == 3
    assert (session.function("g"), session.variable("depth")) == (None, None)
    assert str(session.span_of("f")) == "test.sx:2:1"
    assert str(session.span_of("width")) == "test.sx:1:1"
    assert (session.poisoned("broken"), session.poisoned("width")) == (True, False)
    assert (session.failed("nothing"), session.failed("defun")) == (True, False)
    assert session.sources["test.sx"].startswith("(def width 3)")


def test_an_error_in_a_call_from_outside_is_located() -> None:
    session = session_of("(defun f (x)\n  (car x))")
    f = session.function("f")
    assert f is not None
    with pytest.raises(SxError) as raised:
        session.call(f, 5)
    assert str(raised.value.diagnostic.span) == "test.sx:2:8"


def test_a_fault_of_ours_is_not_taken_for_the_users() -> None:
    library = Library("broken")

    @library.builtin("broken", "()")
    def broken() -> Any:
        raise NotImplementedError

    session = standard_session(Diagnostics())
    session.install(library)
    with pytest.raises(NotImplementedError):
        session.evaluate_text("(ignore-errors (broken))")


def test_the_place_of_the_running_form() -> None:
    library = Library("places")
    places: list[Span | None] = []

    @library.builtin("here", "(&rest ignored)")
    def here(*ignored: Any) -> Symbol:
        places.append(current_span())
        return NIL

    session = standard_session(Diagnostics())
    session.install(library)
    session.evaluate_text(
        "(here)\n(defun f ()\n  (list (here 1 2)))\n(f)\n(mapcar #'here '(1))\n(when t (here))", "a.sx"
    )
    assert [str(place) for place in places] == ["a.sx:1:1", "a.sx:3:9", "a.sx:5:1", "a.sx:6:9"]
    assert current_span() is None


def test_functions_of_the_prelude_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "prelude.sx").write_text("(defun helper (x)\n  (car x))", "utf-8")
    diagnostics = Diagnostics()
    session = standard_session(diagnostics)
    session.load_prelude(tmp_path / "prelude.sx")
    session.evaluate_text("(list\n (helper 5))", "test.sx")
    assert [str(d.span) for d in diagnostics] == ["test.sx:2:2"]


def test_builtins_with_keywords() -> None:
    library = Library("keywords")

    @library.builtin("total", "(x &key axis in)")
    def total(x: Any, *, axis: Any = 0, in_: Any = 0) -> Any:
        return [x, axis, in_]

    session = standard_session(Diagnostics())
    session.install(library)
    text = """
        (list (total 1) (total 1 :axis 2 :in 3) (total 1 :axis 4 :axis 5)
              (funcall #'total 1 :in 6) (let ((k :in)) (total 1 k 7)))"""
    (result,) = session.evaluate_text(text)
    assert result.line == "(#(1 0 0) #(1 2 3) #(1 4 0) #(1 0 6) #(1 0 7))"


def test_sessions_do_not_share_definitions() -> None:
    session_of("(defun only-here-q () 1)\n(setf (get 'thing 'size) 3)")
    other = session_of("(def size (get 'thing 'size))")
    assert other.function("only-here-q") is None
    assert other.variable("size") is NIL
