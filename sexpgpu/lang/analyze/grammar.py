"""The table of special forms, and the errors of forms that do not have the shape the table shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from sexpgpu.diag import Culprit, Edit, Note, SxError, error
from sexpgpu.lang.builtin import show
from sexpgpu.lang.culprit import pinpointed
from sexpgpu.lang.forms import NIL, Cons, Symbol, symbol
from sexpgpu.lang.ir import Node
from sexpgpu.lang.place import Place, trail_notes

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer
    from sexpgpu.lang.scope import Scope

Items = list[tuple[Any, Place]]
Analysis = Callable[["Analyzer", Items, "Scope", Place], Node]
A = TypeVar("A", bound=Analysis)


class Special(NamedTuple):
    """A special form: its shape as text, how many operands it takes, and its analysis."""

    shape: str
    least: int
    most: int | None
    analyze: Analysis


OTHERWISE: Final = "name it otherwise"
MOST_PARTS: Final = 500_000
AT_TOP: Final = frozenset({"require", "provide", "defknobs", "defvariant", "defsweep"})
"""Forms that the top of a file evaluates, and nothing else."""

SPECIALS: Final[dict[Symbol, Special]] = {}


def special(shape: str, least: int = 0, most: int | None = None) -> Callable[[A], A]:
    """Enter the decorated analysis under the name that `shape` begins with: `(if test then [else])`.

    It gets the operands with their places, their count already checked.
    """

    def enter(analyze: A) -> A:
        name = shape[1:-1].split(" ", 1)[0]
        SPECIALS[symbol(name)] = Special(shape, least, most, analyze)
        return analyze

    return enter


def malformed(place: Place, shape: str, found: str, help: str | None = None, fix: tuple[Edit, ...] = ()) -> SxError:
    """E-MACRO-001: what stands here is not `shape`."""
    return error("E-MACRO-001", found, place.span, expected=shape, help=help, fix=fix, notes=trail_notes(place))


def fault(
    place: Place,
    code: str,
    message: str,
    help: str | None = None,
    notes: tuple[Note, ...] = (),
    *,
    fix: tuple[Edit, ...] = (),
    culprit: Culprit | None = None,
) -> SxError:
    """An error at a place, or at the culprit in it, with the expansions that led there."""
    found = error(code, message, place.span, help=help, fix=fix, notes=(*trail_notes(place), *notes), culprit=culprit)
    if culprit is not None:
        shown = None if place.trail is not None else place.source.text
        found.diagnostic = pinpointed(found.diagnostic, shown)
    return found


def not_at_top(name: Symbol, place: Place) -> SxError:
    """E-MOD-006: a form of `AT_TOP` inside another form."""
    help = "take it out of the form around it: a `progn` or a macro at the top of the file may hold it"
    return fault(place, "E-MOD-006", f"`{name.name}` stands only at the top of a file", help)


def items_of(form: Any, place: Place, shape: str) -> Items:
    """The elements of a proper list with their places; E-MACRO-001 for anything else."""
    found: Items = []
    cell = form
    while isinstance(cell, Cons):
        found.append((cell.car, place.of_element(cell)))
        cell = cell.cdr
        if len(found) > MOST_PARTS:
            raise fault(place, "E-LIMIT-003", f"a form has more than {MOST_PARTS:,} parts: is it a circular list?")
    if cell is not NIL:
        raise malformed(place, shape, f"expected a list, found {show(form)}")
    return found


def name_of(item: tuple[Any, Place], shape: str) -> Symbol:
    """A name that can be bound or defined; constants and keywords cannot (E-NAME-004)."""
    form, place = item
    if not isinstance(form, Symbol):
        raise malformed(place, shape, f"expected a name, found {show(form)}")
    return form
