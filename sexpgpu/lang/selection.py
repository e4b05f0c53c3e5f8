"""Knobs, variants and sweeps: what a file declares, and which values a run of it takes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import define, evolve, field, frozen

from sexpgpu.diag import Diagnostic, Note, Span, SxError, error, nearest, warning
from sexpgpu.experiment import KnobSource, KnobValue
from sexpgpu.lang.analyze.core import Analyzer
from sexpgpu.lang.analyze.grammar import Items, fault, items_of, malformed
from sexpgpu.lang.builtin import show
from sexpgpu.lang.edits import replaced, text_at
from sexpgpu.lang.forms import Cons, Source, Symbol, keyword, symbol
from sexpgpu.lang.knobvalues import (
    KNOBS,
    KnobDeclaration,
    as_float,
    as_kind,
    bad_set,
    check_value,
    declaration,
    options_of,
)
from sexpgpu.lang.module import GlobalVariable, Module
from sexpgpu.lang.place import Place
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.reader import read_text
from sexpgpu.lang.readtime import substitute_read_eval
from sexpgpu.lang.tokens import NO_TEXT

if TYPE_CHECKING:
    from sexpgpu.lang.session import Session

VARIANT: Final = "(defvariant name (knob value)...)"
SWEEP: Final = "(defsweep name (knob value...)... | (:zip (knob value...)...)...)"
MOST_POINTS: Final = 100_000


@frozen
class Selection:
    """What the command line selects; `sets` are `knob=value` texts, of which the last of a knob counts."""

    variant: str | None = None
    sets: tuple[str, ...] = ()
    sweep: str | None = None
    point: int | None = None


@frozen
class _Given:
    """A value for a knob: a form of the file, or (`literal`) what the reader made of a `--set`."""

    form: Any
    place: Place
    source: KnobSource
    literal: bool = False


@define
class Selected:
    """The selection applied to a file; `knobs` and `declarations` fill as their `defknobs` are evaluated."""

    variant: str | None = None
    point: str | None = None
    knobs: list[KnobValue] = field(factory=list)
    declarations: list[KnobDeclaration] = field(factory=list)
    given: dict[str, _Given] = field(factory=dict)
    variables: list[tuple[GlobalVariable, Place]] = field(factory=list)
    kinds: dict[str, tuple[Any, dict[str, Any]]] = field(factory=dict)  # default and options, by knob
    variants: dict[tuple[Module, str, str], Span] = field(factory=dict)  # by module, form and name
    waiting: list[tuple[str, Any, Place, Module]] = field(factory=list)  # values of knobs declared further down


@frozen
class Declared:
    """The knobs, variants and sweeps that a file's forms declare.

    `torn` has the heads of those that could not be taken up: more is declared than is known here. With `lenient`,
    what variants and sweeps say of other knobs is passed over.
    """

    knobs: dict[str, Span] = field(factory=dict)
    variants: dict[str, tuple[Items, Span]] = field(factory=dict)
    sweeps: dict[str, tuple[Items, Span]] = field(factory=dict)
    torn: set[str] = field(factory=set)
    lenient: bool = False

    def note(self, form: Any, place: Place) -> None:
        """Take up a form if it is a declaration; malformed ones are reported when they are evaluated."""
        if not isinstance(form, Cons) or not isinstance(form.car, Symbol):
            return
        word = form.car.name
        if word not in ("defknobs", "defvariant", "defsweep"):
            return
        items = items_of(form.cdr, place, KNOBS)
        if word == "defknobs":
            for entry, where in items:
                if isinstance(entry, Cons) and isinstance(entry.car, Symbol):
                    self.knobs.setdefault(entry.car.name, where.span)
        elif items and isinstance(items[0][0], Symbol):
            table = self.variants if word == "defvariant" else self.sweeps
            table.setdefault(items[0][0].name, (items[1:], place.span))

    def hides(self, head: str, name: str, found: Collection[str]) -> bool:
        """Whether a name that is not `found`, nor nearly so, may be declared all the same, by a form that failed."""
        return name not in found and (self.lenient or (head in self.torn and nearest(name, found) is None))

    def lacks(self, selection: Selection) -> bool:
        """Whether the selection names something that is not declared here."""
        named = {_folded(text.partition("=")[0], self.knobs) for text in selection.sets}
        return (
            not named <= self.knobs.keys()
            or (selection.variant is not None and selection.variant not in self.variants)
            or (selection.sweep is not None and selection.sweep not in self.sweeps)
        )


def select(selection: Selection, declared: Declared, report: Callable[[Diagnostic], None]) -> Selected:
    """Which value each knob gets (set over point over variant); E-KNOB-001, -002, -004 for unknown names.

    Of several wrong `--set`, all but the last are reported and the last is raised.
    """
    chosen = Selected(selection.variant)
    everything = evolve(declared, lenient=True)  # a knob that a variant misspells is told where that is evaluated
    if selection.variant is not None and not declared.hides("defvariant", selection.variant, declared.variants):
        items, _ = _declared(declared.variants, selection.variant, "variant")
        for knob, (form, place) in _pairs(items, everything):
            chosen.given[knob] = _Given(form, place, "variant")
    if selection.sweep is not None and not declared.hides("defsweep", selection.sweep, declared.sweeps):
        items, span = _declared(declared.sweeps, selection.sweep, "sweep")
        points = list(sweep_points(items, everything))
        index = selection.point or 0
        if not 0 <= index < len(points):
            raise error("E-KNOB-004", f"the sweep `{selection.sweep}` has no point {index}", span,
                        expected=f"0 to {len(points) - 1}")  # fmt: skip
        chosen.point = f"{selection.sweep}/{index}"
        for knob, (form, place) in points[index].items():
            chosen.given[knob] = _Given(form, place, "point")
    wrong: list[SxError] = []
    for text in selection.sets:
        name, _, value = text.partition("=")
        knob = _folded(name, declared.knobs)
        if declared.hides("defknobs", knob, declared.knobs):
            continue
        try:
            if knob not in declared.knobs:
                raise _unknown_knob(knob, declared, None)
            chosen.given[knob] = _read_set(knob, value)
        except SxError as fault_:
            wrong.append(fault_)
    for earlier in wrong[:-1]:
        report(earlier.diagnostic)
    if wrong:
        raise wrong[-1]
    return chosen


def _folded(name: str, table: Mapping[str, Any]) -> str:
    """A name of the command line, in lower case as the reader makes it, unless one is declared as it stands."""
    return name if name in table else name.lower()


def _declared(table: dict[str, tuple[Items, Span]], name: str, what: str) -> tuple[Items, Span]:
    found = table.get(name)
    if found is not None:
        return found
    near = nearest(name, table)
    help = f"did you mean `{near}`?" if near else f"the file's {what}s: {' '.join(table) or 'none'}"
    raise error("E-KNOB-002", f"the file has no {what} `{name}`", help=help)


def _unknown_knob(name: str, declared: Declared, place: Place | None) -> SxError:
    near = nearest(name, declared.knobs)
    help = f"did you mean `{near}`?" if near else f"the file's knobs: {' '.join(declared.knobs) or 'none'}"
    own = Note("only the file's own defknobs count here: what a required module declares keeps its default")
    notes = [own] if place is None and near is None else []
    span = place.span if place is not None else None
    fix = replaced(place, name, near) if place is not None and near else ()
    return error("E-KNOB-001", f"the file declares no knob `{name}`", span, help=help, fix=fix, notes=notes)


def variant_changes(items: Items, declared: Declared) -> dict[str, Any]:
    """The form of each knob that a variant sets; E-KNOB-001, -005 for what is no knob."""
    return {knob: form for knob, (form, _) in _pairs(items, declared)}


def _pairs(items: Items, declared: Declared) -> Iterator[tuple[str, tuple[Any, Place]]]:
    met: set[str] = set()
    for entry, where in items:
        parts = items_of(entry, where, VARIANT) if isinstance(entry, Cons) else []
        if len(parts) != 2 or not isinstance(parts[0][0], Symbol):
            raise fault(where, "E-KNOB-005", f"expected (knob value), found {show(entry)}")
        if declared.hides("defknobs", parts[0][0].name, declared.knobs):
            continue
        if parts[0][0].name not in declared.knobs:
            raise _unknown_knob(parts[0][0].name, declared, parts[0][1])
        if parts[0][0].name in met:
            raise _twice(parts[0][0].name, parts[0][1])
        met.add(parts[0][0].name)
        yield parts[0][0].name, parts[1]


def _twice(knob: str, place: Place) -> SxError:
    return fault(place, "E-KNOB-007", f"the knob `{knob}` is given twice here")


Point = dict[str, tuple[Any, Place]]


def sweep_points(items: Items, declared: Declared) -> Iterator[Point]:
    """The points of a sweep: the grid of its entries, the last varying fastest; `:zip` lists go together."""
    axes: list[list[Point]] = []
    met: set[str] = set()
    for entry, where in items:
        parts = items_of(entry, where, SWEEP) if isinstance(entry, Cons) else []
        if not parts or not isinstance(parts[0][0], Symbol):
            raise fault(where, "E-KNOB-005", f"expected (knob value...), found {show(entry)}")
        if parts[0][0] is keyword("zip"):
            columns = [_column(part, at, declared, met) for part, at in parts[1:]]
            if not columns:
                raise fault(where, "E-KNOB-005", "a :zip takes lists (knob value...)")
            if len({len(column) for column in columns}) > 1:
                raise fault(where, "E-KNOB-004", "the lists of a :zip have different lengths")
            axes.append([dict(pair for point in row for pair in point.items()) for row in zip(*columns, strict=True)])
        else:
            axes.append(_column(entry, where, declared, met))
    if math.prod(map(len, axes)) > MOST_POINTS:
        raise fault(items[0][1], "E-LIMIT-003", f"the sweep has more than {MOST_POINTS:,} points")
    for combination in itertools.product(*axes):
        yield {knob: value for point in combination for knob, value in point.items()}


def _column(entry: Any, where: Place, declared: Declared, met: set[str]) -> list[Point]:
    parts = items_of(entry, where, SWEEP) if isinstance(entry, Cons) else []
    if len(parts) < 2 or not isinstance(parts[0][0], Symbol):
        raise fault(where, "E-KNOB-005", f"expected (knob value...), found {show(entry)}")
    name = parts[0][0].name
    if declared.hides("defknobs", name, declared.knobs):
        return [{} for _ in parts[1:]]
    if name not in declared.knobs:
        raise _unknown_knob(name, declared, parts[0][1])
    if name in met:
        raise _twice(name, parts[0][1])
    met.add(name)
    return [{name: value} for value in parts[1:]]


def _read_set(knob: str, text: str) -> _Given:
    source = Source(f"--set {knob}", text)
    found: list[Diagnostic] = []
    forms = read_text(source, found.append)
    wrong = next((d.message for d in found if d.severity == "error"), None)
    if NO_TEXT.search(text) is not None:
        wrong = "bytes that are not UTF-8"  # an argument has no NUL
    if wrong is not None or len(forms) != 1:
        raise bad_set(source, wrong or "expected one value")

    def refuse(form: Any) -> Any:
        raise bad_set(source, "`#.` is for a file, a flag has the value itself")

    value = substitute_read_eval(forms[0].datum, refuse)
    return _Given(value, Place(source, forms[0].start, forms[0].end), "set", literal=True)


# The forms.


def define_knobs(session: Session, module: Module, form: Cons, place: Place) -> Any:
    """`(defknobs ...)`: each name becomes a global lexical variable with its selected value."""
    for entry, where in items_of(form.cdr, place, KNOBS):
        parts = items_of(entry, where, KNOBS) if isinstance(entry, Cons) else []
        if len(parts) < 2 or len(parts) % 2 or not isinstance(parts[0][0], Symbol):
            raise fault(where, "E-KNOB-005", f"a knob is (name default ...), found {show(entry)}")
        name = parts[0][0]
        Analyzer(session, module).forbid_constant(name, parts[0][1], "a knob")
        _declare_once(session, name, parts[0][1])
        options = options_of(parts[2:])
        default = session.evaluate_form(parts[1][0], module, parts[1][1])
        given = session.selected.given.get(name.name)
        value: Any = default
        source: KnobSource = "default"
        value_place = parts[1][1]
        if given is not None:
            value_place, source = given.place, given.source
            value = (
                as_kind(given.form, text_at(given.place), default, options)
                if given.literal
                else session.evaluate_form(given.form, module, given.place)
            )
        try:
            if given is not None and type(default) is float and type(value) is int:
                value = as_float(name, value, value_place)
            check_value(name, value, default, options, value_place)
        except SxError as wrong:
            if source != "set":
                raise
            session.diagnostics.report(wrong.diagnostic)  # the other values given are looked at all the same
            value, source = default, "default"
        session.define_variable(module, name, "lexical", value, parts[0][1])
        session.selected.knobs.append(KnobValue(name.name, print_form(value), source))
        session.selected.declarations.append(declaration(name.name, default, options))
        session.selected.variables.append((module.variables[name], parts[0][1]))
        session.selected.kinds[name.name] = (default, options)
    waiting, session.selected.waiting = session.selected.waiting, []
    _check_values(session, waiting)
    return symbol("defknobs")


def _check_values(session: Session, values: list[tuple[str, Any, Place, Module]]) -> None:
    """What is wrong with the values that a variant or sweep gives; those of knobs not yet declared wait for them."""
    wrong: list[SxError] = []
    for name, form, place, module in values:
        kind = session.selected.kinds.get(name)
        given = session.selected.given.get(name)
        if kind is None:
            session.selected.waiting.append((name, form, place, module))
        elif given is None or given.place != place:  # the selected value has been looked at
            try:
                check_value(symbol(name), session.evaluate_form(form, module, place), *kind, place)
            except Exception as raw:
                found = session.explained(raw)
                if found.diagnostic.span is None:
                    found.diagnostic = evolve(found.diagnostic, span=place.span)
                wrong.append(found)
    if wrong:
        wrong[0].others = tuple(found.diagnostic for found in wrong[1:])
        raise wrong[0]


def _declare_once(session: Session, name: Symbol, place: Place) -> None:
    """E-KNOB-007 where a knob of this name is declared already."""
    first = next((at for variable, at in session.selected.variables if variable.name is name), None)
    if first is not None:
        notes = (Note("the first declaration is here", first.span),)
        raise fault(place, "E-KNOB-007", f"the knob `{name.name}` is declared twice", notes=notes)


def define_variant(session: Session, module: Module, form: Cons, place: Place) -> Any:
    """`(defvariant name ...)` or `(defsweep name ...)`: checked, and its name given."""
    word = form.car.name
    shape = VARIANT if word == "defvariant" else SWEEP
    items = items_of(form.cdr, place, shape)
    if not items or not isinstance(items[0][0], Symbol):
        raise malformed(place, shape, f"{word} needs a name")
    declared = Declared({knob.name: place.span for knob in session.selected.knobs})
    session.declared.note(form, place)
    declared.knobs.update(session.declared.knobs)
    declared.torn.update(session.declared.torn, ("defknobs",) if session.failed("defknobs") else ())
    key = (module, word, items[0][0].name)
    if key in session.selected.variants:
        notes = (Note("the first declaration is here", session.selected.variants[key]),)
        raise fault(items[0][1], "E-KNOB-007", f"the {word[3:]} `{key[2]}` is declared twice", notes=notes)
    session.selected.variants[key] = place.span
    if word == "defvariant":
        values = list(_pairs(items[1:], declared))
    else:
        if len(items) == 1:
            raise fault(place, "E-KNOB-005", "a sweep takes at least one (knob value...)")
        values = _swept(items[1:], declared)
    _check_values(session, [(knob, form, where, module) for knob, (form, where) in values])
    return items[0][0]


def _swept(items: Items, declared: Declared) -> list[tuple[str, tuple[Any, Place]]]:
    """Each value of each knob of a sweep, once."""
    found = {(knob, where.start): (knob, (form, where)) for point in sweep_points(items, declared)
             for knob, (form, where) in point.items()}  # fmt: skip
    return list(found.values())


def report_unread(session: Session) -> None:
    """W-KNOB-001 for each knob that no code refers to, not even misspelt."""
    meant = {d.help for d in session.diagnostics.errors}
    for variable, place in session.selected.variables:
        if id(variable) not in session.used and f"did you mean `{variable.name.name}`?" not in meant:
            session.diagnostics.report(
                warning("W-KNOB-001", f"nothing reads the knob `{variable.name.name}`", place.span)
            )
