"""The tracing of what optimizers do: the update of a parameter, what evaluation sees of it, a state's first value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from attrs import define, evolve

from sexpgpu.diag import Note, SxError, error
from sexpgpu.lang.builtin import show
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import one
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.models import Parameter
from sexpgpu.trace.optimizers import AssignedGroup, Optimizer, Slot, StateType, context_plist
from sexpgpu.trace.tensor import Tensor, TensorLike, as_tensor, broadcast_to
from sexpgpu.trace.tracer import Tracer

UPDATE_CONTEXT = ("step", "steps", "progress", "epoch", "stage", "grad-norm", "loss")
VIEW_CONTEXT = ("step", "steps", "progress", "epoch", "stage")


@define(eq=False)
class InnerOptimizer(Foreign):
    """A hyperparameter that is an optimizer, inside an update: `prefix` is where its states are, `inner.`."""

    prefix: str
    optimizer: Optimizer

    def lisp_print(self) -> str:
        return f"#<inner optimizer {self.optimizer.name}>"


class UpdateTrace:
    """The update of one (type, group) while it is traced: the states it read and the values it set.

    `prefix` says whose turn it is: the optimizer's own "", or that of one inside it.
    """

    def __init__(self, graph: GraphTrace, group: AssignedGroup, kind: TensorType) -> None:
        self.graph = graph
        if kind.dtype in ("f32", "f64"):
            graph.float_type = kind.dtype  # schedules and `:float` are in the precision of the parameter
        self.optimizer = group.optimizer
        self.param = Slot("param", "param", kind)
        self.grad = Slot("grad", "grad", kind)
        self.states = {
            name: Slot("state", name, state.type) for name, state in group.optimizer.states_of(self.param).items()
        }
        self.set: dict[str, Tensor] = {}
        self.prefix = ""

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Trace into the graph; states and hyperparameters are those of this update. Closes the graph."""
        token = _current.set(self)
        try:
            with self.graph.tracing():
                yield
                self.graph.finish()
        finally:
            _current.reset(token)

    def state(self, name: str) -> Slot:
        """The state that the running optimizer calls `name`; E-OPT-006 where this parameter has none such."""
        found = self.states.get(self.prefix + name)
        if found is None:
            own = [n.removeprefix(self.prefix) for n in self.states if n.startswith(self.prefix)]
            raise error(
                "E-OPT-006",
                f"a parameter {self.param.type} has no state `{name}`",
                expected="one of " + (" ".join(own) or "none"),
            )
        return found

    def value(self, name: str) -> Any:
        """What a state's name means: the value it was given in this update, else the one before."""
        slot = self.state(name)
        return self.set.get(self.prefix + name, slot)

    def set_state(self, name: str, value: Any) -> Tensor:
        """Give a state its next value; E-OPT-005 when that does not fit it."""
        wanted = self.state(name).type
        tensor = fitted(value, wanted, "set-state", "E-OPT-005", f"state `{name}`")
        self.set[self.prefix + name] = tensor
        return tensor

    def apply(self, inner: Any, param: Any, grad: Any, context: Any) -> Tensor:
        """`(inner-update inner param grad ctx)`: the next value of `param` as the inner optimizer has it.

        E-OPT-008 when `inner` is no hyperparameter of the optimizer, or the tensors are not of the parameter's type.
        """
        if not isinstance(inner, InnerOptimizer):
            raise error(
                "E-OPT-008",
                "`inner-update` needs an optimizer that is a hyperparameter of the one that calls it",
                actual=show(inner),
                help="(defoptimizer wrapper (inner) (optimizer-update (param grad ctx) (inner-update inner ...)))",
            )
        kind = self.param.type
        given = [fitted(x, kind, "inner-update", "E-OPT-008", "the parameter") for x in (param, grad)]
        with self._turn_of(inner.prefix):
            value = one(inner.optimizer.update(*given, context))
        return fitted(value, kind, "optimizer-update", "E-OPT-007", "the parameter")

    def seen(self, context: Any) -> Any:
        """What evaluation sees of the parameter."""
        found = self.optimizer.viewing()
        assert found is not None  # only optimizers that have a view are asked for it
        prefix, optimizer = found
        assert optimizer.view is not None
        with self._turn_of(prefix):
            return one(optimizer.view(self.param, context))

    @contextmanager
    def _turn_of(self, prefix: str) -> Iterator[None]:
        before, self.prefix = self.prefix, prefix
        try:
            yield
        finally:
            self.prefix = before


_current: ContextVar[UpdateTrace | None] = ContextVar("current update", default=None)


def current_update(what: str) -> UpdateTrace:
    """The update being traced; E-OPT-004 when there is none."""
    update = _current.get()
    if update is None:
        raise error("E-OPT-004", f"`{what}` is only for optimizer-update and optimizer-view")
    return update


@contextmanager
def _named(param: Parameter) -> Iterator[None]:
    """An error inside says which parameter it met, the first one of its type."""
    try:
        yield
    except SxError as fault:
        note = Note(f"the parameter is {param.path}", param.made or param.span)
        fault.diagnostic = evolve(fault.diagnostic, notes=(note, *fault.diagnostic.notes))
        raise


def trace_update(tracer: Tracer, group: AssignedGroup, param: Parameter) -> GraphTrace:
    """The update of every member of `group` that has the type of `param`.

    Inputs: `param`, `grad`, states by their own names, scalars of the loop; outputs: `param`, each state, and `lr`.
    """
    graph = GraphTrace(tracer, f"update {group.name} {param.type}")
    update = UpdateTrace(graph, group, param.type)
    with _named(param), update.tracing():
        value = one(group.optimizer.update(update.param, update.grad, context_plist(graph, UPDATE_CONTEXT)))
        graph.output("param", "param", fitted(value, param.type, "optimizer-update", "E-OPT-007", "the parameter"))
        for name, slot in update.states.items():
            graph.output("state", name, update.set.get(name) or slot.resolve(graph))
        if not graph.inputs:
            update.param.resolve(graph)  # of what depends on nothing: the loop's graphs all take something
    return graph


def trace_view(tracer: Tracer, group: AssignedGroup, param: Parameter) -> GraphTrace:
    """What evaluation sees of every member of `group` that has the type of `param`, where the optimizer says."""
    graph = GraphTrace(tracer, f"view {group.name} {param.type}")
    update = UpdateTrace(graph, group, param.type)
    with _named(param), update.tracing():
        value = update.seen(context_plist(graph, VIEW_CONTEXT))
        graph.outputs = [output for output in graph.outputs if output[0].role != "value"]
        graph.output("param", "param", fitted(value, param.type, "optimizer-view", "E-OPT-007", "the parameter"))
    return graph


def trace_state(tracer: Tracer, group: AssignedGroup, param: Parameter, name: str, state: StateType) -> GraphTrace:
    """The first value of a state of every member of `group` that has the type of `param`; its input is `param`."""
    graph = GraphTrace(tracer, f"init state {name} of {group.name} {param.type}")
    assert state.init is not None
    with _named(param), graph.tracing():
        value = one(state.init(Slot("param", "param", param.type)))
        graph.output("value", name, fitted(value, state.type, "defstate", "E-OPT-005", f"state `{name}`"))
        graph.finish()
    return graph


def fitted(value: Any, wanted: TensorType, what: str, code: str, target: str) -> Tensor:
    """`value` as a tensor of type `wanted`, a number on every place of it; `code` when it is another tensor."""
    tensor = as_tensor(value, what, like=wanted)
    if not isinstance(value, TensorLike):
        tensor = broadcast_to(tensor, wanted.shape)
    if tensor.type != wanted:
        raise error(
            code,
            f"`{what}`: the value does not fit {target}",
            expected=str(wanted),
            actual=str(tensor.type),
            notes=tensor.provenance(),
        )
    return tensor
