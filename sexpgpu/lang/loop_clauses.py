"""What reads the clauses of a `loop` and writes the forms of its expansion."""

from __future__ import annotations

from typing import Any

from attrs import define

from sexpgpu.diag import Culprit, error
from sexpgpu.lang.forms import NIL, Cons, Source, SourceCons, Symbol, lisp_list, symbol
from sexpgpu.lang.printer import brief

END_TAG = symbol("%loop-end")
_SIMPLE_TYPES = frozenset({"fixnum", "float", "t", "nil"})


def call(name: str, *arguments: Any) -> Any:
    """The form `(name argument…)`."""
    return lisp_list((symbol(name), *arguments))


def placed(form: Cons, written: Any) -> Cons:
    """A form of the expansion, at fault where the part of the loop that it works for is written."""
    if not isinstance(written, SourceCons):
        return form
    return _spanning(form, written.source, written.start, written.end)


def _spanning(form: Cons, source: Source, start: int, end: int) -> Cons:
    return SourceCons(form.car, form.cdr, source, start, end, start, end)


def at_element(form: Cons, cell: Cons) -> Cons:
    """A form of the expansion, at fault where the element of the loop that it works for is written."""
    if not isinstance(cell, SourceCons):
        return form
    return _spanning(form, cell.source, cell.car_start, cell.car_end)


def leave_when(test: Any) -> Any:
    return call("when", test, call("go", END_TAG))


@define
class Clauses:
    """A cursor over the forms of one `loop`; words are recognised by name, as symbols or keywords."""

    forms: list[Any]
    cells: list[Cons]  # which hold them
    position: int = 0

    def word(self) -> str | None:
        """The next form's name if it is a symbol."""
        if self.position < len(self.forms):
            form = self.forms[self.position]
            if type(form) is Symbol and form is not NIL:
                return form.name
        return None

    def accept(self, *words: str) -> str | None:
        """Step over the next form if it is one of `words`."""
        found = self.word()
        if found is None or found not in words:
            return None
        self.position += 1
        return found

    def form(self, after: str) -> Any:
        if self.position >= len(self.forms):
            culprit = Culprit(function="loop", argument=self.position)
            message = f"loop: `{after}` has no form after it: the clause ends too early"
            raise error("E-MACRO-010", message, culprit=culprit)
        self.position += 1
        return self.forms[self.position - 1]

    def compound_forms(self, after: str) -> list[Any]:
        """One or more forms in parentheses, as `do`, `initially` and `finally` take them."""
        start = self.position
        while self.position < len(self.forms) and isinstance(self.forms[self.position], Cons):
            self.position += 1
        if start == self.position:
            got = f"got {brief(self.forms[start])}" if start < len(self.forms) else "found the end of the loop"
            culprit = Culprit(function="loop", argument=min(start + 1, len(self.forms)))
            raise error("E-MACRO-010", f"loop: `{after}` needs a form in parentheses, {got}", culprit=culprit)
        return self.forms[start : self.position]

    def pattern(self, after: str) -> tuple[Any, Any]:
        """A variable or a destructuring tree, and its type if it has one, which may be a tree of types."""
        pattern = self.form(after)
        if not isinstance(pattern, Symbol | Cons) or (isinstance(pattern, Symbol) and pattern.keyword):
            raise error("E-MACRO-010", f"loop: `{after}` needs a variable, got {brief(pattern)}")
        if self.accept("of-type"):
            return pattern, self.form("of-type")
        if self.word() in _SIMPLE_TYPES and isinstance(self.forms[self.position], Symbol):
            return pattern, self.form(after)
        return pattern, NIL
