"""The iteration clauses of `loop`: what `for`, `as`, `repeat` and `with` bind, test, set and advance.

Each clause becomes a `Stepper`. Steppers say separately what the first iteration sets and what the later ones
set, so that `sexpgpu.lang.loop` can write a clause's forms once wherever both agree.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from sexpgpu.diag import Culprit, error, nearest
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list
from sexpgpu.lang.loop_clauses import Clauses, call, leave_when, placed
from sexpgpu.lang.printer import brief

_FLOAT_TYPES = frozenset({"float", "single-float", "double-float", "short-float", "long-float"})
_NUMBER_TYPES = frozenset({"fixnum", "integer", "number", "real", "rational", "bit", "unsigned-byte"})

Setting = tuple[Any, Any]


@frozen
class Stepper:
    """What one iteration clause does.

    `bindings` are made once, before the loop. Each iteration runs `before` (may leave), sets `first` or
    `later`, runs `tests` (may leave) and `advance`. `first is later` where every iteration sets the same.
    """

    bindings: list[Setting] = field(factory=list)
    before: list[Any] = field(factory=list)
    first: list[Setting] = field(factory=list)
    later: list[Setting] = field(factory=list)
    tests: list[Any] = field(factory=list)
    advance: list[Any] = field(factory=list)
    variables: list[Symbol] = field(factory=list)

    @property
    def uniform(self) -> bool:
        return self.first is self.later

    def code(self, settings: list[Setting]) -> list[Any]:
        return [*self.before, *assign(settings), *self.tests, *self.advance]


def pattern_variables(pattern: Any) -> list[Symbol]:
    found: list[Symbol] = []
    pending = [pattern]
    while pending:
        item = pending.pop()
        if isinstance(item, Cons):
            pending += (item.cdr, item.car)
        elif item is not NIL:
            if not isinstance(item, Symbol) or item.keyword:
                raise error("E-MACRO-010", f"loop: {brief(item)} cannot stand for a variable here")
            found.append(item)
    return found


def assign(settings: list[Setting]) -> list[Any]:
    """Forms that set all patterns at once: every value is computed before the first is stored."""
    if len(settings) == 1:
        return destructure(*settings[0])
    if not settings:
        return []
    held = [(Symbol("value"), pattern, form) for pattern, form in settings]
    stores = [store for name, pattern, _ in held for store in destructure(pattern, name)]
    return [call("let", lisp_list(lisp_list((name, form)) for name, _, form in held), *stores)]


def destructure(pattern: Any, form: Any) -> list[Any]:
    """Forms that store the parts of `form`'s value; missing parts are nil, a nil skips a part."""
    if pattern is NIL:
        return [form] if isinstance(form, Cons) else []
    if isinstance(pattern, Symbol):
        return [call("setq", pattern, form)]
    rest = Symbol("rest")
    stores: list[Any] = []
    whole = pattern
    while isinstance(pattern, Cons):
        stores += destructure(pattern.car, placed(call("car", rest), whole)) if pattern.car is not NIL else []
        pattern = pattern.cdr
        if isinstance(pattern, Cons):
            stores.append(call("setq", rest, placed(call("cdr", rest), whole)))
    if pattern is not NIL:
        stores.append(call("setq", pattern, placed(call("cdr", rest), whole)))
    return [call("let", lisp_list((lisp_list((rest, form)),)), *stores)]


def initial_value(kind: Any) -> Any:
    """What a variable of a declared type holds before it is set."""
    head = kind.car if isinstance(kind, Cons) else kind
    word = head.name if isinstance(head, Symbol) else ""
    return 0.0 if word in _FLOAT_TYPES else 0 if word in _NUMBER_TYPES else NIL


def initial_tree(pattern: Any, kind: Any) -> Any:
    """The shape of a pattern with the initial value of each of its variables."""
    if not isinstance(pattern, Cons):
        return NIL if pattern is NIL else initial_value(kind)
    car, cdr = (kind.car, kind.cdr) if isinstance(kind, Cons) else (kind, kind)
    return Cons(initial_tree(pattern.car, car), initial_tree(pattern.cdr, cdr))


def unset(pattern: Any, kind: Any) -> list[Setting]:
    """Every variable of a pattern with its initial value."""
    if not isinstance(pattern, Cons):
        return [] if pattern is NIL else [(pattern, initial_value(kind))]
    car, cdr = (kind.car, kind.cdr) if isinstance(kind, Cons) else (kind, kind)
    return [*unset(pattern.car, car), *unset(pattern.cdr, cdr)]


def parse_with(clauses: Clauses) -> Stepper:
    """`with a = 1 and b = 2`: bindings only; several joined by `and` are made in parallel."""
    settings: list[tuple[Any, Any, Any]] = []
    while True:
        pattern, kind = clauses.pattern("with")
        value = clauses.form("=") if clauses.accept("=") else None
        settings.append((pattern, kind, value))
        if not clauses.accept("and"):
            break
    bindings: list[Setting] = []
    parallel = len(settings) > 1
    held: list[Setting] = []
    for pattern, kind, value in settings:
        start = call("quote", initial_tree(pattern, kind)) if value is None else value
        if parallel:
            name = Symbol("with")
            bindings.append((name, start))
            start = name
        held.append((pattern, start))
    for pattern, start in held:
        bindings += bind(pattern, start)
    return Stepper(bindings=bindings)


def bind(pattern: Any, form: Any) -> list[Setting]:
    """`let*` bindings that take a value apart."""
    if isinstance(pattern, Symbol):
        return [(Symbol("ignored") if pattern is NIL else pattern, form)]
    rest = Symbol("rest")
    bindings: list[Setting] = [(rest, form)]
    while isinstance(pattern, Cons):
        if pattern.car is not NIL:
            bindings += bind(pattern.car, call("car", rest))
        pattern = pattern.cdr
        if isinstance(pattern, Cons):
            bindings.append((rest, call("cdr", rest)))
    if pattern is not NIL:
        bindings.append((pattern, call("cdr", rest)))
    return bindings


def parse_repeat(clauses: Clauses) -> Stepper:
    left = Symbol("left")
    return Stepper(
        bindings=[(left, clauses.form("repeat"))],
        before=[leave_when(call("<=", left, 0))],
        advance=[call("setq", left, call("-", left, 1))],
    )


def parse_for(clauses: Clauses) -> Stepper:
    """One `for` or `as` with those that `and` joins to it."""
    group = [_parse_one(clauses)]
    while clauses.accept("and"):
        clauses.accept("for", "as")
        group.append(_parse_one(clauses))
    if len(group) == 1:
        return group[0]
    return _parallel(group)


def _parallel(group: list[Stepper]) -> Stepper:
    visible = {name for stepper in group for name in stepper.variables}
    renamed: list[Setting] = []
    starts: list[Setting] = []
    for stepper in group:
        for name, form in stepper.bindings:
            if name in visible and form is not NIL:
                hidden = Symbol("start")
                renamed.append((hidden, form))
                starts.append((name, hidden))
            elif name in visible:
                starts.append((name, form))
            else:
                renamed.append((name, form))
    first = [setting for stepper in group for setting in stepper.first]
    uniform = all(stepper.uniform for stepper in group)
    return Stepper(
        bindings=renamed + starts,
        before=[form for stepper in group for form in stepper.before],
        first=first,
        later=first if uniform else [setting for stepper in group for setting in stepper.later],
        tests=[form for stepper in group for form in stepper.tests],
        advance=[form for stepper in group for form in stepper.advance],
        variables=[name for stepper in group for name in stepper.variables],
    )


_ARITHMETIC = ("from", "downfrom", "upfrom", "to", "downto", "upto", "below", "above", "by")


def _parse_one(clauses: Clauses) -> Stepper:
    pattern, kind = clauses.pattern("for")
    variables = pattern_variables(pattern)
    word = clauses.word()
    if word in _ARITHMETIC:
        return _arithmetic(clauses, pattern)
    if clauses.accept("in", "on"):
        return _over_list(clauses, str(word), pattern, kind, variables)
    start = unset(pattern, kind)
    if clauses.accept("="):
        first: list[Setting] = [(pattern, clauses.form("="))]
        later = [(pattern, clauses.form("then"))] if clauses.accept("then") else first
        return Stepper(bindings=start, first=first, later=later, variables=variables)
    if clauses.accept("across"):
        vector, size, index = Symbol("vector"), Symbol("size"), Symbol("index")
        settings: list[Setting] = [(pattern, call("aref", vector, index))]
        return Stepper(
            bindings=[
                *start,
                (vector, call("%loop-vector", clauses.form("across"), clauses.position)),
                (size, call("length", vector)),
                (index, 0),
            ],
            before=[leave_when(call(">=", index, size))],
            first=settings,
            later=settings,
            advance=[call("setq", index, call("+", index, 1))],
            variables=variables,
        )
    if clauses.accept("being"):
        return _over_table(clauses, pattern, start, variables)
    raise _unknown_word(clauses, pattern)


def _unknown_word(clauses: Clauses, pattern: Any) -> Exception:
    words = ("in", "on", "across", "being", "=", *_ARITHMETIC)
    found = clauses.word()
    near = nearest(found, words) if found else None
    got = brief(clauses.forms[clauses.position]) if clauses.position < len(clauses.forms) else "the end"
    return error(
        "E-MACRO-010",
        f"loop: after `for {brief(pattern)}` comes in, on, across, =, being, from, to or below, got {got}",
        help=f"write `{near}`" if near else None,
        culprit=Culprit(word=found, function="loop", argument=clauses.position + 1, instead=near),
    )


def _over_list(clauses: Clauses, word: str, pattern: Any, kind: Any, variables: list[Symbol]) -> Stepper:
    rest = Symbol("rest")
    bindings: list[Setting] = unset(pattern, kind)
    listed = clauses.form(word)
    if word == "in":
        listed = call("%loop-items", listed, clauses.position)
    bindings.append((rest, listed))
    following = call("cdr", rest)
    if clauses.accept("by"):
        step = Symbol("by")
        bindings.append((step, clauses.form("by")))
        following = call("funcall", step, rest)
    settings: list[Setting] = [(pattern, call("car", rest) if word == "in" else rest)]
    return Stepper(
        bindings=bindings,
        before=[leave_when(call("endp" if word == "in" else "atom", rest))],
        first=settings,
        later=settings,
        advance=[call("setq", rest, following)],
        variables=variables,
    )


def _over_table(clauses: Clauses, pattern: Any, start: list[Setting], variables: list[Symbol]) -> Stepper:
    clauses.accept("the", "each")
    what = clauses.accept("hash-key", "hash-keys", "hash-value", "hash-values")
    if what is None:
        raise error("E-MACRO-010", "loop: `being` is followed by the hash-keys or the hash-values of a hash table")
    if not clauses.accept("of", "in"):
        raise error("E-MACRO-010", f"loop: `{what}` is followed by `of` and a hash table")
    pairs, pair = Symbol("pairs"), Symbol("pair")
    bindings = [*start, (pairs, call("%loop-pairs", clauses.form("of"))), (pair, NIL)]
    parts = ("car", "cdr") if what.startswith("hash-key") else ("cdr", "car")
    settings: list[Setting] = [(pattern, call(parts[0], call("car", pairs)))]
    if clauses.accept("using"):
        using = clauses.form("using")
        if not (isinstance(using, Cons) and isinstance(using.cdr, Cons)):
            raise error("E-MACRO-010", f"loop: `using` needs (hash-key k) or (hash-value v), got {brief(using)}")
        other = using.cdr.car
        bindings += unset(other, NIL)
        variables = [*variables, *pattern_variables(other)]
        settings.append((other, call(parts[1], call("car", pairs))))
    return Stepper(
        bindings=bindings,
        before=[leave_when(call("endp", pairs))],
        first=settings,
        later=settings,
        advance=[call("setq", pairs, call("cdr", pairs))],
        variables=variables,
    )


def _arithmetic(clauses: Clauses, pattern: Any) -> Stepper:
    if not isinstance(pattern, Symbol):
        raise error("E-MACRO-010", f"loop: `for … from` needs one variable, got {brief(pattern)}")
    variable = Symbol("counter") if pattern is NIL else pattern
    bindings: list[Setting] = []
    start: Any = 0
    step: Any = 1
    limit: Any = None
    comparison, down, has_start = "", False, False
    while word := clauses.accept(*_ARITHMETIC):
        form = clauses.form(word)
        name = Symbol(word)
        if not isinstance(form, int | float):
            form = call("%loop-number", form, clauses.position, call("quote", name))
            bindings.append((name, form))
            form = name
        if word in ("from", "upfrom", "downfrom"):
            start, has_start = form, True
            down = down or word == "downfrom"
        elif word == "by":
            step = form
        else:
            limit = form
            comparison = {"below": ">=", "above": "<="}.get(word, ">")
            down = down or word in ("downto", "above")
    if down and not has_start:
        raise error("E-MACRO-010", "loop: counting down needs a start", help="write `from n` before the limit")
    if comparison == ">" and down:
        comparison = "<"
    return Stepper(
        bindings=[*bindings, (variable, start)],
        later=[(variable, call("-" if down else "+", variable, step))],
        tests=[leave_when(call(comparison, variable, limit))] if comparison else [],
        variables=[variable],
    )
