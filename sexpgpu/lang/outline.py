"""Where the forms of a text begin and end, and what they define by their look, without reading them.

Strings, comments and characters are blanked; what is left of a form laid out from the first column is a balanced list.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

_OPAQUE: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|;[^\n]*|#\\.[^\s()]*', re.DOTALL)
_FOREIGN: Final = re.compile(r"[\[\]{}|]|#[|.+\-]")
_NEXT: Final = re.compile(r"\n(?=\()")
_HEAD: Final = re.compile(r"\(([a-z-]+) ([a-z%*][a-z0-9%*/<>=?!-]*)(?=[\s)])")


@frozen
class Part:
    """A top-level form: its characters are [start, end). `head` and `name` are its first two words, where plain."""

    start: int
    end: int
    head: str = ""
    name: str = ""


def outline(text: str) -> list[Part] | None:
    """The top-level forms of a text in which each begins in the first column; None where that cannot be said."""
    blanked = _OPAQUE.sub(_blank, text)
    if _FOREIGN.search(blanked) or '"' in blanked:
        return None
    parts = []
    at = len(blanked) - len(blanked.lstrip())
    for piece in _NEXT.split(blanked[at:]):
        form = piece.rstrip()
        if not _is_list(form):
            return None
        head = _HEAD.match(form)
        parts.append(Part(at, at + len(form), *head.groups()) if head is not None else Part(at, at + len(form)))
        at += len(piece) + 1
    return parts


def _blank(opaque: re.Match[str]) -> str:
    """As many characters that are no parentheses: a word for a datum, spaces for a comment."""
    size = opaque.end() - opaque.start()
    return " " * size if opaque[0][0] == ";" else "_" * size


def _is_list(form: str) -> bool:
    """Whether the text is one list: behind its first parenthesis only the last one closes it."""
    if not (form.startswith("(") and form.endswith(")")):
        return False
    inner = re.sub(r"[^()]+", "", form[1:-1])
    while "()" in inner:
        inner = inner.replace("()", "")
    return not inner
