"""Fixes of one file that cannot all be made: each text is changed by one diagnostic."""

from __future__ import annotations

import pytest

from sexpgpu.diag import Diagnostic, Diagnostics, Edit, Span


def edit(start: int, end: int, text: str) -> Edit:
    return Edit(Span("a.sx", 1, start, 1, end), text)


ERROR = Diagnostic("E-A", "wrong", fix=(edit(5, 10, "x"),))
WARNING = Diagnostic("W-A", "odd", severity="warning", fix=(edit(8, 9, "_b"),))


def fixes(*reported: Diagnostic) -> dict[str, int]:
    diagnostics = Diagnostics()
    for diagnostic in reported:
        diagnostics.report(diagnostic)
    return {d.code: len(d.fix) for d in diagnostics}


@pytest.mark.parametrize("reported", [(ERROR, WARNING), (WARNING, ERROR), (WARNING, ERROR, WARNING, ERROR)])
def test_a_warning_gives_way_to_an_error(reported: tuple[Diagnostic, ...]) -> None:
    assert fixes(*reported) == {"E-A": 1, "W-A": 0}


def test_of_two_errors_the_first_is_mended() -> None:
    assert fixes(ERROR, Diagnostic("E-B", "wrong", fix=(edit(9, 12, "y"),))) == {"E-A": 1, "E-B": 0}


@pytest.mark.parametrize("other", [edit(10, 12, "y"), edit(5, 5, "("), edit(5, 10, "x"), edit(1, 5, "y")])
def test_what_only_touches_or_is_the_same_is_no_clash(other: Edit) -> None:
    assert fixes(ERROR, Diagnostic("E-B", "wrong", fix=(other,))) == {"E-A": 1, "E-B": 1}
