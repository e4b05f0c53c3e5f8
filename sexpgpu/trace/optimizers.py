"""Optimizers: what a `defoptimizer` call gives, optimizers within optimizers, and the groups that share one."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from itertools import chain
from typing import Any

from attrs import define, field, frozen

from sexpgpu.diag import Diagnostic, Span, SxError, error
from sexpgpu.lang.builtin import Parameters
from sexpgpu.lang.foreign import Foreign, truth
from sexpgpu.lang.forms import NIL, Cons, Symbol, keyword, lisp_list, one
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.arguments import dtype, shape
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.models import Parameter
from sexpgpu.trace.tensor import Reference, Tensor


@define(eq=False)
class Slot(Reference):
    """A tensor that a graph takes under a role of its own: the parameter, gradient or state of an update."""

    role: Any
    name: str
    slot_type: TensorType

    @property
    def type(self) -> TensorType:
        return self.slot_type

    def resolve(self, graph: GraphTrace) -> Tensor:
        return graph.input(self.role, self.name, self.slot_type)


@define(eq=False)
class ContextScalar(Reference):
    """A scalar that the loop feeds, taken by a graph only when it is read."""

    name: str
    float_type: Any

    @property
    def type(self) -> TensorType:
        from sexpgpu.experiment import CONTEXT

        dtype: Any = CONTEXT[self.name]
        return TensorType((), self.float_type if dtype == "float" else dtype)

    def resolve(self, graph: GraphTrace) -> Tensor:
        scalar = graph.context_value(self.name)
        return graph.cast_float(scalar) if scalar.type.is_float else scalar


def context_plist(graph: GraphTrace, names: tuple[str, ...]) -> Any:
    """The `ctx` plist of an optimizer or a loop function, `(:seed k :step s :steps n ...)`; the seed is an integer."""
    items: list[Any] = [keyword("seed"), graph.tracer.seed]
    for name in names:
        items += [keyword(name), ContextScalar(name, graph.float_type)]
    return lisp_list(items)


@frozen
class StateType:
    """A state of one type of parameter: its tensor's type, and what gives its first value (None: zeros)."""

    type: TensorType
    init: Callable[..., Any] | None = None


@frozen(eq=False)
class StateDeclaration:
    """A `defstate`. Its options are functions of the parameter, of which they may know the type."""

    name: str
    options: dict[str, Callable[..., Any]]
    span: Span | None = None

    def of(self, param: Slot) -> StateType | None:
        """The state that `param` has: None where `:when` says so. E-OPT-003: neither `:like` nor `:shape`."""
        options = self.options
        if "when" in options and not truth(one(options["when"](param))):
            return None
        if "like" in options:
            sizes = one(options["like"](param)).type.shape
        elif "shape" in options:
            sizes = shape("defstate", one(options["shape"](param)))
        else:
            raise error(
                "E-OPT-003", f"(defstate {self.name}) says neither :like nor :shape", self.span, help=":like param"
            )
        kind = dtype("defstate", one(options["dtype"](param)), param.type.dtype) if "dtype" in options else None
        return StateType(TensorType(sizes, kind or param.type.dtype), options.get("init"))


@define(eq=False)
class Optimizer(Foreign):
    """One configured optimizer. `again` makes another with other arguments: how a group overrides.

    `takes` says what arguments those are. `inner` are the optimizers among the hyperparameters, by name.
    """

    name: str
    again: Callable[..., Any]
    takes: Parameters
    arguments: tuple[Any, ...]
    states: tuple[StateDeclaration, ...]
    update: Callable[..., Any]
    view: Callable[..., Any] | None = None
    inner: dict[str, Optimizer] = field(factory=dict)
    span: Span | None = None

    def with_overrides(self, overrides: tuple[Any, ...]) -> Optimizer:
        """The same optimizer with keyword arguments before its own (the leftmost wins).

        Those that a wrapper does not know go to the one optimizer inside it.
        """
        arguments = self.arguments
        if len(self.inner) == 1:
            (inner,) = self.inner.values()
            pairs = [overrides[i : i + 2] for i in range(0, len(overrides), 2)]
            known = self.takes.keys or ()
            own = [pair for pair in pairs if isinstance(pair[0], Symbol) and pair[0].name in known]
            passed = [pair for pair in pairs if pair not in own]
            if passed:
                replaced = inner.with_overrides(tuple(chain.from_iterable(passed)))
                arguments = tuple(replaced if a is inner else a for a in arguments)
            overrides = tuple(chain.from_iterable(own))
        first_key = min(self.takes.positional, len(arguments))
        made = self.again(*arguments[:first_key], *overrides, *arguments[first_key:])
        assert isinstance(made, Optimizer)
        return made

    def states_of(self, param: Slot, prefix: str = "") -> dict[str, StateType]:
        """The states of a parameter, those of inner optimizers too: `shadow`, `inner.m`, `inner.v`."""
        found = {}
        for declared in self.states:
            state = declared.of(param)
            if state is not None:
                found[prefix + declared.name] = state
        for name, inner in self.inner.items():
            found |= inner.states_of(param, f"{prefix}{name}.")
        return found

    def described(self) -> str:
        """Its name, and of a wrapper what is inside: `ema of adamw`."""
        inside = " and ".join(inner.described() for inner in self.inner.values())
        return f"{self.name} of {inside}" if inside else self.name

    def viewing(self) -> tuple[str, Optimizer] | None:
        """Whose view evaluation sees, under which prefix: this one's, else that of the one optimizer inside it."""
        if self.view is not None:
            return "", self
        if len(self.inner) != 1:
            return None
        ((name, inner),) = self.inner.items()
        found = inner.viewing()
        return None if found is None else (f"{name}.{found[0]}", found[1])

    def lisp_print(self) -> str:
        return f"#<optimizer {self.described()}>"


@define(eq=False)
class GroupDeclaration(Foreign):
    """A `(group selector override...)`: a glob over paths, a predicate over parameters, or a list of these."""

    selector: Any
    overrides: tuple[Any, ...]
    span: Span | None = None

    def lisp_print(self) -> str:
        return "#<optimizer group>"


@define(eq=False)
class OptimizerGroups(Foreign):
    """An optimizer and the groups that depart from it."""

    default: Optimizer
    groups: tuple[GroupDeclaration, ...]

    def optimizers(self) -> list[Optimizer]:
        """Those of the groups in order; an error is shown at the group whose overrides its optimizer does not take."""
        return [_group_optimizer(self.default, group) for group in self.groups]

    def wrapped(self, wrap: Callable[[Optimizer], Optimizer]) -> OptimizerGroups:
        """The same groups with `wrap` around the optimizer of each."""
        pairs = zip(self.groups, self.optimizers(), strict=True)
        groups = [GroupDeclaration(group.selector, (wrap(found),), group.span) for group, found in pairs]
        return OptimizerGroups(wrap(self.default), tuple(groups))

    def lisp_print(self) -> str:
        return f"#<optimizer groups {self.default.name} and {len(self.groups)}>"


@define(eq=False)
class AssignedGroup:
    """A group with its members and the optimizer that serves them."""

    name: str
    selector: str
    optimizer: Optimizer
    members: list[Parameter] = field(factory=list)


def assign_groups(
    optimizer: Any, parameters: list[Parameter], report: Callable[[Diagnostic], None]
) -> list[AssignedGroup]:
    """Each trained parameter in exactly one group; two groups claiming one is E-OPT-002, an empty group W-OPT-001."""
    if isinstance(optimizer, Optimizer):
        optimizer = OptimizerGroups(optimizer, ())
    pairs = zip(optimizer.groups, optimizer.optimizers(), strict=True)
    named = [AssignedGroup(*_group_name(g.selector, i), found) for i, (g, found) in enumerate(pairs, 1)]
    default = AssignedGroup("default", "every other parameter", optimizer.default)
    for parameter in parameters:
        claims = [
            group
            for group, declared in zip(named, optimizer.groups, strict=True)
            if selects(declared.selector, parameter)
        ]
        if len(claims) > 1:
            raise error(
                "E-OPT-002",
                f"two groups claim parameter `{parameter.path}`",
                optimizer.groups[named.index(claims[1])].span,
                expected="at most one group a parameter",
                actual=" and ".join(g.name for g in claims),
            )
        (claims[0] if claims else default).members.append(parameter)
    for group, declared in zip(named, optimizer.groups, strict=True):
        if not group.members:
            report(
                Diagnostic(
                    "W-OPT-001",
                    f"optimizer group `{group.name}` has no members",
                    declared.span,
                    severity="warning",
                )
            )
    return [g for g in (*named, default) if g.members]


def selects(selector: Any, parameter: Parameter) -> bool:
    """Whether a selector picks `parameter`: a glob string, a predicate, the parameter itself, or any of a list."""
    from sexpgpu.lang.active import as_function

    if isinstance(selector, str):
        names = [parameter.path or "", *parameter.aliases]
        return any(fnmatch.fnmatchcase(n, selector) for n in names)
    if isinstance(selector, Parameter):
        return selector is parameter
    if isinstance(selector, Cons | list):
        return any(selects(s, parameter) for s in selector)
    return truth(one(as_function(selector)(parameter)))


def _group_name(selector: Any, index: int) -> tuple[str, str]:
    if isinstance(selector, str):
        return selector, selector
    # Without a space: the name is part of a series, `optim/lr.group-1`.
    return f"group-{index}", "a list of selectors" if isinstance(selector, list | Cons) else "a predicate"


def _group_optimizer(default: Optimizer, group: GroupDeclaration) -> Optimizer:
    first = group.overrides[0] if group.overrides else NIL
    if isinstance(first, Optimizer):
        return first
    try:
        return default.with_overrides(group.overrides)
    except SxError as fault:
        raise SxError(fault.diagnostic.at(group.span)) from None
