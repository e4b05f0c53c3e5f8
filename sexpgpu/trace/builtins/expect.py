"""What definitions expect of their arguments: `(expect (0 <= momentum < 1))`, `(expect-shape x (** width))`.

A clause of `expect` reads as a formula does: numbers or forms as bounds, `<` or `<=`, and the variables between them.
The words before it: `integer` (a whole number), `steps` (whole steps, or a fraction of all), `known` (no tensor, which
those are not anyway), `optional` (or nil), `scheduled` (or a function of the step) and `initializer` (or a function of
the shape). `(optimizer inner)`, `(function f)` and `(norm one-of :layer :rms)` are clauses, too, the latter also of
`(:norm variable)`. An error names the definition that the clause stands in and is shown, as any, at the caller's form.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from types import FrameType
from typing import Any, Final

from attrs import frozen

from sexpgpu.diag import Culprit, SxError, error
from sexpgpu.dialects.rules import marked
from sexpgpu.lang.builtin import Library, Parameters, show
from sexpgpu.lang.calls import MARK
from sexpgpu.lang.conditions import CallFault, Poisoned
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Cons, Symbol, T, keyword, lisp_list, symbol
from sexpgpu.lang.functions import info_of
from sexpgpu.lang.poison import Poison
from sexpgpu.tensortype import TensorType
from sexpgpu.trace import arguments
from sexpgpu.trace.optimizers import Optimizer, OptimizerGroups
from sexpgpu.trace.tensor import TensorLike, as_tensor

library = Library("expectations")

BELOW: Final = (symbol("<"), symbol("<="))
ONE_OF, OPTIONAL = symbol("one-of"), symbol("optional")
WORDS: Final = {
    symbol(word)
    for word in ("integer", "steps", "known", "optional", "scheduled", "initializer", "optimizer", "function")
}
KNOWN: Final = {"integer", "steps", "known", "initializer", "function", "optimizer"}
"""Words of what the program must know while it is traced."""
CALLED: Final = {"scheduled", "initializer", "function"}
"""Words of what may be a function."""
ANY_AXIS, ANY_AXES = symbol("*"), symbol("**")

DEFERRED: Final = "<deferred>"
"""Where the code is of a function that waits for its first call."""

EXPECT: Final = "(expect (low <= name... < high)...)"
SHAPE: Final = "(expect-shape x (size...)) or (expect-shape optional x (size...))"


def _call(name: str, *arguments: Any) -> Cons:
    return lisp_list([symbol(name), *arguments])  # type: ignore[no-any-return]


def _quoted(form: Any) -> Cons:
    return _call("quote", form)


@library.macro("expect", EXPECT)
def expect(form: Cons) -> Any:
    """Refuse arguments outside their domains: (expect (0 <= lr) (0 <= beta1 beta2 < 1) (integer 1 <= every))."""
    return _call("progn", *(check for clause in list(form)[1:] for check in _checks(clause)), NIL)


def _checks(clause: Any) -> Iterator[Cons]:
    """A call of the function behind `expect` for each variable of a clause."""
    items = list(clause) if isinstance(clause, Cons) else []
    words = []
    while len(items) > 1 and items[0] in WORDS:
        words.append(keyword(items.pop(0).name))
    if len(items) > 2 and items[1] is ONE_OF:
        name, variable = items[0] if isinstance(items[0], Cons) else (items[0], items[0])
        yield _call("%expect-one-of", _quoted(name), variable, _quoted(lisp_list(items[2:])))
        return
    groups: list[list[Any]] = [[]]
    signs: list[Any] = []
    for item in items:
        if item in BELOW:
            signs.append(item)
            groups.append([])
        else:
            groups[-1].append(item)
    low: list[Any] = [NIL, NIL]
    if signs and not isinstance(groups[0][0] if groups[0] else None, Symbol):
        low = [signs.pop(0), *groups.pop(0)]
    names = groups.pop(0)
    high = [*signs, *groups.pop(0)] if groups and len(signs) == 1 else [NIL, NIL]
    if groups or len(low) != 2 or len(high) != 2 or not names or not all(isinstance(n, Symbol) for n in names):
        raise error("E-MACRO-001", f"expect: {show(clause)} is no clause", expected=EXPECT)
    bounds = [part for sign, bound in (low, high) for part in (_quoted(sign), _quoted(bound), bound)]
    for name in names:
        yield _call("%expect", _quoted(lisp_list(words)), _quoted(name), name, *bounds)


@library.builtin("%expect", "(words name value above low-form low below high-form high)")
def expect_number(
    words: Any, name: Symbol, value: Any, above: Any, low_form: Any, low: Any, below: Any, high_form: Any, high: Any
) -> Any:
    """nil; E-ARG-010 for what is no number, E-OPT-001 for no optimizer, E-VALUE-012 for one outside its domain.

    A number that only the run will know, a tensor, is not looked at; an infinite one is only within a bound `infinity`.
    """
    kind = {word.name for word in words} if words is not NIL else set()
    if isinstance(value, Poison):
        raise Poisoned(value.diagnostic)
    if "optional" in kind and value is NIL:
        return NIL
    if isinstance(value, TensorLike) and ("scheduled" in kind or kind.isdisjoint(KNOWN)):
        return NIL
    if "optimizer" in kind:
        if not isinstance(value, Optimizer | OptimizerGroups):
            raise _refused("E-OPT-001", name, f"{name.name} must be an optimizer", actual=show(value))
        return NIL
    if not kind.isdisjoint(CALLED) and is_function(value, named="scheduled" not in kind):
        return NIL
    if (
        not isinstance(value, int | float | Fraction)
        or "function" in kind
        or ("integer" in kind and type(value) is not int)
    ):
        raise _refused("E-ARG-010", name, f"{name.name} must be {_noun(kind)}", actual=show(value))
    within = (
        _ordered(above, low, value)
        and _ordered(below, value, high)
        and ("steps" not in kind or type(value) is int or value <= 1)
        and (math.isfinite(value) or value == high)
    )
    if not within:
        domain = [*_bound(low_form, low, above), name.name, *reversed(_bound(high_form, high, below))]
        noun = "" if kind.isdisjoint(("integer", "steps")) else _noun(kind & {"integer", "steps"}) + ": "
        message, bounds = f"{name.name} is outside its domain", noun + " ".join(domain)
        raise _refused("E-VALUE-012", name, message, expected=bounds, actual=show(value))
    return NIL


def _ordered(sign: Any, a: Any, b: Any) -> bool:
    """Whether a < b or a <= b, as far as both are numbers that are known: another clause looks at the bound."""
    if sign is NIL or not isinstance(a, int | float | Fraction) or not isinstance(b, int | float | Fraction):
        return True
    return bool(a < b if sign is BELOW[0] else a <= b)


def _bound(form: Any, value: Any, sign: Any) -> list[str]:
    """A bound as the message writes it, the value of a form behind it, and its sign; empty where there is none."""
    if sign is NIL:
        return []
    known = isinstance(form, Symbol | Cons) and isinstance(value, int | float | Fraction) and math.isfinite(value)
    return [f"{show(form)} ({show(value)})" if known else show(form), sign.name]


def _noun(kind: set[str]) -> str:
    noun = "an integer" if "integer" in kind else "a function" if "function" in kind else "a number"
    if "steps" in kind:
        noun = "whole steps or a fraction of all"
    noun += " or a schedule" if "scheduled" in kind else " or an initializer" if "initializer" in kind else ""
    return noun + (" or nil" if "optional" in kind else "")


def is_function(value: Any, *, named: bool) -> bool:
    """Whether a value can be called: a function, or the name of one if it may be `named`. An optimizer is none."""
    if isinstance(value, Symbol):
        return named and not value.keyword and value not in (NIL, T)
    return callable(value) and not isinstance(value, Foreign)


@library.builtin("%expect-one-of", "(name value choices)")
def expect_one_of(name: Symbol, value: Any, choices: Any) -> Any:
    """nil; E-ARG-011 unless the value is one of a few keywords."""
    arguments.choice(expecting().name, value, name.name, tuple(known.name for known in choices))
    return NIL


@library.macro("expect-shape", SHAPE)
def expect_shape(form: Cons) -> Any:
    """Refuse tensors of another shape: (expect-shape x (** width)); `*` is an axis of any size, `**` any axes."""
    items = list(form)[1:]
    optional = items[0] is OPTIONAL if len(items) == 3 else False
    if optional:
        items.pop(0)
    if len(items) != 2 or not isinstance(items[1], Cons):
        raise error("E-MACRO-001", f"expect-shape: expected {SHAPE}")
    sizes = [_quoted(size) if size in (ANY_AXIS, ANY_AXES) else size for size in items[1]]
    check = _call("%expect-shape", _quoted(items[0]), items[0], _quoted(items[1]), _call("list", *sizes))
    return _call("unless", _call("null", items[0]), check) if optional else check


@library.builtin("%expect-axis", "(x axis)")
def expect_axis(x: Any, axis: Any) -> int:
    """The axis from the front; E-SHAPE-002 where the tensor has none such, E-TYPE-011 for no tensor."""
    definition = expecting().name
    return arguments.axis(definition, axis, as_tensor(x, definition).type.rank)


@library.builtin("%expect-lengths", "(xs axis)")
def expect_lengths(xs: Any, axis: Any) -> Any:
    """nil; E-SHAPE-030 unless tensors are equally long along the axis, E-ARG-012 without any."""
    definition = expecting().name
    tensors = [as_tensor(x, definition) for x in arguments.items(definition, xs, "the tensors")]
    if not tensors:
        raise error("E-ARG-012", f"`{definition}` needs a tensor to go along")
    lengths = {t.type.shape[arguments.axis(definition, axis, t.type.rank)] for t in tensors}
    if len(lengths) > 1:
        raise error(
            "E-SHAPE-030",
            f"`{definition}` goes along tensors of different lengths",
            expected=f"one length on axis {axis}",
            actual=" and ".join(str(t.type) for t in tensors),
            notes=[note for t in tensors for note in t.provenance()],
        )
    return NIL


@library.builtin("%expect-alike", "(function given taken)")
def expect_alike(function: Any, given: Any, taken: Any) -> Any:
    """GIVEN; E-FLOW-007 unless a function of tensors gives as many of the same types as it takes."""
    definition, what = expecting().name, f"what {show(function)} gives"
    types = [[as_tensor(x, definition).type for x in arguments.items(definition, xs, what)] for xs in (given, taken)]
    if types[0] != types[1]:
        raise error(
            "E-FLOW-007",
            f"`{definition}`: {show(function)} gives tensors of other types than it takes",
            expected=", ".join(map(str, types[1])),
            actual=", ".join(map(str, types[0])),
        )
    return given


@library.builtin("%expect-shape", "(name x forms sizes)")
def expect_tensor(name: Any, x: Any, forms: Any, sizes: Any) -> Any:
    """nil; E-SHAPE-047 unless the tensor has the sizes, E-TYPE-011 for no tensor."""
    definition = expecting().name
    tensor = as_tensor(x, definition)
    wanted = list(sizes)
    at = wanted.index(ANY_AXES) if ANY_AXES in wanted else None
    front, back = (wanted, []) if at is None else (wanted[:at], wanted[at + 1 :])
    rank = tensor.type.rank
    axes = {**dict(enumerate(front)), **{rank - len(back) + i: size for i, size in enumerate(back)}}
    fits_rank = rank == len(front) if at is None else rank >= len(front) + len(back)
    others = [a for a, size in axes.items() if fits_rank and size not in (ANY_AXIS, tensor.type.shape[a])]
    if fits_rank and not others:
        return NIL
    raise error(
        "E-SHAPE-047",
        f"`{definition}` cannot take {show(name)} of this shape",
        expected=f"[{', '.join(map(_size, forms, wanted))}]",
        actual=_seen(tensor.type, others),
        notes=tensor.provenance(),
    )


def _size(form: Any, size: Any) -> str:
    if size in (ANY_AXIS, ANY_AXES):
        return "..." if size is ANY_AXES else "any"
    return f"{form.name} = {size}" if isinstance(form, Symbol) else str(size)


def _seen(type: TensorType, others: list[int]) -> str:
    return marked(type, *others) if others else str(type)


def _refused(code: str, name: Symbol, message: str, *, actual: str, expected: str | None = None) -> SxError:
    """The error of the definition that the clause stands in; how it is called where the argument is of another kind."""
    definition = expecting()
    help = definition.call if code != "E-VALUE-012" else None
    found = error(
        code,
        f"`{definition.name}`: {message}",
        expected=expected,
        actual=actual,
        help=help,
        culprit=written(definition.name, definition.parameters, name.name) if definition.parameters else None,
    )
    return CallFault(found.diagnostic) if definition.own else found


def written(definition: str, parameters: Parameters, name: str) -> Culprit:
    """Where the caller's form gives a parameter of the definition."""
    positional = (*parameters.required, *parameters.optional)
    if name in positional:
        return Culprit(function=definition, argument=positional.index(name) + 1, value=True)
    return Culprit(key=f":{name}", value=True)


@frozen
class Definition:
    """A definition that expects something, what it takes, and whether it is the user's own."""

    name: str
    parameters: Parameters | None
    own: bool

    @property
    def call(self) -> str | None:
        """How it is called."""
        return f"({self.name} {self.parameters.text[1:-1]})" if self.parameters is not None else None


def expecting() -> Definition:
    """That whose form is being executed; an internal one speaks for its caller."""
    frame: FrameType | None = sys._getframe(1)
    label, own = "", False
    while frame is not None and (not label or label.startswith("%")):
        if MARK in frame.f_globals and frame.f_code.co_filename != DEFERRED:
            label = frame.f_code.co_qualname.partition(".<locals>")[0]
            module = frame.f_globals[MARK]
            own = not (module.standard or module.internal)
        frame = frame.f_back
    name, info = label.partition("#")[0], info_of(label)
    return Definition(name, info.parameters if info is not None else None, own)
