"""PTX text to tokens."""

from __future__ import annotations

import re

from attrs import frozen

TOKEN = re.compile(
    r"""(?P<newline>\n)
      |(?P<skip>[ \t\r\f]+|//[^\n]*)
      |(?P<comment>/\*.*?\*/)
      |(?P<string>"[^"\n]*")
      |(?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
         |\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+U?)
      |(?P<word>[%$_.A-Za-z][\w$.]*(?:::[\w.]+)*)
      |(?P<mark>[{}\[\]()<>;,:|!@+\-=*])
    """,
    re.VERBOSE | re.DOTALL,
)


@frozen
class Token:
    """A piece of text and the line it stands on, from 1."""

    text: str
    line: int
    kind: str


class LexError(ValueError):
    """A character that no token begins with."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


def tokens_of(text: str) -> list[Token]:
    """The tokens in order; raises LexError."""
    found: list[Token] = []
    line, position = 1, 0
    size = len(text)
    while position < size:
        match = TOKEN.match(text, position)
        if match is None:
            raise LexError(line, text[position : position + 16].split("\n", 1)[0])
        kind = match.lastgroup
        if kind == "newline":
            line += 1
        elif kind == "comment":
            line += match.group().count("\n")
        elif kind != "skip" and kind is not None:
            found.append(Token(match.group(), line, kind))
        position = match.end()
    return found
