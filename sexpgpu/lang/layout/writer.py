"""Puts a parsed text on lines."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from attrs import define, field

from sexpgpu.lang.layout.align import aligned
from sexpgpu.lang.layout.loops import LoopClauses
from sexpgpu.lang.layout.styles import CALL, Role, Style, Styles, is_operator, part_role, prefixed_role
from sexpgpu.lang.layout.tree import Node, parse

WIDTH: Final = 120
COMMENT_COLUMN: Final = 55


def laid_out(text: str) -> str:
    """`text`, which the reader must take without an error, in the one layout; laying that out changes nothing."""
    nodes = parse(text)
    return _Writer(Styles(nodes)).write(nodes)


@define
class _Row:
    code: str = ""
    comment: str | None = None


@define
class _List:
    """A list that is being written: where its parenthesis is and where its elements began."""

    node: Node
    role: Role
    style: Style
    paren: int
    starts: list[int] = field(factory=list)
    loop: LoopClauses | None = None

    def indent(self, item: Node) -> int:
        """The column of an element, or of a comment before it, that begins a line."""
        position = len(self.starts)
        first = self.paren + len(self.node.text)
        if position == 0 or self.role not in ("code", "function"):
            return first
        if self.role == "function":
            return self.paren + (4 if position == 1 else 2)
        if self.node.text != "(" or not is_operator(self.node.data[0]):
            return first
        if self.loop is not None:
            return self.loop.indent(item)
        out = self.style.distinguished
        if position == 1 and out in (None, 0):
            return self.paren + 2
        if out is None or out == 0:
            return self.starts[1]
        return self.paren + (4 if position <= out else 2)

    def passed(self, item: Node, column: int) -> None:
        """The element stands at `column`."""
        self.starts.append(column)
        if self.loop is not None:
            self.loop.passed(item, column)
        elif len(self.starts) == 2 and self.role == "code" and self.node.data[0].name == "loop" and item.name:
            self.loop = LoopClauses(column)
            self.loop.passed(item, column)

    @property
    def splits(self) -> bool:
        """Whether each element of the body gets a line of its own where the list is too long for one."""
        if self.role == "code":
            return self.style.distinguished is not None or self.style.rest == "clause"
        lists = all(item.kind == "list" for item in self.node.data)
        return self.role in ("function", "functions") or (self.role == "clauses" and lists)

    @property
    def in_body(self) -> bool:
        """Whether the next element belongs to the body."""
        if self.role == "function":
            return len(self.starts) > 1
        return len(self.starts) > (self.style.distinguished or 0 if self.role == "code" else 0)


class _Writer:
    def __init__(self, styles: Styles) -> None:
        self._styles = styles
        self._rows: list[_Row] = []
        self._row = _Row()

    def write(self, nodes: list[Node]) -> str:
        """The text of top-level nodes: each datum on lines of its own, the blank lines between them kept, one each."""
        texts = aligned(nodes)
        for node in nodes:
            if node.kind == "comment" and not node.breaks and self._row.code:
                self._row.comment = node.text
                continue
            if node is not nodes[0]:
                self._newline(0, blank=node.breaks > 1)
            text = texts.get(node)
            if text is not None and len(text) <= WIDTH:
                self._put(text)
            else:
                self._node(node, "code", 0)
        if self._row.code:
            self._rows.append(self._row)
        return "".join(f"{line}\n" for line in _lines(self._rows))

    # Rows.

    @property
    def _column(self) -> int:
        return len(self._row.code)

    def _put(self, text: str) -> None:
        first, *more = text.split("\n")
        self._row.code += first
        for line in more:
            self._rows.append(self._row)
            self._row = _Row(line)

    def _newline(self, indent: int, blank: bool) -> None:
        self._rows.append(self._row)
        if blank:
            self._rows.append(_Row())
        self._row = _Row(" " * indent)

    # Nodes. `after` is how many parentheses follow the node on its last line.

    def _node(self, node: Node, role: Role, after: int) -> None:
        flat = node.flat
        if not node.items or (flat is not None and self._column + len(flat) + after <= WIDTH):
            self._put(node.text + ")" * (node.kind == "list") if flat is None else flat)
        elif node.kind == "prefix":
            self._prefixed(node, role, after)
        else:
            self._list(node, role, after)

    def _prefixed(self, node: Node, role: Role, after: int) -> None:
        start = self._column
        self._put(node.opening)
        role = prefixed_role(node.text, role)
        ended = False  # by a comment
        for item in node.items:
            if item.kind == "comment" and not item.breaks:
                self._row.comment = item.text
                ended = True
                continue
            if ended or (item.breaks and (item is not node.items[0] or item.kind == "comment")):
                self._newline(start, blank=False)
            elif item is not node.items[0]:
                self._put(" ")
            self._node(item, role, after if item is node.items[-1] else 0)
            ended = item.kind == "comment"

    def _list(self, node: Node, role: Role, after: int) -> None:
        style = self._styles.of(node) if role == "code" else CALL
        made = _List(node, role, style, self._column)
        self._put(node.text)
        split = node.flat is not None and made.splits
        texts = aligned(node.items)
        ended = False
        for number, item in enumerate(node.items):
            last = number == len(node.items) - 1
            if item.kind == "comment" and not item.breaks:
                self._row.comment = item.text
                ended = True
                continue
            indent = made.indent(item)
            closing = after + 1 if last else 0
            if ended or self._begins_line(made, number, split, closing):
                self._newline(indent, blank=item.breaks > 1 and bool(number))
            elif number:
                self._put(" ")
            if item.kind in ("comment", "block"):
                self._put(item.text)
                ended = item.kind == "comment"
                continue
            ended = False
            position = len(made.starts)
            made.passed(item, self._column)
            text = texts.get(item)
            if text is not None and self._column + len(text) + closing <= WIDTH:
                self._put(text)
            else:
                self._node(item, part_role(role, style, position), closing)
        if ended:
            self._newline(made.indent(node), blank=False)
        self._put(")")

    def _begins_line(self, made: _List, number: int, split: bool, closing: int) -> bool:
        item = made.node.items[number]
        if number == 0:
            return item.kind == "comment" and item.breaks > 0
        return item.breaks > 0 or (split and made.in_body) or self._is_full(made, number, closing)

    def _is_full(self, made: _List, number: int, closing: int) -> bool:
        """Whether an element, a keyword with its value, would pass the line's end and a new line begins earlier."""
        items = made.node.items
        item = items[number]
        if not made.starts or made.indent(item) > self._column:
            return False
        if made.role == "code" and item.items and len(made.starts) <= (made.style.distinguished or 0):
            return False  # it is broken within
        width = item.lead
        if item.name.startswith(":") and number + 1 < len(items) and not items[number + 1].breaks:
            width += 1 + items[number + 1].lead
            closing = closing or (1 if number + 2 == len(items) else 0)
        return self._column + 1 + width + closing > WIDTH


def _lines(rows: list[_Row]) -> list[str]:
    """The rows with their trailing comments; those of rows in a row stand in one column where it can be."""
    lines: list[str] = []
    for trailing, group in groupby(rows, lambda row: row.comment is not None):
        together = list(group)
        column = max(COMMENT_COLUMN, *(len(row.code) + 2 for row in together)) if trailing else 0
        if any(column + len(row.comment or "") > WIDTH for row in together):
            column = 0
        for row in together:
            if row.comment is None:
                lines.append(row.code)
            else:
                own = max(COMMENT_COLUMN, len(row.code) + 2)
                lines.append(f"{row.code:{column or own}}{row.comment}")
    return lines
