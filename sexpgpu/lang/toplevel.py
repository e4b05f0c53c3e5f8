"""Evaluation of a file: its top-level forms in order, each error reported and the next form taken up."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from sexpgpu.diag import Diagnostic, Diagnostics, Note, Span, SxError
from sexpgpu.lang.analyze.arguments import mismatch
from sexpgpu.lang.analyze.core import DEEPEST_EXPANSION, Analyzer, endless_expansion
from sexpgpu.lang.analyze.definition import defined_function, defined_macro
from sexpgpu.lang.analyze.grammar import SPECIALS, items_of
from sexpgpu.lang.analyze.handling import missing_types
from sexpgpu.lang.analyze.mentions import note_mentions
from sexpgpu.lang.analyze.misspelt import meant_form
from sexpgpu.lang.analyze.suggest import unknown_function
from sexpgpu.lang.builtin import Parameters, show
from sexpgpu.lang.compiler import bare_scope, compile_function
from sexpgpu.lang.conditions import Poisoned
from sexpgpu.lang.failed import KNOBS, PROGN, REQUIRE, defined_name, poison
from sexpgpu.lang.forms import NIL, Cons, Source, Symbol, all_values, symbol
from sexpgpu.lang.functions import FunctionInfo, info_of_function
from sexpgpu.lang.ir import FunctionIR, Node
from sexpgpu.lang.limits import out_of_steps
from sexpgpu.lang.module import FunctionCell, Module, Upcoming, call_shape
from sexpgpu.lang.place import Place
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.reader import QUOTE, read_text
from sexpgpu.lang.readform import ReadForm
from sexpgpu.lang.readtime import substitute_read_eval
from sexpgpu.lang.redefinition import warn_handled
from sexpgpu.lang.runtime import Exit, Thrown
from sexpgpu.lang.selection import Declared, Selection, define_knobs, define_variant, report_unread, select
from sexpgpu.lang.unopened import Reading, reopened
from sexpgpu.lang.unread import Unread, enter, unread

if TYPE_CHECKING:
    from sexpgpu.lang.session import Session

DEFUN: Final = symbol("defun")
DEFMACRO: Final = symbol("defmacro")
PROVIDE: Final = symbol("provide")
EVAL_WHEN: Final = symbol("eval-when")
VARIANTS: Final = (symbol("defvariant"), symbol("defsweep"))
DEFINING: Final = frozenset(
    symbol(name) for name in ("def", "defvar", "defparameter", "defconstant", "define-symbol-macro", "deftype")
)
_TOP: Final = Parameters("()")


@frozen
class FormResult:
    """A top-level form's values. `name` is what a defining form defined, `bound` the value that name then had.

    `output` is the text printed since the form before it that gave a result.
    """

    span: Span
    values: tuple[Any, ...]
    name: str | None = None
    bound: Any = None
    output: str = ""

    @property
    def line(self) -> str:
        """What `eval` prints: `name = value` of a definition, else the value, or `#<values ...>`.

        A value without end is an error at the form that gave it (E-LIMIT-004).
        """
        try:
            return self._line()
        except SxError as wrong:
            raise SxError(evolve(wrong.diagnostic, span=self.span)) from wrong

    def _line(self) -> str:
        if self.bound is not None:
            return f"{self.name} = {print_form(self.bound)}"
        if len(self.values) == 1:
            return print_form(self.values[0])
        return f"#<values{''.join(' ' + print_form(value) for value in self.values)}>"


def evaluate(session: Session, module: Module, source: Source, selection: Selection | None = None) -> list[FormResult]:
    """Evaluate every form of a source; afterwards what no form has called yet is checked.

    Raises when the selection names what the file does not declare: nothing is evaluated then.
    """
    found = unread(session, module, source)
    forms = _read(session, module, source) if found is None else [form for form in found if isinstance(form, ReadForm)]
    _prescan(session, module, found or forms)
    if selection is not None:
        session.selected = select(selection, _declarations(session, forms, selection), session.diagnostics.report)
    module.torn = next((form.fault for form in forms if form.torn), None)
    results: list[FormResult] = []
    printed = session.output.mark
    for form in found or forms:
        if isinstance(form, Unread):
            enter(session, module, form)
            module.upcoming.pop(form.name, None)
            continue
        place = Place(source, form.start, form.end)
        if not session.steps_left:
            if session.exhausted is None:
                session.diagnostics.report(out_of_steps(session.limits.steps).diagnostic.at(place.span))
            break
        name = defined_name(form.datum)
        if form.fault is not None:
            poison(session, module, form.datum, form.fault)
            continue
        try:
            value = _evaluate_one(session, module, form, place)
        except (Exit, Thrown) as exit:  # an exit whose target is gone is reported where it was made
            raise AssertionError("a non-local exit passed a top-level form") from exit
        except Exception as raw:
            known = session.explained(raw)
            if known.diagnostic.span is None:  # it was raised outside all compiled code
                known.diagnostic = evolve(known.diagnostic, span=place.span)
            session.handlers.clear()
            session.catchers.clear()
            for diagnostic in (known.diagnostic, *known.others):
                session.diagnostics.report(diagnostic)
            poison(session, module, form.datum, known.diagnostic)
            continue
        made = _result(module, form.datum, name, value, place)
        results.append(evolve(made, output=session.output.since(printed)))
        printed = session.output.mark
        if name is not None:
            module.upcoming.pop(name, None)
    if not session.steps_left:  # what was not evaluated is not at fault
        return results
    if not (module.internal or module.standard):  # a test analyses the standard modules whole
        _check_uncalled(session, module)
        session.modules.check_provided(module)
    if selection is not None and all(form.fault is None for form in forms):
        report_unread(session)
    module.upcoming.clear()
    return results


def _read(session: Session, module: Module, source: Source) -> list[ReadForm]:
    """The forms of a source, after reporting what is wrong with its text."""
    told: list[Diagnostic] = []
    reading = reopened(module, Reading(read_text(source, told.append, module.aliases), told))
    for diagnostic in reading.told:
        session.diagnostics.report(diagnostic)
    return reading.forms


def _result(module: Module, form: Any, name: Symbol | None, value: Any, place: Place) -> FormResult:
    """The result of a form, with the value of what it defined: a function for defun, else a variable or function."""
    values = all_values(value)
    if name is None:
        head = form.car.name if isinstance(form, Cons) and isinstance(form.car, Symbol) else ""
        told = head.startswith("def") and len(values) == 1 and not isinstance(values[0], Symbol)
        return FormResult(place.span, values, head or None, values[0] if told else None)
    variable, cell = module.variables.get(name), module.functions.get(name)
    bound = None
    if variable is not None and variable.ref and form.car is not DEFUN:
        bound = variable.ref[0]
    elif cell is not None and cell.defined and form.car is not DEFMACRO:
        bound = cell.ref[0]
    return FormResult(place.span, values, name.name, bound)


def _declarations(session: Session, forms: list[ReadForm], selection: Selection) -> Declared:
    """What the top-level forms declare; where that does not hold the selection, what macros in them write too."""
    declared = session.declared = Declared()
    for form in forms:
        if form.fault is None:
            declared.note(form.datum, Place(form.source, form.start, form.end))
        elif isinstance(form.datum, Cons) and form.datum.car is KNOBS:
            declared.torn.add(KNOBS.name)
        if (meant := meant_form(session.module, form.datum)) is not None:
            declared.torn.add(meant.name)
    if declared.lacks(selection):
        _declared_by_macros(session, forms, declared)
    return declared


def _declared_by_macros(session: Session, forms: list[ReadForm], declared: Declared) -> None:
    """Evaluate the file's definitions in a module of their own and expand the macro calls at its top.

    No other form is evaluated, so nothing is declared twice; errors are left to the evaluation proper.
    """
    module = session.new_module("declarations", "")
    outer, session.diagnostics = session.diagnostics, Diagnostics()
    try:
        for form in forms:
            if form.fault is None:
                place = Place(form.source, form.start, form.end)
                with suppress(SxError):
                    _expand_declarations(session, module, form.datum, place, declared)
    finally:
        session.diagnostics = outer
        session.deferred.clear()


def _expand_declarations(session: Session, module: Module, form: Any, place: Place, declared: Declared) -> None:
    form, _ = Analyzer(session, module).macroexpand(form, bare_scope(), place)
    if not isinstance(form, Cons):
        return
    if form.car is PROGN:
        for part, where in items_of(form.cdr, place, "(progn form...)"):
            _expand_declarations(session, module, part, where, declared)
    elif form.car in (DEFUN, DEFMACRO, REQUIRE) or form.car in DEFINING:
        evaluate_form(session, module, form, place)
    declared.note(form, place)


def _evaluate_one(session: Session, module: Module, form: ReadForm, place: Place) -> Any:
    datum = form.datum
    if form.read_eval:
        datum = substitute_read_eval(datum, lambda inner: evaluate_form(session, module, inner, place))
    return evaluate_form(session, module, datum, place)


def evaluate_form(session: Session, module: Module, form: Any, place: Place) -> Any:
    """All values of a form; `progn` at the top evaluates its parts one after the other."""
    analyzer = Analyzer(session, module)
    scope = bare_scope()
    expansions = 0
    while isinstance(form, Cons) and isinstance(form.car, Symbol):
        head = form.car
        if head is PROGN:
            value: Any = NIL
            for part, where in items_of(form.cdr, place, "(progn form...)"):
                with session.nesting.within("progn"):
                    value = evaluate_form(session, module, part, where)
            return value
        if head is QUOTE and isinstance(form.cdr, Cons) and form.cdr.cdr is NIL:
            return form.cdr.car
        if head in (DEFUN, DEFMACRO):
            return _define(session, module, analyzer, form, place)
        if head is REQUIRE:
            return session.modules.require(module, form, place)
        if head is PROVIDE:
            return session.modules.provide(module, form, place)
        if head is KNOBS:
            return define_knobs(session, module, form, place)
        if head in VARIANTS:
            return define_variant(session, module, form, place)
        if head in SPECIALS:
            break
        macro = module.macro(head)
        if macro is None:
            if meant_form(module, form) is not None:
                note_mentions(session, module, form, None)
                raise unknown_function(module, head, scope, place.of_element(form), form)
            break
        expansions += 1
        if expansions > DEEPEST_EXPANSION:
            raise endless_expansion(head, place)
        call, form = form, analyzer.expand(macro, form, scope, place)
        place = place.expanded(head.name, macro.quiet, call).of_form(form)
    if not isinstance(form, Cons | Symbol):
        return form
    info = FunctionInfo("top level", _TOP, place.span)
    made = FunctionIR(info, None)
    scope.function = made
    made.body = analyzer.analyze(form, scope, place)
    if analyzer.faults:
        first, *others = analyzer.faults
        first.others = tuple(found.diagnostic for found in others)
        raise first
    return compile_function(module, made, place.source.file, place)()


def _define(session: Session, module: Module, analyzer: Analyzer, form: Cons, place: Place) -> Any:
    """A defun or defmacro at the top: entered now, analysed and compiled at its first call."""
    special = SPECIALS[form.car]
    items = items_of(form.cdr, place, special.shape)
    analyzer.check_count(form, items, special.least, special.most, special.shape, place)
    name = items[0][0]
    if form.car is DEFUN:
        key = defined_function(analyzer, items, place)
        block = name.cdr.car if isinstance(name, Cons) else name
        function = session.defer(module, key, block, items, place, macro=False)
        session.define_function(module, key, function, place)
        return name
    name = defined_macro(items, special.shape)
    expander = session.defer(module, name, name, items, place, macro=True)
    session.define_macro(module, name, expander, call_shape(name, show(items[1][0])), place)
    return name


def _prescan(session: Session, module: Module, forms: Sequence[ReadForm | Unread]) -> None:
    """Note what the file will define, so that code above a definition can refer to it."""
    if module.internal:
        return
    for form in forms:
        name = form.name if isinstance(form, Unread) else defined_name(form.datum)
        if name is None or name is NIL:
            continue
        head = form.head if isinstance(form, Unread) else form.datum.car
        span = form.source.span(form.start, form.end)
        module.upcoming.setdefault(name, Upcoming(head.name, span))
        module.heads.setdefault(name, head.name)
        if head is DEFUN and module.base is not None and module.base.function(name) is not None:
            session.declare_function(module, name, Place(form.source, form.start, form.end))


def _check_uncalled(session: Session, module: Module) -> None:
    """Analyse the functions that nothing has called, and report names that nothing has defined."""
    for deferred in list(session.deferred.values()):
        if deferred.module is module:
            with suppress(Poisoned):
                deferred.analyze()
    session.deferred = {k: d for k, d in session.deferred.items() if d.module is not module}
    for cell, (scope, place) in module.undefined_calls:
        _report_undefined(session, module, cell, scope, place)
    module.undefined_calls.clear()
    for cell, (scope, place) in module.handled_calls:
        if _is_missing(module, cell):
            warn_handled(session, module, cell, scope, place)
    module.handled_calls.clear()
    for wrong in missing_types(session, module):
        _report_once(session, wrong)
    for cell, args, place in module.waiting_calls:
        _check_arguments(session, cell, args, place)
    module.waiting_calls.clear()


def _check_arguments(session: Session, cell: FunctionCell, args: list[Node], place: Place) -> None:
    """E-ARG of a call that nothing has made yet, of a function that the file defines once."""
    if cell.redefined or not cell.defined:
        return
    try:
        info = info_of_function(cell.ref[0])
    except SxError:
        return  # the function's own fault, which is reported
    if info is not None:
        note = Note(f"`{info.name}` is defined here", info.span)
        wrong = mismatch(info.name, info.parameters, args, place, (note,))
        if wrong is not None:
            _report_once(session, wrong)


def _report_once(session: Session, found: SxError) -> None:
    diagnostic = found.diagnostic
    if not any(d.code == diagnostic.code and d.span == diagnostic.span for d in session.diagnostics):
        session.diagnostics.report(diagnostic)


def _report_undefined(session: Session, module: Module, cell: FunctionCell, scope: Any, place: Place) -> None:
    if _is_missing(module, cell):
        _report_once(session, unknown_function(module, cell.name, scope, place))


def _is_missing(module: Module, cell: FunctionCell) -> bool:
    if cell.defined or cell.name in module.poisoned:
        return False
    return module.base is None or module.base.function(cell.name) is None
