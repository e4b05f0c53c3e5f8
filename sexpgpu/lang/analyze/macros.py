"""Macros written in Lisp: a lambda list and a body made into the function that expands a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from sexpgpu.lang.analyze.destructure import destructure, let_star
from sexpgpu.lang.analyze.grammar import Items
from sexpgpu.lang.analyze.lambdalist import parse_lambda_list
from sexpgpu.lang.analyze.lambdas import analyze_lambda
from sexpgpu.lang.core.destructuring import ARGUMENTS, Pattern
from sexpgpu.lang.forms import Cons, Symbol, lisp_list, symbol
from sexpgpu.lang.ir import FunctionIR
from sexpgpu.lang.module import Macro, call_shape
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import LocalFunction, Scope, SymbolMacro

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer

DECLARE: Final = symbol("declare")


def macro_function(an: Analyzer, name: Symbol, parts: Items, scope: Scope, place: Place) -> FunctionIR:
    """The expander of `(name lambda-list form...)`: a function of the call and the environment."""
    sections = parse_lambda_list(*parts[1], destructuring=True)
    call, environment, arguments = Symbol("call"), Symbol("environment"), Symbol("arguments")
    whole, sections.whole = sections.whole, None
    bindings: list[tuple[Symbol, Any]] = []
    if whole is not None:
        bindings.append((whole.pattern, call))
    bindings.append((arguments, lisp_list([ARGUMENTS, call])))
    if sections.environment is not None:
        bindings.append((sections.environment.pattern, environment))
    pattern = Pattern(name.name, sections.text, parameters=sections.parameters)
    bindings += destructure(sections, arguments, pattern, parts[1][1])
    rest = parts[2:]
    doc: str | None = None
    while rest and isinstance(rest[0][0], str) and len(rest) > 1:
        doc = doc or rest[0][0]
        rest = rest[1:]
    head = []
    while rest and isinstance(rest[0][0], Cons) and rest[0][0].car is DECLARE:
        head.append(rest[0][0])
        rest = rest[1:]
    block = Cons(symbol("block"), Cons(name, lisp_list([form for form, _ in rest])))
    body = let_star(bindings, lisp_list([*head, block]))
    parameters = lisp_list([call, environment])
    described = [(doc, place)] if doc is not None else []
    return analyze_lambda(an, name.name, (parameters, place), [*described, (body, place)], scope, place)


def local_macro(an: Analyzer, name: Symbol, parts: Items, scope: Scope, place: Place) -> Macro:
    """A macrolet's macro. Its expander sees the macros around it, but no run-time bindings.

    One that a form of the product's own wrote, as `defmodel` writes `defparam`, is as quiet as that form, and is
    compiled when a call of it is expanded: no mistake of the user's is in it.
    """
    outer = compile_time_scope(scope)

    def compiled() -> Callable[..., Any]:
        return an.session.compile_function(an.module, macro_function(an, name, parts, outer, place), place)

    sections = parse_lambda_list(*parts[1], destructuring=True)
    shape = call_shape(name, sections.text)
    quiet = place.trail is None and parts[0][1].start == place.start  # its name has no place of its own
    if not quiet:
        return Macro(name, compiled(), shape, place.span)
    made: list[Callable[..., Any]] = []

    def expander(call: Any, environment: Any) -> Any:
        if not made:
            made.append(compiled())
        return made[0](call, environment)

    return Macro(name, expander, shape, place.span, quiet)


def compile_time_scope(scope: Scope) -> Scope:
    """What of a scope exists before the program runs: its macros and symbol macros."""
    bare = Scope(None, FunctionIR(None, None))
    levels: list[Scope] = []
    level: Scope | None = scope
    while level is not None:
        levels.append(level)
        level = level.parent
    for found in reversed(levels):
        functions: dict[Symbol, LocalFunction] = {n: f for n, f in found.functions.items() if isinstance(f, Macro)}
        bare.functions.update(functions)
        bare.variables.update({n: v for n, v in found.variables.items() if isinstance(v, SymbolMacro)})
    return bare
