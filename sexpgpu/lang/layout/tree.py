"""The concrete syntax of a text that reads: every lexeme and comment as it is spelt, and where lines were broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal

from attrs import define, field

from sexpgpu.lang.forms import NIL, Array, Cons, Source, Symbol
from sexpgpu.lang.readform import ReadForm
from sexpgpu.lang.tokens import COMMENT_EDGE, LEXEME, REST_OF_TOKEN

Kind = Literal["atom", "list", "prefix", "comment", "block"]

# What follows these is part of the same lexeme: #b101, #16rff, #:name.
_SPELT_ON: Final = re.compile(r"#(?:[box:]|\d+r)", re.IGNORECASE)
_PREFIX: Final = re.compile(r"#(?:[+\-.sS]|\d+[=aA])")


@define(eq=False)
class Node:
    """A datum or a comment. `breaks` counts the line ends before it; a list's or prefix's parts are its `items`.

    `prefix` is `'`, `,@`, `#.`, `#1=`... before one datum, or `#+`/`#-` before a test and a datum; `comment` runs to
    the end of its line, `block` is `#| |#`. `text[start:end]` of the source is the node.
    """

    kind: Kind
    text: str
    breaks: int
    line: int
    start: int
    end: int = 0
    items: list[Node] = field(factory=list)
    _flat: str | Literal[False] | None = False
    _lead: int | None = None
    _data: list[Node] | None = None

    @property
    def flat(self) -> str | None:
        """The node on one line with single blanks; None where the author broke it or it cannot be on one line."""
        if self._flat is False:
            self._flat = self._on_one_line()
        return self._flat

    def _on_one_line(self) -> str | None:
        if self.kind == "comment":
            return None
        if not self.items:
            whole = self.text + (")" if self.kind == "list" else "")
            return None if "\n" in whole else whole
        parts = []
        for item in self.items:
            if item.flat is None or (item.breaks and item is not self.items[0]):
                return None
            parts.append(item.flat)
        return self.opening + " ".join(parts) + (")" if self.kind == "list" else "")

    @property
    def opening(self) -> str:
        """The text before the first item: a comma stays apart from a symbol that would make it another prefix."""
        apart = self.text == "," and self.items and self.items[0].opening[:1] in ("@", ".")
        return self.text + " " * bool(apart)

    @property
    def lead(self) -> int:
        """How wide the node is up to the first line end that it must have."""
        if self._lead is None:
            self._lead = len(self.flat) if self.flat is not None else self._first_line()
        return self._lead

    def _first_line(self) -> int:
        width = len(self.text.partition("\n")[0])
        for item in self.items:
            if item is not self.items[0]:
                if item.breaks:
                    break
                width += 1
            width += item.lead
            if item.flat is None:
                break
        return width

    @property
    def data(self) -> list[Node]:
        """The items that are no comments."""
        if self._data is None:
            self._data = [item for item in self.items if item.kind not in ("comment", "block")]
        return self._data

    @property
    def name(self) -> str:
        """An atom's spelling as a symbol has it, "" of anything else."""
        return self.text.lower() if self.kind == "atom" else ""


def parse(text: str) -> list[Node]:
    """The top-level data and comments of a text that the reader takes without an error."""
    source = Source("", text)
    top: list[Node] = []
    stack: list[Node] = []
    breaks = 0
    at = 1 if text.startswith("\ufeff") else 0
    while (match := LEXEME.match(text, at)) is not None:
        kind, lexeme, at = str(match.lastgroup), match[0], match.end()
        if kind == "skip" and lexeme[0] != ";":
            breaks += lexeme.count("\n")
            continue
        if kind == "close":
            stack.pop().end = at
            _complete(stack, at)
            breaks = 0
            continue
        if kind == "comment":
            at = _block_end(text, match.start())
            lexeme = text[match.start() : at]
        elif kind == "dispatch" and _SPELT_ON.fullmatch(lexeme):
            rest = REST_OF_TOKEN.match(text, at)
            at = rest.end() if rest is not None else at
            lexeme = text[match.start() : at]
        spelt = lexeme.rstrip() if kind == "skip" else lexeme
        line, _ = source.position(match.start())
        node = Node(_kind(kind, lexeme), spelt, breaks, line, match.start(), at)
        (stack[-1].items if stack else top).append(node)
        breaks = 0
        if node.kind in ("list", "prefix"):
            stack.append(node)
        elif node.kind == "atom":
            _complete(stack, at)
    return top


def _kind(group: str, lexeme: str) -> Kind:
    if group == "open" or lexeme == "#(":
        return "list"
    if group == "prefix" or (group == "dispatch" and _PREFIX.fullmatch(lexeme)):
        return "prefix"
    if group == "skip":
        return "comment"
    return "block" if group == "comment" else "atom"


def _complete(stack: list[Node], end: int) -> None:
    """A datum is complete: so are the prefixes that waited for it."""
    while stack and stack[-1].kind == "prefix":
        waits_for = 2 if stack[-1].text in ("#+", "#-") else 1
        if sum(item.kind not in ("comment", "block") for item in stack[-1].items) < waits_for:
            return
        stack.pop().end = end


def _block_end(text: str, start: int) -> int:
    depth = 0
    for edge in COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "#|" else -1
        if depth == 0:
            return edge.end()
    return len(text)


def lexemes(nodes: list[Node]) -> Iterator[str]:
    """Every lexeme and comment in order: what a layout must not change."""
    for node in nodes:
        yield node.text
        yield from lexemes(node.items)
        if node.kind == "list":
            yield ")"


def same_forms(one: list[ReadForm], other: list[ReadForm]) -> bool:
    """Whether two texts read as the same forms; uninterned symbols are the same when they have the same name."""
    return len(one) == len(other) and all(same(a.datum, b.datum) for a, b in zip(one, other, strict=True))


def same(one: Any, other: Any) -> bool:
    """Whether two data print and behave alike: of one type, and part by part the same."""
    while isinstance(one, Cons) and isinstance(other, Cons):
        if not same(one.car, other.car):
            return False
        one, other = one.cdr, other.cdr
    if one is other:
        return True
    if type(one) is not type(other) or one is NIL:
        return False
    if isinstance(one, Symbol):
        return not one.interned and not other.interned and one.name == other.name
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Array):
        return one.dims == other.dims and all(map(same, one.items, other.items))
    return repr(one) == repr(other)
