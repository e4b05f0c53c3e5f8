"""The reader: what text reads as, where forms stand, and how it goes on after an error."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sexpgpu.diag import Diagnostic
from sexpgpu.lang.forms import Cons, Source, SourceCons, Symbol, character, keyword, symbol
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.reader import read_text
from sexpgpu.lang.readform import ReadForm
from tests.lang.evaluation import read_one


def read(text: str) -> tuple[list[ReadForm], list[Diagnostic]]:
    found: list[Diagnostic] = []
    return read_text(Source("t.sx", text), found.append), found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5.", 5),
        ("-0", 0),
        ("+5", 5),
        (".5", 0.5),
        ("-.25", -0.25),
        ("1.e3", 1000.0),
        ("1d0", 1.0),
        ("1f0", 1.0),
        ("1e-400", 0.0),
        ("2/4", Fraction(1, 2)),
        ("-6/3", -2),
        ("#xFF", 255),
        ("#b-101", -5),
        ("#3r1/2", Fraction(1, 2)),
        ('"a\\"b\\\\c"', 'a"b\\c'),
        ("#\\a", character("a")),
        ("#\\Space", character(" ")),
        ("#\\(", character("(")),
        ("FooBar", symbol("foobar")),
        ("|Foo Bar|", symbol("Foo Bar")),
        ("\\F", symbol("F")),
        (":Key", keyword("key")),
        ("1+", symbol("1+")),
        ("#(1 2)", [1, 2]),
        ("#+sexpgpu 1 #-sexpgpu 2", 1),
        ("#+(or cuda (not sexpgpu)) 2 3", 3),
        ("#| a #| b |# c |# 4 ; five", 4),
    ],
)
def test_reads_as(text: str, value: Any) -> None:
    read_value = read_one(text)
    assert (type(read_value), read_value) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("(a . b)", "(a . b)"),
        ("(a . (b . (c)))", "(a b c)"),
        ("'x", "'x"),
        ("#'car", "#'car"),
        ("`(a ,b ,@c)", "`(a ,b ,@c)"),
        ("(#1=(a) #1#)", "((a) (a))"),
    ],
)
def test_lists_read_as(text: str, printed: str) -> None:
    assert print_form(read_one(text)) == printed


def test_uninterned_symbols_are_fresh() -> None:
    first, second = read_one("(#:a #:a)")
    assert isinstance(first, Symbol)
    assert first is not second


def test_every_cons_knows_its_place() -> None:
    (form,), _ = read("(f\n  (g x)\n  yy)")
    outer = form.datum
    assert isinstance(outer, SourceCons)
    assert str(outer.span) == "t.sx:1:1"
    assert (outer.span.end_line, outer.span.end_col) == (3, 6)
    inner = outer.cdr
    assert isinstance(inner, SourceCons)
    assert (inner.car_span.line, inner.car_span.col, inner.car_span.end_col) == (2, 3, 8)
    last = inner.cdr
    assert isinstance(last, SourceCons)
    assert (last.car_span.line, last.car_span.col, last.car_span.end_col) == (3, 3, 5)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("(+ 1 2))", "E-READ-002", "1:8"),
        ("(a\n (b", "E-READ-001", "2:2"),
        ('(f "abc', "E-READ-003", "1:4"),
        ("#| never", "E-READ-003", "1:1"),
        ("|abc", "E-READ-003", "1:1"),
        ("1/0", "E-READ-004", "1:1"),
        ("1e400", "E-READ-004", "1:1"),
        ("(a :)", "E-READ-004", "1:4"),
        ("::a", "E-READ-004", "1:1"),
        ("(a . )", "E-READ-005", "1:1"),
        ("(. b)", "E-READ-005", "1:2"),
        ("(a . b c)", "E-READ-005", "1:1"),
        ("...", "E-READ-005", "1:1"),
        ("#C(1 2)", "E-READ-006", "1:1"),
        ("#;x", "E-READ-006", "1:1"),
        ("#\\Spcae", "E-READ-007", "1:1"),
        ("(f #\\uD800)", "E-READ-007", "1:4"),
        ("#\\u+dfff", "E-READ-007", "1:1"),
        ("(list ')", "E-READ-008", "1:7"),
        ("'", "E-READ-008", "1:1"),
        ("cl:car", "E-READ-009", "1:1"),
        ("a:b:c", "E-READ-009", "1:1"),
        ("[1]", "E-READ-010", "1:1"),
        ("a\0b", "E-READ-011", "1:2"),
        ('(a "\udcff")', "E-READ-011", "1:5"),
        ("(" * 2001, "E-READ-012", "1:2001"),
        ("(a ,b)", "E-MACRO-005", "1:4"),
    ],
)
def test_faults(text: str, code: str, place: str) -> None:
    _, found = read(text)
    assert (found[0].code, str(found[0].span)) == (code, f"t.sx:{place}")


@pytest.mark.parametrize(("text", "column"), [("(a . b . c)", 8), ("(a . b . c . d)", 8), ("(a . b c . d)", 10)])
def test_a_list_of_several_dots_is_at_fault_once(text: str, column: int) -> None:
    _, found = read(text)
    assert [(d.code, str(d.span)) for d in found] == [("E-READ-005", f"t.sx:1:{column}")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("1_000", "W-READ-002"),
        ("(list wid\u200bth)", "W-READ-003"),
        (":wid\ufeffth", "W-READ-003"),
        ("a\x07", "W-READ-003"),
        ("0x10", "W-READ-002"),
        ("1.2.3", "W-READ-002"),
        ("(a .b)", "W-READ-002"),
        ('"a\\nb"', "W-READ-001"),
    ],
)
def test_suspicious_text_is_a_warning(text: str, code: str) -> None:
    forms, found = read(text)
    assert [(d.code, d.severity) for d in found] == [(code, "warning")]
    assert forms[0].fault is None


def test_names_like_numbers_that_are_common_bring_no_warning() -> None:
    assert read("1+ 1- + - layer-1 3x3-conv")[1] == []


def test_an_unclosed_list_is_given_up_where_a_form_begins_in_column_one() -> None:
    forms, (fault,) = read("(defun f (x)\n  (let ((y 1))\n  (* x 2)\n(defun g () 1)\n(g)")
    assert str(fault.span) == "t.sx:2:3"
    assert "(defun at 4:1" in fault.notes[0].text
    assert [form.fault is None for form in forms] == [False, True, True]


def test_an_extra_parenthesis_says_which_form_was_closed() -> None:
    _, (fault,) = read("(defun f (x)\n  x))\n(f 1)")
    assert fault.notes[0].text == "the form that began at 1:1 ended at 2:4"


def test_reading_goes_on_after_a_bad_token() -> None:
    forms, found = read("(def a 1/0)\n(def b #\\Spcae)\n(def c 3)")
    assert [d.code for d in found] == ["E-READ-004", "E-READ-007"]
    assert [form.fault is None for form in forms] == [False, False, True]


def test_alias_of_a_required_module_is_no_package() -> None:
    forms, found = read('(require "./a.sx" :as m) (m:f 1)')
    assert found == []
    call = forms[1].datum
    assert isinstance(call, Cons)
    assert call.car is symbol("m:f")
