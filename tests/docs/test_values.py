"""Blocks of values can fail: a page that shows another value, or hides an error, is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of
from tests.docs.values import evaluated, with_values


def corrected(tmp_path: Path, text: str) -> tuple[str, int]:
    """The block as it should be, and how many of its forms show something else."""
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n```lisp values\n{text}```\n", encoding="utf-8")
    ((block, forms),) = evaluated(blocks_of(page), tmp_path)
    return with_values(block, forms), sum(not form.agrees for form in forms)


@pytest.mark.parametrize(
    "text",
    [
        "(+ 1 2)  ; => 3\n",
        "(+ 1 2)\n",
        "; a word first\n(floor 17 5)   ; => 3, 2\n\n(values)\n; => no values\n",
        "(car 5)\n; error[E-TYPE-001]: car needs a list, got 5\n(+ 1 1)  ; => 2\n",
        "(defun f (x)\n  (* 2 x))    ; twice\n(f 3)        ; => 6\n",
    ],
)
def test_a_block_that_shows_what_happens(tmp_path: Path, text: str) -> None:
    assert corrected(tmp_path, text) == (text, 0)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("(+ 1 2)  ; => 4\n", "(+ 1 2)  ; => 3\n"),
        ("(car 5)\n\n(+ 1 1)\n", "(car 5)\n; error[E-TYPE-001]: car needs a list, got 5\n\n(+ 1 1)\n"),
        ("(+ 1 2)\n; error[E-TYPE-001]: no\n(+ 1 1)\n", "(+ 1 2)\n; => 3\n(+ 1 1)\n"),
        (
            '(list "a\\nb")  ; =>\n',
            '(list "a\\nb")\n; warning[W-READ-001]: strings have no escape \\n: this reads as "n"\n; => ("anb")\n',
        ),
    ],
)
def test_a_block_that_does_not(tmp_path: Path, text: str, right: str) -> None:
    assert corrected(tmp_path, text) == (right, 1)
