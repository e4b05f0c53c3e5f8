"""Where the clauses of an extended `loop` begin."""

from __future__ import annotations

from typing import Final

from sexpgpu.lang.layout.tree import Node

CONDITIONAL: Final = frozenset({"if", "when", "unless"})
ACTIONS: Final = frozenset(
    {"do", "doing", "collect", "collecting", "append", "appending", "nconc", "nconcing", "sum", "summing", "count"}
    | {"counting", "maximize", "maximizing", "minimize", "minimizing", "return"}
)
_CLAUSES: Final = frozenset(
    {"for", "as", "with", "repeat", "while", "until", "always", "never", "thereis", "initially", "finally", "named"}
    | {"and", "else", "end"}
)
_BEFORE_FORMS: Final = frozenset({"do", "doing", "initially", "finally", "and", "else", "end"})
_PREPOSITIONS: Final = frozenset(
    {"in", "on", "across", "from", "upfrom", "downfrom", "to", "upto", "downto", "below", "above", "by", "=", "then"}
    | {"being", "of-type", "into"}
)


class LoopClauses:
    """Follows the words of a `loop`: clauses stand under the first, what a condition rules 2 further in.

    Forms of a clause that begin a line stand under the clause's first form.
    """

    def __init__(self, base: int) -> None:
        self._base = base
        self._depth = 0
        self._acted = False  # a ruled clause is complete: `and`, `else`, `end` or the next clause follows
        self._names_next = False  # the next element is a name or form, whatever it is called
        self._forms: int | None = None

    def indent(self, item: Node) -> int:
        """The column of an element that begins a line."""
        word = self._word(item)
        if word is None:
            return self._base + 2 if self._forms is None else self._forms
        if word in ("else", "end"):
            return self._base + 2 * max(self._depth - 1, 0)
        if word == "and":
            return self._base + 2 * self._depth
        ruled = word in CONDITIONAL or word in ACTIONS
        return self._base + 2 * self._depth if ruled and not self._acted else self._base

    def passed(self, item: Node, column: int) -> None:
        """The element stands at `column`; the next is asked for."""
        word = self._word(item)
        name = item.name.removeprefix(":")
        if word is None:
            self._names_next = not self._names_next and name in _PREPOSITIONS
            if self._forms is None:
                self._forms = column
            return
        self._forms = None
        self._names_next = word not in _BEFORE_FORMS
        if word in ("and", "else"):
            self._acted = False
        elif word == "end":
            self._depth = max(self._depth - 1, 0)
        else:
            if self._acted or not (word in CONDITIONAL or word in ACTIONS):
                self._depth, self._acted = 0, False
            self._depth += word in CONDITIONAL
            self._acted = self._acted or (word in ACTIONS and self._depth > 0)

    def _word(self, item: Node) -> str | None:
        word = item.name.removeprefix(":")
        known = word in CONDITIONAL or word in ACTIONS or word in _CLAUSES
        return word if known and not self._names_next else None
