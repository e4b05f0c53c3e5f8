"""Lambdas: parameters, declarations and bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sexpgpu.diag import SxError, nearest, warning
from sexpgpu.lang.analyze.grammar import Items, items_of, malformed, special
from sexpgpu.lang.analyze.lambdalist import LambdaList, Part, parse_lambda_list
from sexpgpu.lang.builtin import Parameters, show
from sexpgpu.lang.edits import replaced
from sexpgpu.lang.forms import Cons, Symbol, lisp_list, symbol
from sexpgpu.lang.functions import FunctionInfo
from sexpgpu.lang.ir import (
    Block,
    DynamicLet,
    FunctionIR,
    Lambda,
    Let,
    LocalRef,
    LocalVar,
    Node,
    Optional,
)
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import SPECIAL, Scope

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer

DECLARE: Final = symbol("declare")
SPECIAL_WORD: Final = symbol("special")
IGNORE_WORDS: Final = (symbol("ignore"), symbol("ignorable"))
_DECLARATIONS: Final = frozenset(
    """special ignore ignorable type ftype inline notinline optimize dynamic-extent declaration
    fixnum integer float double-float number real rational ratio list cons string symbol function t vector array
    simple-vector hash-table character keyword null sequence boolean atom single-float unsigned-byte signed-byte
    bit simple-string""".split()  # noqa: SIM905  a word list reads better than forty quoted strings
)
"""Declarations, and the types that may stand in their place: `(declare (fixnum i))`."""


class Body:
    """A body without its head: the names declared special or ignored, the documentation string, the forms."""

    __slots__ = ("doc", "forms", "ignored", "specials")

    def __init__(self, specials: set[Symbol], ignored: set[Symbol], doc: str | None, forms: Items) -> None:
        self.specials = specials
        self.ignored = ignored
        self.doc = doc
        self.forms = forms


def split_body(an: Analyzer, items: Items, documented: bool = False) -> Body:
    """Take the declarations (and the documentation string) off the front of a body."""
    specials: set[Symbol] = set()
    ignored: set[Symbol] = set()
    doc = None
    at = 0
    for at, (form, place) in enumerate(items):
        if isinstance(form, Cons) and form.car is DECLARE:
            for clause, where in items_of(form.cdr, place, "(declare (declaration name...)...)"):
                specials.update(read_declaration(an, clause, where))
                if isinstance(clause, Cons) and clause.car in IGNORE_WORDS and isinstance(clause.cdr, Cons):
                    ignored.update(name for name in clause.cdr if isinstance(name, Symbol))
        elif documented and doc is None and isinstance(form, str) and at + 1 < len(items):
            doc = form
        else:
            return Body(specials, ignored, doc, items[at:])
    return Body(specials, ignored, doc, [])


def read_declaration(an: Analyzer, clause: Any, place: Place) -> list[Symbol]:
    """The names that a declaration makes special; an unknown declaration is a warning (W-DECL-001)."""
    if not isinstance(clause, Cons) or not isinstance(clause.car, Symbol):
        if isinstance(clause, Cons) and isinstance(clause.car, Cons):
            return []  # a compound type specifier stands for (type ...)
        raise malformed(place, "(declare (declaration name...)...)", f"{show(clause)} is not a declaration")
    if clause.car is SPECIAL_WORD:
        return [name for name in clause.cdr if isinstance(name, Symbol)] if isinstance(clause.cdr, Cons) else []
    if clause.car.name not in _DECLARATIONS:
        near = nearest(clause.car.name, _DECLARATIONS)
        where = place.of_element(clause)
        fix = replaced(where, clause.car.name, near) if near else ()
        help = f"did you mean `{near}`?" if near else None
        text = f"unknown declaration `{show(clause.car)}`"
        an.session.warn(warning("W-DECL-001", text, where.span, help, fix=fix))
    return []


@special("(lambda lambda-list form...)", 1)
def lambda_(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return Lambda(place, analyze_lambda(an, "lambda", items[0], items[1:], scope, place))


def analyze_lambda(
    an: Analyzer,
    name: str,
    lambda_list: tuple[Any, Place],
    body: Items,
    scope: Scope,
    place: Place,
    block: Symbol | None = None,
) -> FunctionIR:
    """The function of a lambda expression; with `block`, its body stands in a block of that name."""
    sections = parse_lambda_list(*lambda_list)
    parts = split_body(an, body, documented=True)
    info = FunctionInfo(name, sections.parameters, place.span, parts.doc)
    function = FunctionIR(info, scope.function)
    inner = scope.inner(function)
    binder = _Binder(an, function, inner, parts.specials)
    binder.parameters(sections)
    for special_name in parts.specials:
        inner.variables.setdefault(special_name, SPECIAL)
    if block is None:
        node = an.sequence(parts.forms, binder.scope, place)
    else:
        node = in_block(an, block, parts.forms, binder.scope, place)
    function.body = binder.wrap(node, place)
    return function


def refused_lambda(an: Analyzer, name: str, fault: SxError, parts: Items, scope: Scope, place: Place) -> FunctionIR:
    """The function of a definition whose lambda list is refused: it takes anything and fails silently."""
    info = FunctionInfo(name, Parameters("(&rest arguments)", rest="arguments"), place.span)
    function = FunctionIR(info, scope.function)
    function.rest = an.variable(Symbol("arguments"), function, place)
    form = lisp_list([form for form, _ in parts[1:]])
    function.body = an.refused(fault, form, scope.inner(function), place)
    return function


def in_block(an: Analyzer, name: Symbol, forms: Items, scope: Scope, place: Place) -> Node:
    """The forms in a block, which is left out when nothing returns from it."""
    block = Block(place, name)
    inside = scope.inner()
    inside.blocks[name] = block
    block.body = an.sequence(forms, inside, place)
    block.single = False
    return block if block.used else block.body


class _Binder:
    """Binds a lambda list's names in order, so that a default sees the parameters before it."""

    def __init__(self, an: Analyzer, function: FunctionIR, scope: Scope, specials: set[Symbol]) -> None:
        self.an = an
        self.function = function
        self.scope = scope
        self.specials = specials
        self.dynamic: list[tuple[Symbol, LocalVar, Place]] = []
        self.aux: list[tuple[LocalVar, Node]] = []
        self.seen: set[Symbol] = set()

    def bind(self, name: Symbol, place: Place) -> LocalVar:
        if name in self.seen:
            raise malformed(place, "different parameter names", f"the parameter `{show(name)}` occurs twice")
        self.seen.add(name)
        self.an.forbid_constant(name, place, "bound")
        var = self.an.variable(name, self.function, place)
        if name in self.specials or self.an.is_special(name):
            self.dynamic.append((name, var, place))
        self.scope.variables[name] = var
        return var

    def optional(self, part: Part) -> Optional:
        default = self.an.analyze(part.default, self.scope, part.place.of_form(part.default))
        var = self.bind(part.pattern, part.place)
        supplied = self.bind(part.supplied, part.place) if part.supplied is not None else None
        return Optional(var, default, supplied, part.key)

    def parameters(self, sections: LambdaList) -> None:
        function = self.function
        function.required = [self.bind(part.pattern, part.place) for part in sections.required]
        function.optional = [self.optional(part) for part in sections.optional]
        if sections.rest is not None:
            function.rest = self.bind(sections.rest.pattern, sections.rest.place)
        if sections.keys is not None:
            function.keys = [self.optional(part) for part in sections.keys]
            function.other_keys = sections.other_keys
        for part in sections.aux:
            value = self.an.analyze(part.default, self.scope, part.place.of_form(part.default))
            self.aux.append((self.bind(part.pattern, part.place), value))
        for name, _, _ in self.dynamic:
            self.scope.variables[name] = SPECIAL

    def wrap(self, body: Node, place: Place) -> Node:
        """The body inside the dynamic and &aux bindings."""
        if self.dynamic:
            bindings: list[tuple[list[Any], str, Node]] = []
            for name, var, where in self.dynamic:
                variable = self.an.global_variable(name, self.scope, where)
                key = self.an.module.key_of(variable.ref, f"v:{name.name}")
                bindings.append((variable.ref, key, LocalRef(where, var)))
            body = DynamicLet(place, bindings, body)
        return Let(place, self.aux, body) if self.aux else body
