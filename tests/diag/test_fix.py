"""Fixes as edits: made at once, shown as lines."""

from __future__ import annotations

import pytest

from sexpgpu.diag import Diagnostic, Edit, Span, apply_edits
from sexpgpu.diag.render import render, to_json


def edit(line: int, col: int, end_line: int, end_col: int, text: str) -> Edit:
    return Edit(Span("a.sx", line, col, end_line, end_col), text)


TEXT = "(def a 1)\n(def b\n  (car widht))\n(def c 3)\n"


@pytest.mark.parametrize(
    ("edits", "after"),
    [
        ([edit(3, 8, 3, 13, "width")], TEXT.replace("widht", "width")),
        ([edit(1, 1, 1, 1, "(require \"x\")\n")], "(require \"x\")\n" + TEXT),
        ([edit(4, 1, 5, 1, "")], "(def a 1)\n(def b\n  (car widht))\n"),
        ([edit(3, 8, 3, 13, "x"), edit(1, 6, 1, 7, "q")], "(def q 1)\n(def b\n  (car x))\n(def c 3)\n"),
        ([edit(5, 1, 5, 1, ")")], TEXT + ")"),
    ],
)  # fmt: skip
def test_edits_are_made_at_once(edits: list[Edit], after: str) -> None:
    assert apply_edits(TEXT, edits) == after


@pytest.mark.parametrize(
    "edits",
    [[edit(1, 1, 1, 5, ""), edit(1, 3, 1, 6, "")], [edit(9, 1, 9, 1, "x")], [edit(1, 99, 1, 99, "x")]],
    ids=["overlapping", "line", "column"],
)
def test_edits_that_make_no_sense(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match=r"overlap|outside"):
        apply_edits(TEXT, edits)


def shown(*edits: Edit) -> list[str]:
    found = Diagnostic("E-X-001", "wrong", edits[0].span, help="mend it", fix=edits)
    return render(found, {"a.sx": TEXT}).split("\n")[4:]


def test_a_fix_is_shown_as_the_lines_it_leaves() -> None:
    assert shown(edit(3, 8, 3, 13, "width")) == [" 3 +   (car width))"]
    assert shown(edit(2, 7, 3, 8, " (cdr ")) == [" 2 + (def b (cdr widht))"]
    assert shown(edit(1, 10, 1, 10, "\n(def z 0)")) == [" 1 + (def a 1)", " 2 + (def z 0)"]
    assert shown(edit(1, 6, 1, 7, "x"), edit(4, 6, 4, 7, "y")) == [" 1 + (def x 1)", " 4 + (def y 3)"]


def test_lines_that_go_are_shown_as_gone() -> None:
    assert shown(edit(1, 1, 1, 10, "")) == [" 1 - (def a 1)"]
    assert shown(edit(1, 1, 2, 1, "")) == [" 1 - (def a 1)"]
    assert shown(edit(2, 1, 4, 1, "")) == [" 2 - (def b", " 3 -   (car widht))"]


def test_a_fix_in_another_file_is_only_in_the_json_form() -> None:
    found = Diagnostic("E-X-001", "wrong", fix=(Edit(Span("b.sx", 1, 1, 1, 2), "x"),))
    assert "+" not in render(found, {"a.sx": TEXT})
    region = {"file": "b.sx", "line": 1, "col": 1, "end_line": 1, "end_col": 2}
    assert to_json(found, {})["fix"] == [{"span": region, "text": "x"}]
