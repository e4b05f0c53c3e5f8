"""Warnings about what can never matter: bindings that nothing reads, forms that are never reached.

They are given only for what a file's own text says: what a macro wrote may be general on purpose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from sexpgpu.diag import Diagnostic, warning
from sexpgpu.lang.analyze.grammar import Items
from sexpgpu.lang.builtin import show
from sexpgpu.lang.edits import replaced
from sexpgpu.lang.forms import SourceCons, Symbol
from sexpgpu.lang.ir import CallBuiltin, Go, LocalVar, Node, Operation, ReturnFrom
from sexpgpu.lang.place import Place
from sexpgpu.lang.recovery import Guard

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer


def is_written(form: Any, place: Place) -> bool:
    """Whether the file's own text has `form`, a list, at `place`."""
    return (
        isinstance(form, SourceCons)
        and place.trail is None
        and form.source is place.source
        and place.start <= form.start
        and form.end <= place.end
    )


def tell(an: Analyzer, diagnostic: Diagnostic) -> None:
    """Give a warning about a user's file; the product's own files are kept clean by a test."""
    if not (an.module.internal or an.module.standard):
        an.session.warn(diagnostic)


def warn_unread(an: Analyzer, bound: Iterable[tuple[LocalVar, Place]], ignored: Collection[Symbol] = ()) -> None:
    """W-NAME-004 for each variable, with the place of its name, that nothing reads."""
    for var, place in bound:
        name = var.symbol.name
        if var.read or not var.symbol.interned or name.startswith("_") or var.symbol in ignored:
            continue
        what = "is set but never read" if var.assigned else "is never read"
        help = f"name it `_{name}` if that is meant" if not var.assigned else None
        fix = replaced(place, name, f"_{name}") if not var.assigned else ()
        tell(an, warning("W-NAME-004", f"the variable `{show(var.symbol)}` {what}", place.span, help, fix=fix))


def warn_uncalled(an: Analyzer, functions: Iterable[tuple[LocalVar, Place]]) -> None:
    """W-NAME-005 for each local function, with the place of its name, that nothing calls."""
    for var, place in functions:
        if not var.read and not var.symbol.name.startswith("_"):
            tell(an, warning("W-NAME-005", f"the local function `{show(var.symbol)}` is never called", place.span))


def warn_unreached(an: Analyzer, nodes: list[Node], items: Items) -> None:
    """W-FLOW-001 at the form behind one that never returns."""
    for node, (form, place), (_, where) in zip(nodes, items, items[1:], strict=False):
        behind = where.trail is None and where.source is place.source and where.start >= place.end
        if behind and _leaves(node) and is_written(form, place):
            tell(
                an, warning("W-FLOW-001", f"this is never reached: ({show(form.car)} ...) leaves before it", where.span)
            )
            return


def warn_behind(an: Analyzer, test: Any, items: Items) -> None:
    """W-FLOW-001 at the first of the clauses that stand behind one which always applies."""
    if items and is_written(*items[0]):
        message = f"this clause is never reached: the one before it, {show(test)}, always applies"
        tell(an, warning("W-FLOW-001", message, items[0][1].span))


def _leaves(node: Node) -> bool:
    part = node.part if isinstance(node, Guard) else node
    return (
        isinstance(part, ReturnFrom | Go)
        or (isinstance(part, Operation) and part.name == "throw")
        or (isinstance(part, CallBuiltin) and part.builtin.name == "error")
    )
