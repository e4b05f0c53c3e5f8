"""The `loop` macro: its clauses into a block, a `let*` and a `tagbody`.

    (block name
      (let* (bindings...)
        (tagbody
          initially... first-steps...
         %loop-top
          shared-steps... body... later-steps...
          (go %loop-top)
         %loop-end
          finally...)
        result))

Steps before the first clause that every iteration runs alike are written twice, for the first iteration and
for the later ones; the rest once. Variables that a closure in the body may hold are bound afresh around it.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import define, field

from sexpgpu.diag import Culprit, SxError, error, nearest
from sexpgpu.lang.active import active
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL, Cons, Symbol, T, lisp_list, symbol
from sexpgpu.lang.loop_clauses import END_TAG, Clauses, at_element, call, leave_when
from sexpgpu.lang.loop_for import Setting, Stepper, initial_value, parse_for, parse_repeat, parse_with
from sexpgpu.lang.printer import brief

library = Library("loop")

TOP_TAG: Final = symbol("%loop-top")

_COLLECTS: Final = {
    "collect": "%loop-collect",
    "collecting": "%loop-collect",
    "append": "%loop-append",
    "appending": "%loop-append",
    "nconc": "%loop-join",
    "nconcing": "%loop-join",
}
_COUNTS: Final = {"sum": "sum", "summing": "sum", "count": "count", "counting": "count"}
_EXTREMES: Final = {"maximize": "max", "maximizing": "max", "minimize": "min", "minimizing": "min"}
_TESTS: Final = {"when": False, "if": False, "unless": True}
_WORDS: Final = (
    *_COLLECTS, *_COUNTS, *_EXTREMES, *_TESTS, "for", "as", "with", "repeat", "while", "until", "do", "doing",
    "always", "never", "thereis", "initially", "finally", "return", "named",
)  # fmt: skip
_CLOSURES: Final = frozenset({"lambda", "function", "flet", "labels", "defun"})


@define
class Accumulation:
    """One result in the making: its variable, and for lists the collector behind it."""

    family: str
    variable: Symbol
    collector: Symbol | None = None


@define
class Loop:
    """What the clauses read so far have asked for."""

    clauses: Clauses
    name: Any = NIL
    steppers: list[Stepper] = field(factory=list)
    initially: list[Any] = field(factory=list)
    body: list[Any] = field(factory=list)
    finally_: list[Any] = field(factory=list)
    result: Any = NIL
    accumulations: dict[Any, Accumulation] = field(factory=dict)
    tested: bool = False  # an always, never or thereis has been met

    def leave_with(self, value: Any) -> Any:
        return call("return-from", self.name, value)


@library.macro("loop", "(loop clause...) or (loop form...)")
def expand_loop(form: Cons) -> Any:
    """The extended loop when its first element is a word, else the endless one over its forms."""
    cells: list[Cons] = []
    while isinstance(rest := (cells[-1] if cells else form).cdr, Cons):
        cells.append(rest)
    forms = [cell.car for cell in cells]
    if all(isinstance(part, Cons) for part in forms):
        return call("block", NIL, lisp_list([symbol("tagbody"), TOP_TAG, *forms, call("go", TOP_TAG)]))
    loop = Loop(Clauses(forms, cells))
    if loop.clauses.accept("named"):
        loop.name = loop.clauses.form("named")
    while loop.clauses.position < len(forms):
        _clause(loop)
    return _assembled(loop)


@library.macro("loop-finish", "(loop-finish)")
def expand_loop_finish(form: Cons) -> Any:
    """Leave the innermost `loop` by way of its `finally` clauses and its result."""
    return call("go", END_TAG)


def _clause(loop: Loop) -> None:
    """Read one clause of the top level."""
    clauses = loop.clauses
    if clauses.accept("for", "as"):
        loop.steppers.append(parse_for(clauses))
    elif clauses.accept("with"):
        loop.steppers.append(parse_with(clauses))
    elif clauses.accept("repeat"):
        loop.steppers.append(parse_repeat(clauses))
    elif clauses.accept("while"):
        loop.body.append(call("unless", clauses.form("while"), call("go", END_TAG)))
    elif clauses.accept("until"):
        loop.body.append(leave_when(clauses.form("until")))
    elif clauses.accept("initially"):
        loop.initially += clauses.compound_forms("initially")
    elif clauses.accept("finally"):
        if clauses.accept("return"):
            loop.finally_.append(loop.leave_with(clauses.form("return")))
        else:
            clauses.accept("do", "doing")
            loop.finally_ += clauses.compound_forms("finally")
    elif word := clauses.accept("always", "never", "thereis"):
        _boolean(loop, word)
    else:
        loop.body += _selectable(loop, None)


def _boolean(loop: Loop, word: str) -> None:
    form = loop.clauses.form(word)
    if None in loop.accumulations:
        raise _two_results(word, "what is accumulated without `into`")
    loop.tested = True
    if word == "thereis":
        found = Symbol("found")
        loop.body.append(
            call("let", lisp_list([lisp_list([found, form])]), call("when", found, loop.leave_with(found)))
        )
        return
    loop.body.append(call("unless" if word == "always" else "when", form, loop.leave_with(NIL)))
    loop.result = T


def _two_results(word: str, other: str) -> SxError:
    return error("E-MACRO-010", f"loop: `{word}` and {other} cannot both give the result")


def _selectable(loop: Loop, it: Symbol | None) -> list[Any]:
    """One clause that a condition may guard: `it` is the variable that holds the condition's value."""
    clauses = loop.clauses
    word = clauses.word()
    if word in ("do", "doing"):
        clauses.accept(word)
        return clauses.compound_forms(word)
    if clauses.accept("return"):
        return [loop.leave_with(_form_or_it(loop, "return", it))]
    if word in _TESTS:
        return [_conditional(loop)]
    if word in _COLLECTS or word in _COUNTS or word in _EXTREMES:
        clauses.accept(str(word))
        return [_accumulate(loop, str(word), it)]
    raise _unknown(loop)


def _unknown(loop: Loop) -> SxError:
    clauses = loop.clauses
    if clauses.position >= len(clauses.forms):
        culprit = Culprit(function="loop", argument=clauses.position)
        return error("E-MACRO-010", "loop: a clause is missing at its end", culprit=culprit)
    found, word = clauses.forms[clauses.position], clauses.word()
    near = nearest(word, _WORDS) if word else None
    hint = f"did you mean `{near}`?" if near else "write `do` before a form that is only run"
    if word == "and":
        hint = "`and` joins the clauses behind a `when`, `if` or `unless`; others follow each other without it"
    culprit = Culprit(word=word, function="loop", argument=clauses.position + 1, instead=near)
    return error("E-MACRO-010", f"loop: a clause cannot begin with {brief(found)}", help=hint, culprit=culprit)


def _form_or_it(loop: Loop, word: str, it: Symbol | None) -> Any:
    if it is not None and loop.clauses.accept("it"):
        return it
    return loop.clauses.form(word)


def _conditional(loop: Loop) -> Any:
    """`when test clause [and clause]... [else clause [and clause]...] [end]`."""
    clauses = loop.clauses
    word = str(clauses.accept(*_TESTS))
    test = clauses.form(word)
    it = Symbol("it")
    then = _branch(loop, it)
    otherwise = _branch(loop, it) if clauses.accept("else") else []
    clauses.accept("end")
    if _TESTS[word]:
        then, otherwise = otherwise, then
    uses_it = any(_mentions(part, it) for part in (*then, *otherwise))
    choice = call("if", it if uses_it else test, call("progn", *then), call("progn", *otherwise))
    return call("let", lisp_list([lisp_list([it, test])]), choice) if uses_it else choice


def _branch(loop: Loop, it: Symbol) -> list[Any]:
    forms = _selectable(loop, it)
    while loop.clauses.accept("and"):
        forms += _selectable(loop, None)  # `it` is the condition's value only for the first
    return forms


def _mentions(form: Any, name: Symbol) -> bool:
    pending = [form]
    while pending:
        item = pending.pop()
        while isinstance(item, Cons):
            pending.append(item.car)
            item = item.cdr
        if item is name:
            return True
    return False


def _accumulate(loop: Loop, word: str, it: Symbol | None) -> Any:
    clauses = loop.clauses
    form = _form_or_it(loop, word, it)
    cell = clauses.cells[clauses.position - 1]
    target: Any = None
    if clauses.accept("into"):
        target = clauses.form("into")
        if not isinstance(target, Symbol) or target is NIL:
            raise error("E-MACRO-010", f"loop: `into` needs a variable, got {brief(target)}")
    kind: Any = NIL
    if clauses.accept("of-type"):
        kind = clauses.form("of-type")
    elif clauses.word() in ("fixnum", "float"):
        kind = clauses.form(word)
    family = "list" if word in _COLLECTS else "number" if word in _COUNTS else "extreme"
    into = _accumulation(loop, target, family, word, _zero(kind))
    variable = into.variable
    if into.collector is not None:
        grown = at_element(call(_COLLECTS[word], into.collector, form), cell)
        return grown if target is None else call("setq", variable, grown)
    if word in _EXTREMES:
        better = call("%loop-extreme", call("quote", symbol(_EXTREMES[word])), variable, form)
        return call("setq", variable, at_element(better, cell))
    if _COUNTS[word] == "sum":
        return call("setq", variable, at_element(call("%loop-sum", variable, form), cell))
    return call("when", form, call("setq", variable, call("+", variable, 1)))


def _zero(kind: Any) -> Any:
    """What a sum of a declared type begins with."""
    start = initial_value(kind)
    return start if type(start) is float else 0


def _accumulation(loop: Loop, target: Any, family: str, word: str, zero: Any) -> Accumulation:
    known = loop.accumulations.get(target)
    if known is not None:
        if known.family != family:
            where = "without `into`" if target is None else f"into {brief(target)}"
            raise error(
                "E-MACRO-010",
                f"loop: `{word}` {where} cannot be mixed with what else goes there",
                help="give each its own variable with `into`",
            )
        return known
    variable = target or Symbol("result")
    start = zero if family == "number" else NIL
    bindings: list[Setting] = [(variable, start)]
    made = Accumulation(family, variable)
    result: Any = variable
    if family == "list":
        made.collector = Symbol("collector")
        collecting = (made.collector, call("%loop-list"))
        result = call("cdr", made.collector)
        bindings = [collecting] if target is None else [*bindings, collecting]
    loop.steppers.append(Stepper(bindings=bindings))
    loop.accumulations[target] = made
    if target is None:
        if loop.tested:
            raise _two_results(word, "always, never or thereis")
        loop.result = result
    return made


def _assembled(loop: Loop) -> Any:
    doubled, shared = _divided(loop.steppers)
    first, later, once = Symbol("first"), [], []
    for stepper in doubled:
        later += stepper.code(stepper.later)
    bindings = [binding for stepper in loop.steppers for binding in stepper.bindings]
    _check_distinct(bindings)
    differs = [stepper for stepper in shared if not stepper.uniform]
    for stepper in shared:
        if stepper.uniform:
            once += stepper.code(stepper.first)
        else:
            choice = [call("progn", *stepper.code(settings)) for settings in (stepper.first, stepper.later)]
            once.append(call("if", first, *choice))
    if differs:
        bindings.append((first, T))
        once.append(call("setq", first, NIL))
    start = [form for stepper in doubled for form in stepper.code(stepper.first)]
    # A special variable cannot stand for another by a symbol macro.
    variables = [n for stepper in loop.steppers for n in stepper.variables if not n.name.startswith("*")]
    body = loop.body
    if variables and any(map(_may_capture, body)):
        return _wrapped(loop, bindings, start, once, later, variables)
    return _whole(loop, bindings, [*loop.initially, *start], [*once, *body, *later])


def _check_distinct(bindings: list[Setting]) -> None:
    """E-MACRO-010 where two clauses bind the same variable."""
    met: set[Symbol] = set()
    for name, _ in bindings:
        if isinstance(name, Symbol) and name.interned:
            if name in met:
                raise error("E-MACRO-010", f"loop: the variable `{name.name}` is bound by two clauses")
            met.add(name)


def _divided(steppers: list[Stepper]) -> tuple[list[Stepper], list[Stepper]]:
    """The steppers whose steps are written twice, and those from the first long uniform one on."""
    moving = [stepper for stepper in steppers if stepper.before or stepper.first or stepper.later]
    last_differing = max((at for at, stepper in enumerate(moving) if not stepper.uniform), default=-1)
    cut = next((at for at, stepper in enumerate(moving) if stepper.uniform and _is_long(stepper)), last_differing + 1)
    cut = min(cut, last_differing + 1)
    return moving[:cut], moving[cut:]


def _is_long(stepper: Stepper) -> bool:
    # Only `for x = form` repeats a form of the user's own in every copy of its steps.
    return any(isinstance(form, Cons) and not stepper.before for _, form in stepper.first)


def _whole(loop: Loop, bindings: list[Setting], start: list[Any], turn: list[Any]) -> Any:
    walk = call("tagbody", *start, TOP_TAG, *turn, call("go", TOP_TAG), END_TAG, *loop.finally_)
    inner = [walk, loop.result] if loop.result is not NIL else [walk, NIL]
    pairs = lisp_list([lisp_list(binding) for binding in bindings])
    return call("block", loop.name, call("let*", pairs, *inner))


def _may_capture(form: Any) -> bool:
    """Whether a form makes closures, as far as its text shows; a macro of the user's own may always do so."""
    pending = [form]
    while pending:
        item = pending.pop()
        if isinstance(item, Cons) and isinstance(item.car, Symbol):
            macro = active().macro_named(item.car, NIL)
            if item.car.name in _CLOSURES or (macro is not None and not macro.quiet):
                return True
        while isinstance(item, Cons):
            pending.append(item.car)
            item = item.cdr
    return False


def _wrapped(
    loop: Loop,
    bindings: list[Setting],
    start: list[Any],
    once: list[Any],
    later: list[Any],
    variables: list[Symbol],
) -> Any:
    """The loop with its variables bound afresh around the body, and stored back behind it.

    The steps work on hidden variables, which they know under the visible names by symbol macros.
    """
    hidden = {name: Symbol(name.name) for name in variables}
    fresh = lisp_list([lisp_list([name, outer]) for name, outer in hidden.items()])
    back = [call("setq", outer, name) for name, outer in hidden.items()]
    turn = call("let", fresh, *loop.body, *back)
    form = call(
        "tagbody",
        *loop.initially,
        *start,
        TOP_TAG,
        *once,
        turn,
        *later,
        call("go", TOP_TAG),
        END_TAG,
        *loop.finally_,
    )
    form = call("progn", form, loop.result)
    for name, value in reversed(bindings):
        outer = hidden.get(name)
        if outer is None:
            form = call("let", lisp_list([lisp_list([name, value])]), form)
        else:
            alias = lisp_list([lisp_list([name, outer])])
            binding = lisp_list([lisp_list([outer, value])])
            form = call("let", binding, call("symbol-macrolet", alias, form))
    return call("block", loop.name, form)
