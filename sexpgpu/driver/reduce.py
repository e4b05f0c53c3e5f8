"""Making a file smaller while something about it stays: delta debugging over the forms of its syntax.

Zeller and Hildebrandt 2002, Simplifying and Isolating Failure-Inducing Input: parts are dropped in halves, quarters
and so on, here among the items of each list from the outside in. What cannot be dropped may still stand for less: a
form for one of its arguments, a number for a lower one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from attrs import define, field, frozen

from sexpgpu.diag import Diagnostic, Diagnostics, SxError
from sexpgpu.lang.forms import Source
from sexpgpu.lang.layout import checked_layout
from sexpgpu.lang.layout.tree import Node, parse
from sexpgpu.lang.reader import read_text

Test = Callable[[str], bool]
"""Whether a text still has what it is about."""


@frozen
class Reduced:
    """The smallest text found, how many were tried, and whether nothing smaller of the kinds tried is left."""

    text: str
    tried: int
    complete: bool


class _OutOfTime(Exception):
    pass


@define(eq=False)
class _Search:
    text: str
    test: Test
    deadline: float
    told: Callable[[int, str], None]
    tried: int = 0
    _known: dict[str, bool] = field(factory=dict, init=False)

    def better(self, candidate: str) -> bool:
        """Take the candidate where it is another text that still has it."""
        if candidate == self.text or not candidate.strip():
            return False
        if candidate not in self._known:
            if time.monotonic() > self.deadline:
                raise _OutOfTime
            self._known[candidate] = self.test(candidate)
            self.tried += 1
            self.told(self.tried, self.text)
        if self._known[candidate]:
            self.text = candidate
        return self._known[candidate]


def reduce_text(text: str, test: Test, seconds: float, told: Callable[[int, str], None]) -> Reduced:
    """The smallest text that `test` still accepts, found within `seconds`; `text` itself must be accepted.

    The order of attempts depends on the text alone. `told` hears after each how many there were and the best text.
    """
    search = _Search(text, test, time.monotonic() + seconds, told)
    complete = True
    try:
        if _reads(text):
            before = ""
            while before != search.text:
                before = search.text
                for attempt in (_drop_comments, _drop_items, _hoist, _lower):
                    attempt(search)
        else:
            for part in (r"[^\n]*\n|[^\n]+", r"\S+\s*|\s+"):
                _drop_parts(search, re.compile(part))
    except _OutOfTime:
        complete = False
    search.deadline = float("inf")
    _lay_out(search)
    return Reduced(search.text, search.tried, complete)


def _reads(text: str) -> bool:
    found: list[Diagnostic] = []
    read_text(Source("", text), found.append)
    return not any(d.severity == "error" for d in found)


def _without(text: str, nodes: list[Node]) -> str:
    """The text with the nodes cut out, and lines that are left empty."""
    for node in reversed(nodes):
        text = text[: node.start] + text[node.end :]
    return "".join(line for line in text.splitlines(keepends=True) if line.strip())


def _walk(nodes: list[Node], path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Node]]:
    """Every node with the way to it, the outer before the inner, breadth first."""
    level = [((*path, i), node) for i, node in enumerate(nodes)]
    while level:
        yield from level
        level = [((*way, i), item) for way, node in level for i, item in enumerate(node.items)]


def _items_at(text: str, path: tuple[int, ...]) -> list[Node] | None:
    """The items of the list at `path`; None where there is none any more."""
    items = parse(text)
    for index in path:
        if index >= len(items):
            return None
        items = items[index].items
    return items


def _drop_comments(search: _Search) -> None:
    comments = [node for _, node in _walk(parse(search.text)) if node.kind in ("comment", "block")]
    search.better(_without(search.text, sorted(comments, key=lambda n: n.start)))


def _drop_items(search: _Search) -> None:
    """Drop runs of items from every list, the longest first, from the top of the file inwards."""
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        path = waiting.pop(0)
        items = _items_at(search.text, path)
        size = len(items) if items is not None else 0
        while items and size:
            at = 0
            while at < len(items):
                if search.better(_without(search.text, items[at : at + size])):
                    items = _items_at(search.text, path) or []
                else:
                    at += size
            size = min(size, len(items) + 1) // 2
        items = _items_at(search.text, path) or []
        waiting += [(*path, i) for i, item in enumerate(items) if item.items]


def _hoist(search: _Search) -> None:
    """Put an argument in a form's stead, the widest forms first."""
    found = True
    while found:
        found = False
        lists = [node for _, node in _walk(parse(search.text)) if node.items]
        for node in sorted(lists, key=lambda n: (n.start - n.end, n.start)):
            for item in sorted(node.data, key=lambda n: (n.end - n.start, n.start)):
                part = search.text[item.start : item.end]
                if search.better(search.text[: node.start] + part + search.text[node.end :]):
                    found = True
                    break
            if found:
                break


def _lower(search: _Search) -> None:
    """Put lower numbers in the places of numbers."""
    at = 0
    while True:
        atoms = [node for _, node in _walk(parse(search.text)) if node.kind == "atom" and node.start >= at]
        numbers = sorted((n for n in atoms if _lower_ones(n.text)), key=lambda n: n.start)
        if not numbers:
            return
        node = numbers[0]
        at = node.start + 1
        for lower in _lower_ones(node.text):
            if search.better(search.text[: node.start] + lower + search.text[node.end :]):
                at = node.start if lower not in ("0", "1") else at
                break


def _lower_ones(text: str) -> list[str]:
    """Lower numbers of the same kind, the lowest first."""
    if text.isdigit():
        value = int(text)
        return [str(n) for n in dict.fromkeys((0, 1, 2, value // 2)) if n < value]
    try:
        value_of_float = float(text)
    except ValueError:
        return []
    return ["1.0"] if len(text) > 3 and abs(value_of_float) < float("inf") and text[-1].isdigit() else []


def _drop_parts(search: _Search, part: re.Pattern[str]) -> None:
    """For a text that does not read: drop runs of its lines, or of its words."""
    size = len(part.findall(search.text))
    while size:
        at = 0
        while at < len(parts := part.findall(search.text)):
            if not search.better("".join(parts[:at] + parts[at + size :])):
                at += size
        size //= 2


def _lay_out(search: _Search) -> None:
    """The one layout, where the text has it and keeps what it is about."""
    try:
        laid = checked_layout("", search.text, Diagnostics())
    except SxError:
        return
    if laid is not None:
        search.better(laid)
