"""The printer: what it prints reads back equal, and messages quote any value in a line."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.diag import SxError
from sexpgpu.lang.atoms import print_float
from sexpgpu.lang.forms import NIL, Array, Cons, HashTable, Symbol, character, keyword, lisp_list, symbol
from sexpgpu.lang.library.equality import equal, equalp
from sexpgpu.lang.printer import brief, in_style, print_form, print_text
from sexpgpu.lang.style import Style
from tests.lang.evaluation import fault, read_one, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.000123, "1.23e-4"),
        (1234567.0, "1234567.0"),
        (12345678.0, "1.2345678e7"),
        (1e7, "1.0e7"),
        (1e21, "1.0e21"),
        (5e-324, "5.0e-324"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (0.1 + 0.2, "0.30000000000000004"),
    ],
)
def test_floats(value: float, text: str) -> None:
    assert print_float(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(-1, 2), "-1/2"),
        ('a"b\\c', '"a\\"b\\\\c"'),
        (symbol("abc"), "abc"),
        (symbol("Abc"), "|Abc|"),
        (symbol(""), "||"),
        (symbol("1+"), "1+"),
        (symbol("12"), "|12|"),
        (symbol("a b"), "|a b|"),
        (symbol("a|b"), "|a\\|b|"),
        (symbol("..."), "|...|"),
        (keyword("key"), ":key"),
        (keyword("c d"), ":|c d|"),
        (Symbol("g1"), "#:g1"),
        (character("a"), "#\\a"),
        (character(10), "#\\Newline"),
        (lisp_list([1, 2], 3), "(1 2 . 3)"),
        (lisp_list([symbol("quote"), symbol("x")]), "'x"),
        (lisp_list([symbol("function"), symbol("car")]), "#'car"),
        (lisp_list([symbol("quote")]), "(quote)"),
        ([1, [2], "a"], '#(1 #(2) "a")'),
        (Array((2, 1), [1, 2]), "#2A((1) (2))"),
        (Array((3,), [1, 2, 3], fill=2), "#(1 2)"),
        (HashTable("equal"), "#<hash-table equal 0>"),
    ],
)
def test_forms(value: Any, text: str) -> None:
    assert print_form(value) == text


@pytest.mark.parametrize("text", ["`(a ,b ,@c . ,d)", "`(a `(b ,(c ,d)))", "(unquote x)", "'(unquote x)", "`#(,x)"])
def test_backquotes(text: str) -> None:
    assert print_form(read_one(text)) == text


def test_text_has_no_escapes() -> None:
    assert print_text(lisp_list(["a", character("b"), symbol("C")])) == "(a b C)"


@pytest.mark.parametrize(
    ("value", "base", "radix", "text"),
    [(255, 16, True, "#xFF"), (-5, 2, False, "-101"), (10, 10, True, "10."), (Fraction(1, 3), 3, True, "#3r1/10")],
)
def test_other_bases(value: Any, base: int, radix: bool, text: str) -> None:
    assert in_style(value, True, Style(base=base, radix=radix)) == text


def test_a_long_list_needs_no_stack() -> None:
    assert len(print_form(lisp_list([1] * 300_000))) == 600_001


def test_a_circular_list_is_refused() -> None:
    ring = Cons(1, NIL)
    ring.cdr = ring
    with pytest.raises(SxError, match="E-LIMIT-004"):
        print_form(ring)
    assert brief(ring) == "(" + "1 " * 29 + "…"


def test_messages_quote_a_line() -> None:
    assert brief("x" * 100) == '"' + "x" * 58 + "…"
    assert brief(lisp_list([1, 2])) == "(1 2)"


names = st.text(min_size=0, max_size=8).filter(lambda name: "\x00" not in name)
atoms = (
    st.integers()
    | st.fractions().map(lambda value: value.numerator if value.denominator == 1 else value)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text().filter(lambda text: "\x00" not in text)
    | names.map(symbol)
    | names.filter(bool).map(keyword)
    | st.integers(1, 0xD7FF).map(character)
)
forms = st.recursive(
    atoms,
    lambda parts: (
        st.lists(parts, max_size=4).map(lisp_list)
        | st.tuples(st.lists(parts, min_size=1, max_size=3), atoms).map(lambda pair: lisp_list(*pair))
        | st.lists(parts, max_size=3)
    ),
    max_leaves=12,
)


@given(forms)
def test_what_is_printed_reads_back(value: Any) -> None:
    again = read_one(print_form(value))
    assert equal(again, value) or (equalp(again, value) and print_form(again) == print_form(value))


@pytest.mark.parametrize("form", [
    "(make-array '(2 2) :initial-contents '((1 \"a\") (#\\b c)))", "(make-array '() :initial-element 5)",
    "(make-array '(1 2 1) :initial-element 'x)", "(make-pt :x '(1 (2)) :y (vector (make-pt)))",
    "(list (make-pt) (make-array '(1 1) :initial-element (make-pt)))",
])  # fmt: skip
def test_arrays_and_structures_read_back(form: str) -> None:
    define = "(defstruct pt (x 0) (y (+ 1 1)))\n"
    text = f"(let* ((was {form}) (now (read-from-string (prin1-to-string was)))) (equalp was now))"
    assert shown(define + text) == "t"
    printed = shown(define + form)
    assert shown(f"{define}'{printed}") == printed


@pytest.mark.parametrize(("literal", "code"), [
    ("#S(nope :x 1)", "E-TYPE-004"), ("#S(pt :z 1)", "E-MACRO-001"), ("#S(pt :x)", "E-MACRO-001"),
    ("#S 5", "E-TYPE-001"), ("#2A((1 2) (3))", "E-VALUE-003"), ("#2A 5", "E-TYPE-001"), ("#A(1)", "E-READ-006"),
])  # fmt: skip
def test_literals_that_spell_nothing(literal: str, code: str) -> None:
    assert fault(f"(defstruct pt x)\n{literal}").code == code
