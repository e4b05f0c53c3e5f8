"""Optimizers: what a `defoptimizer` call gives, the groups that share one, and the tracing of an update."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from sexpgpu.diag import Diagnostic, Span, SxError, error
from sexpgpu.lang.foreign import Foreign, truth
from sexpgpu.lang.forms import NIL, Cons, keyword, lisp_list, one
from sexpgpu.tensortype import TensorType
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
        return graph.context_value(self.name)


def context_plist(float_type: Any, names: tuple[str, ...]) -> Any:
    """The `ctx` plist of an optimizer or a loop function, `(:step s :steps n ...)`."""
    items: list[Any] = []
    for name in names:
        items += [keyword(name), ContextScalar(name, float_type)]
    return lisp_list(items)


@frozen(eq=False)
class StateDeclaration:
    """A `defstate`: its type by parameter, and whether it starts at the parameter."""

    name: str
    options: dict[str, Callable[..., Any]]

    def type(self, param: Parameter) -> TensorType:
        """The state's type for `param`: that of `:like`, else `:shape` in the parameter's dtype."""
        from sexpgpu.trace.arguments import shape

        if "like" in self.options:
            like = self.options["like"](param)
            return TensorType(like.type.shape, param.type.dtype)
        if "shape" in self.options:
            return TensorType(shape("defstate", self.options["shape"](param)), param.type.dtype)
        raise error("E-OPT-003", f"(defstate {self.name}) says neither :like nor :shape", help=":like param")

    @property
    def from_param(self) -> bool:
        return "init" in self.options


@define(eq=False)
class Optimizer(Foreign):
    """One configured optimizer. `again` makes another with other arguments: how a group overrides."""

    name: str
    again: Callable[..., Any]
    arguments: tuple[Any, ...]
    states: tuple[StateDeclaration, ...]
    update: Callable[..., Any]
    view: Callable[..., Any] | None = None
    span: Span | None = None

    def with_overrides(self, overrides: tuple[Any, ...]) -> Optimizer:
        """The same optimizer with keyword arguments before its own (the leftmost wins)."""
        made = self.again(*overrides, *self.arguments)
        assert isinstance(made, Optimizer)
        return made

    def lisp_print(self) -> str:
        return f"#<optimizer {self.name}>"


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
    named = [
        AssignedGroup(*_group_name(g.selector, i), _group_optimizer(optimizer.default, g))
        for i, g in enumerate(optimizer.groups, 1)
    ]
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
                optimizer.groups[1].span,
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
    """Whether a selector picks `parameter`: a glob string, a predicate, or any of a list of these."""
    from sexpgpu.lang.active import as_function

    if isinstance(selector, str):
        names = [parameter.path or "", *parameter.aliases]
        return any(fnmatch.fnmatchcase(n, selector) for n in names)
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


class UpdateTrace:
    """The update of one (type, group) while it is traced: the states it read and the values it set."""

    def __init__(self, graph: GraphTrace, optimizer: Optimizer, param: Parameter) -> None:
        self.graph = graph
        self.optimizer = optimizer
        self.param = Slot("param", "param", param.type)
        self.grad = Slot("grad", "grad", param.type)
        self.states = {s.name: Slot("state", s.name, s.type(param)) for s in optimizer.states}
        self.set: dict[str, Tensor] = {}
