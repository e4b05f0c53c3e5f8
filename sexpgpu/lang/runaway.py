"""Calls nested without end: which test should have ended them, and why it did not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import TracebackType
from typing import Any, Final

from attrs import frozen

from sexpgpu.diag import Edit
from sexpgpu.lang.active import active
from sexpgpu.lang.builtin import show
from sexpgpu.lang.culprit import Written, elements, form_at
from sexpgpu.lang.forms import Source, Symbol
from sexpgpu.lang.functions import FunctionInfo, info_of

_CHOICES: Final = frozenset({"if", "cond", "when", "unless"})
MOST_CALLS: Final = 1000
_EQUAL: Final = frozenset({"=", "eql", "equal", "eq"})


@frozen
class Ending:
    """What is wrong with the test of a parameter against a number, and the edit that mends it, where one does."""

    help: str
    fix: tuple[Edit, ...]


def ending(traceback: TracebackType | None) -> Ending | None:
    """What a look at the outermost calls tells of the function that calls itself; None where no test is found."""
    calls: list[tuple[FunctionInfo, dict[str, Any]]] = []
    while traceback is not None and len(calls) < MOST_CALLS:
        info = info_of(traceback.tb_frame.f_code.co_name)
        if info is not None and info.span is not None and info.parameters.required:
            calls.append((info, traceback.tb_frame.f_locals))
        traceback = traceback.tb_next
    if not calls:
        return None
    last = calls[-1][0]
    return _ending(last, [values for info, values in calls if info is last])


def _ending(info: FunctionInfo, calls: list[dict[str, Any]]) -> Ending | None:
    span = info.span
    text = active().sources.get(span.file) if span is not None else None
    if span is None or text is None:
        return None
    source = Source(span.file, text)
    form = form_at(source, source.offset(span.line, span.col), active().module.aliases)
    for test in _tests(form) if form is not None else ():
        words = [source.text[part.start : part.end].lower() for part in test]
        values = [_value(call, words[1]) for call in calls]
        numbers = [value for value in values if isinstance(value, int | float)]
        if words[1] in info.parameters.required and len(numbers) == len(values) > 1:
            return _past(source, test, f"({' '.join(words)})", words[1], numbers)
    return None


def _value(call: dict[str, Any], name: str) -> Any:
    return next((value for key, value in call.items() if key.partition(".")[0] == name), None)


def _past(source: Source, test: list[Written], shown: str, name: str, values: list[Any]) -> Ending:
    """How the parameter gets past the number, from one call to the next; the test that sees it there."""
    limit = test[2].datum if len(test) == 3 else 0
    side = values[0] < limit
    for before, after in pairwise(values):
        if (after < limit) != side:
            help = f"the case that ends it tests {shown}, but `{name}` goes from {show(before)} to {show(after)}"
            head = Edit(source.span(test[0].start, test[0].end), "<=" if after < limit else ">=")
            if len(test) == 3:
                return Ending(help, (head,))
            at = source.span(test[1].end, test[1].end)
            return Ending(help, (head, Edit(at, " 0")))
    away = f"the case that ends it tests {shown}, but `{name}` goes from {show(values[0])} to {show(values[1])}"
    return Ending(away, ())


def _tests(form: Written) -> Iterator[list[Written]]:
    """`(= name number)` and `(zerop name)` where a choice is made by them."""
    pending = [form]
    while pending:
        parts = elements(pending.pop())
        head = parts[0].datum.name if parts and isinstance(parts[0].datum, Symbol) else ""
        if head in _CHOICES:
            tests = [elements(part)[:1] for part in parts[1:]] if head == "cond" else [parts[1:2]]
            for test in tests:
                found = elements(test[0]) if test else []
                if found and _compares(found):
                    yield found
        pending += reversed(parts)


def _compares(parts: list[Written]) -> bool:
    head = parts[0].datum.name if isinstance(parts[0].datum, Symbol) else ""
    if len(parts) < 2 or not isinstance(parts[1].datum, Symbol):
        return False
    if head == "zerop":
        return len(parts) == 2
    return head in _EQUAL and len(parts) == 3 and isinstance(parts[2].datum, int | float)
