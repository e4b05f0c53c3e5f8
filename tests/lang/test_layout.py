"""The layout changes nothing but blanks, is a fixed point, and is how the repository's own files are written."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sexpgpu.diag import Diagnostics
from sexpgpu.lang.layout import WIDTH, checked_layout
from sexpgpu.lang.layout.tree import lexemes, parse
from sexpgpu.lang.limits import run_deep

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    path
    for folder in ("examples", "sexpgpu", "bench")
    for path in (ROOT / folder).rglob("*.sx")
    if "out" not in path.parts
)
TEXTS = [path.read_text("utf-8") for path in FILES]
CORPUS = ROOT / "tests" / "oracle" / "corpus.jsonl"
FORMS = [json.loads(line)["form"] for line in CORPUS.read_text("utf-8").splitlines()]

SOUP = (
    *"()()()()'`,",
    *("let", "let*", "defun", "flet", "loop", "for", "when", "collect", "and", "else", "do", "case", "cond", "x"),
    *(",@", "#'", "#(", "#.", "#+sbcl", "#-sbcl", "#+(or) ", "#1=", "#1#", "#\\a", "#\\(", "#x1F", "#:g", "|a b|"),
    *("|a\nb|", '"s"', '"s\nt"', ":k", "1.50", ".", "; c\n", ";; d\n", "#| b |#", "#| b\nc |#", "y" * 50),
    *(" ", "   ", "\n", "\n\n\n", "\t", "\r\n", "\f"),
)


def layout(text: str) -> str | None:
    """None where `text` does not read; that the result reads back equal is checked by the function itself."""
    return run_deep(lambda: checked_layout("text", text, Diagnostics()))


def fixed(text: str) -> str | None:
    result = layout(text)
    assert result is None or layout(result) == result
    return result


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_the_repository_is_laid_out(path: Path) -> None:
    text = path.read_text("utf-8")
    assert layout(text) == text


def test_every_oracle_form() -> None:
    assert sum(fixed(form) is not None for form in FORMS) > 850


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.lists(st.sampled_from(SOUP), max_size=30).map("".join))
def test_token_soup(text: str) -> None:
    closed = text + ")" * max(0, text.count("(") - text.count(")"))
    assume(fixed(closed) is not None)


def bare(text: str) -> list[str]:
    """The lexemes of a text without its comments."""
    return [lexeme for lexeme in lexemes(parse(text)) if lexeme[0] != ";"]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TEXTS), st.integers(0, 2**32))
def test_other_blanks_in_the_repositorys_files(text: str, seed: int) -> None:
    blanks = random.Random(seed).choices((" ", "   ", "\n", "\n\n\n   ", " " * 30), (60, 3, 6, 1, 1), k=20_000)
    parts = [part for pair in zip(bare(text), blanks, strict=False) for part in pair]
    assert fixed("".join(parts)) is not None


@pytest.mark.parametrize("text", TEXTS, ids=[p.name for p in FILES])
def test_a_file_on_one_line_is_broken_to_fit(text: str) -> None:
    result = fixed(" ".join(bare(text)))
    assert result is not None
    assert [line for line in result.splitlines() if len(line) > WIDTH and line not in text and '"' not in line] == []


def test_nested_as_deeply_as_the_reader_takes() -> None:
    text = "(" * 1990 + ")" * 1990
    assert fixed(text) == text + "\n"
    assert fixed("'" * 1990 + "a") is not None


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("", ""),
        ("\n\n(a)\n\n\n\n(b)", "(a)\n\n(b)\n"),
        ("(a) (b)", "(a)\n(b)\n"),
        ("( f  x\ny )", "(f x\n   y)\n"),
        ("(f\nx\ny)", "(f\n  x\n  y)\n"),
        ("'(f x\ny)", "'(f x\n  y)\n"),
        ("#(1\n2)", "#(1\n  2)\n"),
        ("((f) x\ny)", "((f) x\n y)\n"),
        ("(defun f\n(x)\n(g x))", "(defun f\n    (x)\n  (g x))\n"),
        ("(let ((a 1)\n(b 2))\n(f a\nb))", "(let ((a 1)\n      (b 2))\n  (f a\n     b))\n"),
        ("(flet ((f (x)\n(g x)))\n(f 1))", "(flet ((f (x)\n         (g x)))\n  (f 1))\n"),
        ("(case x\n(a\n(f))\n(t 2))", "(case x\n  (a\n   (f))\n  (t 2))\n"),
        ("(cond ((a)\n1)\n(t 2))", "(cond ((a)\n       1)\n      (t 2))\n"),
        ("(if a\nb\nc)", "(if a\n    b\n    c)\n"),
        ("(progn (f)\n(g))", "(progn (f)\n       (g))\n"),
        ("(with-it (x)\n(f))", "(with-it (x)\n  (f))\n"),
        ("`(f ,x\n,@y)", "`(f ,x\n    ,@y)\n"),
        (", @x", None),
        ("`(, @x)", "`(, @x)\n"),
        ("(a . b)", "(a . b)\n"),
        ("#+sbcl\n(f)\n#-sbcl (g)", "#+sbcl\n(f)\n#-sbcl (g)\n"),
        ("(loop for i in l\nwhen i\ncollect i)", "(loop for i in l\n      when i\n        collect i)\n"),
        ("(loop for i in l\ndo (f)\n(g)\nfinally (h))",
         "(loop for i in l\n      do (f)\n         (g)\n      finally (h))\n"),
        ("(loop for i in l\nif i\nsum i\nelse\ncount i)",
         "(loop for i in l\n      if i\n        sum i\n      else\n        count i)\n"),
        ("(loop for count in sum\nmaximize count)", "(loop for count in sum\n      maximize count)\n"),
        ("(loop\n(f))", "(loop\n  (f))\n"),
        ("(defmacro m (a &body b)\n`(progn ,a))\n(m 1\n2)", "(defmacro m (a &body b)\n  `(progn ,a))\n(m 1\n  2)\n"),
        ("(f) ; c", "(f)" + " " * 52 + "; c\n"),
        (";;; c  \n(f\n;; d\nx)", ";;; c\n(f\n  ;; d\n  x)\n"),
        ("(f x ; c\n)", "(f x" + " " * 51 + "; c\n   )\n"),
        ("#| c\n d |# (f)", "#| c\n d |#\n(f)\n"),
        ("(p a   1)\n(p bbb 2)", "(p a   1)\n(p bbb 2)\n"),
        ("(p a 1)\n(p bbb 2)", "(p a 1)\n(p bbb 2)\n"),
        ("(p a      1)\n(p bbb    2)", "(p a   1)\n(p bbb 2)\n"),
        ('"a\r\nb"', '"a\nb"\n'),
        ("\ufeff(a)", "(a)\n"),
        ("1.50 #XfF FOO |Foo|", "1.50\n#XfF\nFOO\n|Foo|\n"),
    ],
)  # fmt: skip
def test_what_it_does(given: str, wanted: str | None) -> None:
    assert fixed(given.replace("\r\n", "\n")) == wanted


def test_a_long_definition_gets_a_line_a_form() -> None:
    long = "(defun f (x) " + " ".join(f"(call-number-{i} x :keyword {i})" for i in range(12)) + ")"
    assert (fixed(long) or "").splitlines()[:3] == [
        "(defun f (x)",
        "  (call-number-0 x :keyword 0)",
        "  (call-number-1 x :keyword 1)",
    ]


def test_a_keyword_stays_with_its_value() -> None:
    result = fixed("(f " + " ".join(f":keyword-{i} (value-number {i})" for i in range(12)) + ")")
    assert result is not None
    assert [line for line in result.splitlines() if not line.strip().removeprefix("(f ").startswith(":")] == []


@pytest.mark.parametrize(
    "parts", [("(f ", "x 10 ", ")"), ("(loop for x in y ", "do (f 1) ", ")"), ("'(", "(a  1)\n", ")")]
)
def test_long_lists_take_time_in_proportion(parts: tuple[str, str, str]) -> None:
    """Looking back at every element for each would take minutes here."""
    first, middle, last = parts
    started = time.perf_counter()
    assert layout(first + middle * 10_000 + last) is not None
    assert time.perf_counter() - started < 20
