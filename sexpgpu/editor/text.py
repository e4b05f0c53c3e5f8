"""The text of a file as an editor sees it: places, the token under the cursor, the lists around it.

Text that is being typed seldom reads, so nothing here asks that it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen
from lsprotocol.types import Position, Range
from pygls.workspace import PositionCodec

from sexpgpu.diag import Span
from sexpgpu.lang.forms import Source
from sexpgpu.lang.tokens import COMMENT_EDGE, LEXEME

DECLARING = ("defsub", "defparam", "defbuffer", "defstate")
"""Forms inside a model or an optimizer that declare a name for the rest of it."""


@frozen
class Token:
    """A lexeme and where it is. `head` says that it is the operator of a list."""

    text: str
    start: int
    end: int
    head: bool


class Text:
    """One version of a file's text. Offsets count characters; positions are the client's, in its code units."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self.text = text
        self._codec = codec
        self.source = Source("", text)
        self._lines = text.split("\n")

    def offset(self, position: Position) -> int:
        """The offset of a client's position; past the end of a line is its end."""
        at = self._codec.position_from_client_units(self._lines, position)
        line = min(at.line, len(self._lines) - 1)
        return self.source.starts[line] + min(at.character, len(self._lines[line]))

    def position(self, line: int, col: int) -> Position:
        """The client's position of a line and column that count from 1."""
        row = max(0, min(line - 1, len(self._lines) - 1))
        character = max(0, min(col - 1, len(self._lines[row])))
        return self._codec.position_to_client_units(self._lines, Position(row, character))

    def range(self, start: int, end: int) -> Range:
        """The client's range of text[start:end]."""
        return Range(self.position(*self.source.position(start)), self.position(*self.source.position(end)))

    def range_of(self, span: Span) -> Range:
        """The client's range of a span."""
        return Range(self.position(span.line, span.col), self.position(span.end_line, span.end_col))

    def start_of(self, span: Span) -> int:
        """The offset at which a span starts."""
        line = max(0, min(span.line - 1, len(self._lines) - 1))
        return self.source.starts[line] + min(span.col - 1, len(self._lines[line]))

    def line_at(self, offset: int) -> str:
        """The rest of the line from an offset on."""
        end = self.text.find("\n", offset)
        return self.text[offset : end if end >= 0 else len(self.text)].rstrip()

    def token(self, offset: int) -> Token | None:
        """The token that the cursor is in, or right behind."""
        found: tuple[int, int] | None = None
        for kind, start, end in self._lexemes():
            if start > offset:
                break
            if kind in ("token", "string") and start <= offset <= end:
                found = (start, end)
                if offset < end:
                    break
        if found is None:
            return None
        start, end = found
        return Token(self.text[start:end], start, end, self.text[start - 1 : start] == "(")

    def enclosing(self, offset: int) -> list[int]:
        """Where the lists around an offset open, outermost first."""
        opened: list[int] = []
        for kind, start, end in self._lexemes():
            if end > offset:
                break
            if kind == "open":
                if self.text[start - 1 : start] in ("\n", ""):
                    opened.clear()  # a top-level form begins here, whatever was left open above
                opened.append(start)
            elif kind == "close" and opened:
                opened.pop()
        return opened

    def operator(self, opened: int) -> str:
        """The operator of the list that opens at an offset."""
        match = LEXEME.match(self.text, opened + 1)
        return match[0].lower() if match is not None and match.lastgroup == "token" else ""

    def arguments(self, opened: int, offset: int) -> list[str]:
        """The operands of the list that opens at one offset and is the innermost around another, up to there.

        The last is the one in hand, "" where it has not begun.
        """
        found: list[str] = []
        depth = 0
        begun = end = opened + 1
        for kind, start, stop in self._lexemes():
            if start <= opened or start >= offset:
                continue
            if depth == 0 and kind in ("token", "string", "open"):
                begun = start
            depth += (kind == "open") - (kind == "close")
            if depth == 0 and kind in ("token", "string", "close"):
                found.append(self.text[begun:stop])
                end = stop
        if end < offset:
            found.append("")
        return found[1:]

    def list_at(self, opened: int) -> int:
        """Where the list that opens at an offset ends; the end of the text when it is not closed."""
        depth = 0
        for kind, start, end in self._lexemes():
            if start >= opened:
                depth += (kind == "open") - (kind == "close")
                if depth == 0:
                    return end
        return len(self.text)

    def form_around(self, offset: int) -> tuple[int, int]:
        """The top-level form around an offset, or the offset itself between forms."""
        opened = self.enclosing(offset)
        return (opened[0], self.list_at(opened[0])) if opened else (offset, offset)

    def declared_in(self, name: str, start: int, end: int) -> int | None:
        """Where text[start:end] declares `name` for the rest of it: the offset of (defsub name ...)."""
        found = re.compile(rf"\((?:{'|'.join(DECLARING)})\s+{re.escape(name)}(?=[\s()])", re.IGNORECASE)
        match = found.search(self.text, start, end)
        return match.start() if match is not None else None

    def defined(self, name: str) -> int | None:
        """Where a form in the first column defines `name`, by its look: (def... name ...) or (def... (name ...))."""
        match = re.search(rf"^\(def[\w-]*\s+\(?{re.escape(name)}(?=[\s()])", self.text, re.MULTILINE | re.IGNORECASE)
        return match.start() if match is not None else None

    def words(self, start: int, end: int) -> set[str]:
        """The tokens of text[start:end]."""
        return {self.text[a:b] for kind, a, b in self._lexemes() if kind == "token" and start <= a and b <= end}

    def _lexemes(self) -> Iterator[tuple[str, int, int]]:
        at = 0
        while at < len(self.text):
            match = LEXEME.match(self.text, at)
            assert match is not None  # its last alternative takes any character
            kind, end = str(match.lastgroup), match.end()
            if kind == "comment":
                end = _end_of_comment(self.text, at)
            elif kind == "dispatch" and match[0].endswith("("):
                kind = "open"
            yield kind, at, end
            at = end


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for edge in COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "#|" else -1
        if depth == 0:
            return edge.end()
    return len(text)
