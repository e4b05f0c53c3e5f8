"""Diagnostics as text: the source line around the caret, and nothing that a terminal would obey."""

from __future__ import annotations

from sexpgpu.diag import Diagnostic, Span
from sexpgpu.diag.render import LONGEST_ROW, render


def excerpt(row: str, start: int, end: int) -> tuple[str, str]:
    """The shown line and its carets, of an error at columns start to end of `row`."""
    told = render(Diagnostic("E-X-001", "wrong", Span("a.sx", 1, start, 1, end)), {"a.sx": row})
    _, shown, carets = told.split("\n")
    return shown.removeprefix(" 1 | "), carets.removeprefix("   | ")


def test_a_short_line_is_shown_whole() -> None:
    assert excerpt("(car 5)", 6, 7) == ("(car 5)", "     ^")


def test_a_long_line_is_cut_around_the_caret() -> None:
    row = "x" * 300 + "MARK" + "y" * 300
    shown, carets = excerpt(row, 301, 305)
    assert shown.startswith("…x")
    assert shown.endswith("y…")
    assert len(shown) == LONGEST_ROW + 2
    assert shown[carets.index("^") : len(carets)] == "MARK"


def test_a_long_mark_ends_with_the_window() -> None:
    shown, carets = excerpt("(" + "x" * 600, 1, 602)
    assert shown.startswith("(x")
    assert len(carets) == LONGEST_ROW


def test_control_characters_are_visible() -> None:
    shown, carets = excerpt("a\x1b[31m b", 7, 8)
    assert shown == "a\\x1b[31m b"
    assert shown[carets.index("^")] == " "
    told = render(Diagnostic("E-X-001", "got \x1b]0;x\x07", help="\x9b", actual="\u202ex"), {})
    assert "\\x1b]0;x\\x07" in told
    assert not any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c == "\u202e" for c in told)


def test_lines_are_counted_by_line_feeds() -> None:
    told = render(Diagnostic("E-X-001", "wrong", Span("a.sx", 2, 1, 2, 2)), {"a.sx": "a\x0cb\r\nc\r\n"})
    assert told.split("\n")[1] == " 2 | c"


def test_what_the_message_ends_with_is_not_repeated() -> None:
    assert render(Diagnostic("E-X-001", "car needs a list, got nil", actual="nil"), {}).count("nil") == 1
    assert "actual:" in render(Diagnostic("E-X-001", "car needs a list, got 3", actual="the integer 3"), {})
