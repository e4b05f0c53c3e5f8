"""The compiler's side of `defoptimizer`, and the functions over optimizers."""

from __future__ import annotations

import re
from typing import Any

from attrs import evolve

from sexpgpu.diag import Culprit, SxError, error, nearest
from sexpgpu.lang.active import as_function
from sexpgpu.lang.builtin import Library, Parameters, python_name, show
from sexpgpu.lang.conditions import CallFault
from sexpgpu.lang.faults import calling_span, current_span
from sexpgpu.lang.forms import NIL, Cons, Symbol, one
from sexpgpu.lang.functions import info_of_function
from sexpgpu.trace.arguments import items, name
from sexpgpu.trace.builtins.expect import written
from sexpgpu.trace.graph import current_graph
from sexpgpu.trace.models import Parameter
from sexpgpu.trace.optimizers import GroupDeclaration, Optimizer, OptimizerGroups, StateDeclaration
from sexpgpu.trace.tensor import Tensor, as_tensor
from sexpgpu.trace.updates import InnerOptimizer, current_update

library = Library("optimizers")

_NUMBER = re.compile(r"[-+]?(\d+(\.\d+)?|\.\d+)(e[-+]?\d+)?")
_OPTIONS = ("like", "shape", "dtype", "init", "when")


@library.builtin("%defoptimizer", "(name again arguments parts)")
def optimizer(key: Any, again: Any, arguments: Any, parts: Any) -> Optimizer | OptimizerGroups:
    """What calling a `defoptimizer` gives: `parts` of the arguments is its states, update, view and hyperparameters.

    Around groups it gives groups: each with its optimizer wrapped.
    """
    try:
        found = one(as_function(parts)(*items("defoptimizer", arguments, "the arguments")))
    except CallFault as fault:
        # Arguments that do not fit are the caller's fault, two frames up: start the traceback anew.
        raise CallFault(fault.diagnostic) from None
    states, update, view, hypers, expectations = items("defoptimizer", found, "the parts")
    pairs = [items("defoptimizer", pair, "a hyperparameter") for pair in items("defoptimizer", hypers, "the rest")]
    given = tuple(items("defoptimizer", arguments, "the arguments"))
    groups = next((value for _, value in pairs if isinstance(value, OptimizerGroups)), None)
    if groups is not None:
        return groups.wrapped(lambda inner: as_function(again)(*(inner if a is groups else a for a in given)))
    for label, value in pairs:
        _check_hyper(name("defoptimizer", key), label.name, value, given)
    info = info_of_function(parts)
    assert info is not None  # the macro writes a function
    _meet(expectations, name("defoptimizer", key), info.parameters)
    return Optimizer(
        name("defoptimizer", key),
        as_function(again),
        info.parameters,
        given,
        _states(states),
        update,
        None if view is NIL else view,
        {label.name: value for label, value in pairs if isinstance(value, Optimizer)},
        calling_span(),
    )


def _meet(expectations: Any, optimizer: str, takes: Parameters) -> None:
    """Evaluate the `expect` form. Its error is shown at the argument, and how the optimizer is called with it."""
    try:
        as_function(expectations)()
    except SxError as fault:
        diagnostic = fault.diagnostic
        if diagnostic.code in ("E-ARG-010", "E-OPT-001"):
            diagnostic = evolve(diagnostic, help=f"({optimizer} {takes.text[1:-1]})")
        if diagnostic.culprit is not None and diagnostic.culprit.key is not None:
            at = written(optimizer, takes, diagnostic.culprit.key[1:])
            diagnostic = evolve(diagnostic, culprit=at)
        fault.diagnostic = diagnostic
        raise


def _check_hyper(optimizer: str, hyper: str, value: Any, given: tuple[Any, ...]) -> None:
    """E-TYPE-001 at the argument where it is neither a number nor what the step can be given to."""
    if isinstance(value, Optimizer) or not (isinstance(value, str) or callable(value)):
        return
    takes = info_of_function(value) if callable(value) else None
    if callable(value) and (takes is None or takes.parameters.accepts(1)):
        return
    at = next((i + 1 for i, argument in enumerate(given) if argument is value), 0)
    raise error(
        "E-TYPE-001",
        f"`{hyper}` of `{optimizer}` must be a number or a schedule",
        expected="a number, or a function of the step",
        actual=f"a function that {takes.parameters.takes()}" if takes is not None else show(value),
        culprit=Culprit(function=optimizer, argument=at, instead=_number(value)),
    )


def _number(value: Any) -> str | None:
    """The number that a string is the text of, as it would be written."""
    return value if isinstance(value, str) and _NUMBER.fullmatch(value) else None


def _states(states: Any) -> tuple[StateDeclaration, ...]:
    declared: dict[str, StateDeclaration] = {}
    for state in items("defoptimizer", states, "the states"):
        label, *options = items("defstate", state, "a state")
        given = {python_name(k.name): f for k, f in zip(options[::2], options[1::2], strict=True)}
        for unknown in (k for k in given if k not in _OPTIONS):
            near = nearest(unknown, _OPTIONS)
            known = " ".join(f":{k}" for k in _OPTIONS)
            raise error(
                "E-ARG-002",
                f"`defstate` has no keyword :{unknown}; it has {known}",
                help=f":{near}" if near else None,
            )
        key = name("defstate", label)
        if key in declared or set(key) & {".", "/"}:
            said = "is declared twice" if key in declared else "has a `.` or a `/` in its name"
            raise error("E-OPT-009", f"state `{key}` {said}", expected="a name of its own without these")
        declared[key] = StateDeclaration(key, given)
    return tuple(declared.values())


@library.builtin("optimizer-groups", "(default &rest groups)")
def optimizer_groups(default: Any, *groups: Any) -> OptimizerGroups:
    """An optimizer with groups of parameters that differ.

    Errors: E-OPT-001 no optimizer or group; E-OPT-002 a parameter in two groups; W-OPT-001 a group of none.
    Source: docs: Optimizer groups.
    """
    if not isinstance(default, Optimizer):
        raise error("E-OPT-001", "`optimizer-groups` needs an optimizer first", actual=show(default))
    for given in groups:
        if not isinstance(given, GroupDeclaration):
            raise error("E-OPT-001", "`optimizer-groups` takes (group ...) forms after it", actual=show(given))
    return OptimizerGroups(default, groups)


def require_selector(what: str, selector: Any) -> None:
    """E-ARG-010 unless `selects` can be asked about it."""
    each = items(what, selector, "the selector") if isinstance(selector, Cons | list) else [selector]
    for part in each:
        if not (isinstance(part, str | Parameter) or callable(part)):
            raise error(
                "E-ARG-010",
                f"`{what}`: {show(part)} selects no parameters",
                expected="a glob over paths, a predicate, a parameter, or a list of these",
                actual=show(selector),
                help='"*.bias", or (lambda (p) (< (rank p) 2))',
            )


@library.builtin("group", "(selector &rest overrides)")
def group(selector: Any, *overrides: Any) -> GroupDeclaration:
    """Parameters that a selector picks, with other hyperparameters or another optimizer (E-ARG-010 for no selector).

    Errors: E-ARG-010 no selector.
    Source: docs: Optimizer groups.
    """
    require_selector("group", selector)
    return GroupDeclaration(selector, overrides, current_span())


@library.builtin("inner-update", "(inner param grad ctx)")
def inner_update(inner: Any, param: Any, grad: Any, ctx: Any) -> Tensor:
    """The next value of a tensor of the parameter's type, as an optimizer that is a hyperparameter has it.

    E-OPT-008 when it is none, or the tensors are of another type.

    Errors: E-OPT-008 no optimizer of this one's, or tensors of another type.
    Source: docs: Writing optimizers.
    """
    return current_update("inner-update").apply(inner, param, grad, ctx)


@library.builtin("%hyper", "(name value)")
def hyper(key: Any, value: Any) -> Any:
    """A hyperparameter inside an update: a schedule is traced at the step, the learning rate is also reported."""
    update = current_update("a hyperparameter")
    if isinstance(value, Optimizer):
        return InnerOptimizer(f"{update.prefix}{name('a hyperparameter', key)}.", value)
    if callable(value):
        value = one(as_function(value)(step_tensor()))
    if isinstance(key, Symbol) and key.name == "lr" and value is not NIL:
        rate = as_tensor(value, "lr")
        if rate.type.shape == () and not any(o.role == "value" for o, _ in update.graph.outputs):
            update.graph.output("value", "lr", update.graph.cast_float(rate))
    return value


def step_tensor() -> Tensor:
    """The optimizer step as a scalar of the run's float type."""
    graph = current_graph("a schedule")
    return graph.cast_float(graph.context_value("step"))


@library.builtin("%expect-matrix", "(optimizer param)")
def expect_matrix(optimizer: Any, param: Any) -> Any:
    """Nothing; E-OPT-011 where a parameter is neither a matrix nor a kernel, which is one with `out` rows."""
    tensor, label = as_tensor(param, "the parameter"), name("defoptimizer", optimizer)
    if len(tensor.type.shape) < 2:
        raise error(
            "E-OPT-011",
            f"`{label}` updates matrices, and this parameter is none",
            expected="a parameter of rank 2 or more",
            actual=str(tensor.type),
            help=f"(optimizer-groups ({label}) (group (lambda (p) (< (rank p) 2)) (adamw)))",
        )
    return NIL


@library.builtin("run-steps", "()")
def run_steps() -> Any:
    """Planned steps of the run: an integer when `defrun` says it, else a scalar the loop feeds.

    Errors: E-FLOW-003 outside a graph.
    Source: docs: sexpgpu/optim.
    """
    graph = current_graph("run-steps")
    return graph.steps if graph.steps is not None else graph.cast_float(graph.context_value("steps"))


@library.builtin("%state", "(name)")
def state(key: Any) -> Any:
    """The value of an optimizer state, the new one once it is set."""
    return current_update("a state").value(name("a state", key))


@library.builtin("%set-state", "(name value)")
def set_state(key: Any, value: Any) -> Any:
    """Set an optimizer state; E-OPT-005 when the value does not fit it."""
    return current_update("set-state").set_state(name("set-state", key), value)
