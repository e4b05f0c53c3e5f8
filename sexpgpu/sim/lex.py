"""PTX text to tokens: lists of texts, of the lines that they stand on and of where they begin, since a module has
many of them.
"""

from __future__ import annotations

import re

TOKEN = re.compile(
    r"""([ \t\r\f]+|//[^\n]*)
      |(\n|/\*.*?\*/)
      |([%$_.A-Za-z][\w$.]*(?:::[\w.]+)*|[{}\[\]()<>;,:|!@+\-=*]
         |0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
         |\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+U?
         |"[^"\n]*")
    """,
    re.VERBOSE | re.DOTALL,
)
SKIPPED, LINES = 1, 2


class LexError(ValueError):
    """A character that no token begins with."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


def tokens_of(text: str) -> tuple[list[str], list[int], list[int]]:
    """The tokens in order, their lines, from 1, and where in the text they begin; raises LexError."""
    texts: list[str] = []
    lines: list[int] = []
    starts: list[int] = []
    line, position = 1, 0
    for match in TOKEN.finditer(text):
        if match.start() != position:
            break
        position = match.end()
        group = match.lastindex
        if group == LINES:
            line += match.group().count("\n")
        elif group != SKIPPED:
            texts.append(match.group())
            lines.append(line)
            starts.append(match.start())
    if position != len(text):
        raise LexError(line, text[position : position + 16].split("\n", 1)[0])
    return texts, lines, starts
