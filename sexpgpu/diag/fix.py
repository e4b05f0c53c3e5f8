"""Fixes: edits of source texts, made and shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sexpgpu.diag.record import Edit, Span


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """`text` with `edits`, all of the one file that it is the text of, made at once.

    Edits that insert at one place keep their order.

    Raises:
        ValueError: two edits overlap, or one lies outside the text.
    """
    starts = _line_starts(text)

    def offset(line: int, col: int) -> int:
        if not 1 <= line < len(starts) or not 1 <= col <= starts[line] - starts[line - 1]:
            raise ValueError(f"{line}:{col} is outside the text")
        return starts[line - 1] + col - 1

    regions = [(offset(e.span.line, e.span.col), offset(e.span.end_line, e.span.end_col), e.text) for e in edits]
    regions.sort(key=lambda region: region[:2])
    parts: list[str] = []
    done = 0
    for start, end, replacement in regions:
        if not done <= start <= end:
            raise ValueError("edits overlap")
        parts += (text[done:start], replacement)
        done = end
    return "".join([*parts, text[done:]])


def mended_rows(edits: Iterable[Edit], sources: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """What the edits do to whole lines: `(line, "+", its new text)`, or `(line, "-", text)` of one that goes.

    Lines are counted as in the source before the edits. Edits of files that `sources` does not hold are left out.
    """
    rows: list[tuple[int, str, str]] = []
    for name, first, last, group in _touched(edits):
        if name not in sources:
            continue
        old = sources[name].split("\n")[first - 1 : last]
        if _takes_lines(group):
            rows += [(first + i, "-", row.removesuffix("\r")) for i, row in enumerate(old[:-1])]
            continue
        shifted = [Edit(_shifted(edit.span, 1 - first), edit.text) for edit in group]
        new = apply_edits("\n".join(old), shifted)
        if new.strip() or not "".join(old).strip():
            rows += [(first + i, "+", row.removesuffix("\r")) for i, row in enumerate(new.split("\n"))]
        else:
            rows += [(first + i, "-", row.removesuffix("\r")) for i, row in enumerate(old)]
    return rows


def _takes_lines(group: list[Edit]) -> bool:
    """Whether the edit is that whole lines go, with their ends."""
    (edit, *more), span = group, group[0].span
    return not more and not edit.text and span.col == span.end_col == 1 and span.end_line > span.line


def _touched(edits: Iterable[Edit]) -> list[tuple[str, int, int, list[Edit]]]:
    """The runs of lines that edits touch: file, first and last line, the edits of that run."""
    runs: list[tuple[str, int, int, list[Edit]]] = []
    for edit in sorted(edits, key=lambda e: (e.span.file, e.span.line, e.span.col)):
        if runs and runs[-1][0] == edit.span.file and edit.span.line <= runs[-1][2] + 1:
            name, first, last, group = runs[-1]
            runs[-1] = (name, first, max(last, edit.span.end_line), [*group, edit])
        else:
            runs.append((edit.span.file, edit.span.line, edit.span.end_line, [edit]))
    return runs


def _shifted(span: Span, by: int) -> Span:
    return Span(span.file, span.line + by, span.col, span.end_line + by, span.end_col)


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for row in text.split("\n"):
        starts.append(starts[-1] + len(row) + 1)
    return starts
