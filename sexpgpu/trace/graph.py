"""One traced function under construction: its arguments, its operations, what it emits.

Arguments are made on first use, so that a graph takes what it reads and nothing else. Every operation gets the
location of the Lisp form that called for it and the path of the model instance that is running. What a standard module
calls for is located at the user's own form that led there, or else at the one that made the instance.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from mlir import ir

from sexpgpu.diag import CallSite, Span, SxError, error
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Move
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.signature import write_signature
from sexpgpu.experiment import CONTEXT, Input, InputRole, Output, OutputRole, Reduction, SampleForm
from sexpgpu.lang.active import active
from sexpgpu.lang.conditions import Poisoned
from sexpgpu.lang.faults import current_span, executing
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.spoken import spoken
from sexpgpu.trace.tracer import Tracer

if TYPE_CHECKING:
    from sexpgpu.trace.tensor import Tensor

_COUNTERS = {"train": ("microbatch", "step", ""), "eval": ("microbatch", "", ""), "generate": ("", "", "trip")}
"""What the loop counts into the counters (microbatch, step, trip) of a stream's random numbers."""

_active: ContextVar[GraphTrace | None] = ContextVar("active graph", default=None)


def active_graph() -> GraphTrace | None:
    """The graph being traced, or None between traces."""
    return _active.get()


def current_graph(what: str) -> GraphTrace:
    """The graph being traced; E-FLOW-003 when `what` was called outside every traced function."""
    graph = _active.get()
    if graph is None:
        raise error(
            "E-FLOW-003",
            f"`{what}` makes a tensor, but no graph is being traced here",
            expected="a call inside prepare, a model's forward, objective, evaluate, an optimizer or an initializer",
            help="move the call into one of those functions; ordinary numbers can be computed anywhere",
        )
    return graph


def _noted(op: str, operands: Sequence[Tensor], fault: SxError) -> SxError:
    """The fault of an operation, which it names as the language does; and where the operands come from."""
    notes = tuple(note for t in operands for note in t.provenance())
    return SxError(spoken(op, fault.diagnostic).noting(*notes))


class GraphTrace:
    """A graph being traced into the tracer's module as a function.

    `training` is what `(training-p)` answers; `rows` the records of its batch; `stream` names its random numbers
    (init, train or eval); `prefix` goes before metric names without a slash.
    """

    def __init__(
        self,
        tracer: Tracer,
        name: str,
        *,
        training: bool = False,
        rows: int | None = None,
        stream: str = "init",
        prefix: str = "",
    ) -> None:
        self.tracer = tracer
        self.context = tracer.context
        self.name = name
        self.float_type = tracer.float_type
        self.training = training
        self.rows = rows
        self.stream = stream
        self.prefix = prefix
        self.seed = tracer.seed
        self.steps = tracer.steps
        self.microbatches = tracer.microbatches
        self.path: list[str] = []
        self.made: list[Span] = []  # where the instances that are running were made, as far as known
        self.inputs: list[Input] = []
        self.outputs: list[tuple[Output, Val]] = []
        self.counters: dict[str, int] = {}
        self._known = 0
        self.proposals: dict[str, Tensor] = {}
        self.scope = ""  # of the names of random draws, where several graphs share a stream
        self.frozen = False
        self.thawed: set[str] = set()  # the parameters that were read outside of `frozen`
        self.within: list[str] = []  # the forms around, inside of which nothing may be reported or kept
        self._tensors: dict[tuple[str, str], Tensor] = {}
        self._counter: Tensor | None = None
        self._sites: Counter[str] = Counter()
        mlir = self.context.mlir
        function_type = ir.FunctionType.get([], [], context=mlir)
        self.func = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(tracer.symbol(name), context=mlir),
                "function_type": ir.TypeAttr.get(function_type, context=mlir),
                "sx.graph": ir.StringAttr.get(name, context=mlir),
            },
            regions=1,
            loc=self.context.location(None),
            ip=ir.InsertionPoint(tracer.module.body),
        )
        self.block = self.func.regions[0].blocks.append()
        self.builder = Builder(self.context, ir.InsertionPoint(self.block))

    @contextmanager
    def tracing(self) -> Iterator[GraphTrace]:
        """Make this the active graph. A fault leaves it explained: what may mend it is tried while it is active.

        After faults that a guard catches inside, tracing goes on to find more; the block fails when it is left.
        """
        token = _active.set(self)
        recovery = active().recovery
        self._known = recovery.count
        try:
            with recovery.going_on():
                yield self
        except Exception as raw:
            raise active().explained(raw) from None
        finally:
            _active.reset(token)
        if self.failed and recovery.last is not None:
            raise Poisoned(recovery.last.diagnostic)

    @property
    def failed(self) -> bool:
        """Whether a part has failed so far and tracing goes on."""
        return active().recovery.count > self._known

    @contextmanager
    def inside(self, path: str, made: Span | None = None) -> Iterator[None]:
        """Operations traced within belong to the model instance at `path`, made by the form at `made`."""
        self.path.append(path)
        if made is not None:
            self.made.append(made)
        try:
            yield
        finally:
            self.path.pop()
            if made is not None:
                self.made.pop()

    def input(
        self,
        role: InputRole,
        name: str,
        type: TensorType,
        *,
        frozen: bool = False,
        span: Span | None = None,
        source: str | None = None,
    ) -> Tensor:
        """The argument (role, name), made on first use."""
        from sexpgpu.trace.tensor import Tensor

        key = (role, name)
        if key not in self._tensors:
            self.inputs.append(Input(role, name, type, frozen))
            value = self.block.add_argument(self.context.type(type), self.location(span))
            self._tensors[key] = Tensor(self, Val(self.builder, value, type), span, source or f"{role} {name}")
        return self._tensors[key]

    def context_value(self, name: str) -> Tensor:
        """A scalar that the loop feeds: one of `experiment.CONTEXT`."""
        dtype: Any = CONTEXT[name]
        # What the loop feeds is of the run's float type, whatever a graph computes in.
        return self.input("ctx", name, TensorType((), self.tracer.float_type if dtype == "float" else dtype))

    def emit(self, op: str, *operands: Tensor, **attrs: Any) -> Tensor:
        """Append one single-result operation at the calling form's location.

        Shape and dtype errors get notes that say where the operands come from.
        """
        from sexpgpu.trace.tensor import Tensor

        self.tracer.spend()
        span = self.locate()
        try:
            value = self.builder(op, *[t.val for t in operands], **attrs)
        except SxError as fault:
            raise _noted(op, operands, fault) from None
        # A moved tensor is known by what it was, one or two moves deep.
        moved = len(operands) == 1 and isinstance(OPS[op].kind, Move) and operands[0].source.count(" of ") < 3
        return Tensor(self, value, span, f"{op} of {operands[0].source}" if moved else f"the result of {op}")

    def emit_several(self, op: str, *operands: Tensor, **attrs: Any) -> tuple[Tensor, ...]:
        """`emit` for an operation of several results."""
        from sexpgpu.trace.tensor import Tensor

        self.tracer.spend()
        span = self.locate()
        try:
            made = self.builder.several(op, *[t.val for t in operands], **attrs)
        except SxError as fault:
            raise _noted(op, operands, fault) from None
        return tuple(Tensor(self, value, span, f"the result of {op}") for value in made)

    def constant(self, value: Any, type: TensorType) -> Tensor:
        from sexpgpu.trace.tensor import Tensor

        span = self.locate()
        return Tensor(self, self.builder.constant(value, type), span, "a constant")

    def output(
        self,
        role: OutputRole,
        name: str,
        tensor: Tensor,
        *,
        reduce: Reduction = "mean",
        then: str | None = None,
        form: SampleForm | None = None,
    ) -> None:
        """Return `tensor` from the graph under (role, name)."""
        self.outputs.append((Output(role, name, tensor.type, reduce, then, current_span(), form), tensor.val))

    @contextmanager
    def freezing(self) -> Iterator[None]:
        """Parameters read within are constants to whoever differentiates."""
        before, self.frozen = self.frozen, True
        try:
            yield
        finally:
            self.frozen = before

    @contextmanager
    def enclosed(self, form: str) -> Iterator[None]:
        """Within, `must_be_open` refuses: what is traced belongs to `form`, not to the graph's results."""
        self.within.append(form)
        try:
            yield
        finally:
            self.within.pop()

    def must_be_open(self, what: str) -> None:
        """E-FLOW-004 inside the function that `scan` or `grad` calls."""
        if self.within:
            raise error(
                "E-FLOW-004",
                f"`{what}` inside `{self.within[-1]}`",
                help=f"return the value from the function, and use `{what}` outside of `{self.within[-1]}`",
            )

    def random_counter(self) -> Tensor:
        """i32[3]: the counters (microbatch, step, trip) that random numbers of this graph are a function of.

        An initializer draws once, and an evaluation draws the same numbers each time: their counters are 0, but for
        the microbatch, which is the place of the batch within the pass.
        """
        if self._counter is None:
            names = _COUNTERS.get(self.stream, ())
            zero = self.constant(0, TensorType((1,), "i32"))
            parts = [self.emit("reshape", self.context_value(n), shape=(1,)) if n else zero for n in names]
            parts += [zero] * (3 - len(parts))
            self._counter = self.emit("concat", self.emit("concat", parts[0], parts[1], axis=0), parts[2], axis=0)
        return self._counter

    def metric_name(self, name: str) -> str:
        """A metric's full name: one without a slash goes under the pass, `val/loss`."""
        return name if "/" in name else f"{self.prefix}/{name}"

    def cast_float(self, x: Tensor) -> Tensor:
        """`x` in the run's float type."""
        return x if x.type.dtype == self.float_type else self.emit("cast", x, dtype=self.float_type)

    def then(self, metric: str, function: Any) -> str:
        """Trace `function` of one scalar as a graph of its own and give its name."""
        from sexpgpu.lang.active import as_function
        from sexpgpu.lang.forms import one
        from sexpgpu.trace.tensor import as_tensor

        graph = GraphTrace(self.tracer, f"then {metric}")
        with graph.tracing():
            given = graph.input("value", "value", TensorType((), self.float_type))
            result = as_tensor(one(as_function(function)(given)), "metric :then", like=given.type)
            if result.type != given.type:
                raise error(
                    "E-SHAPE-020",
                    "`:then` must give a scalar",
                    expected=str(given.type),
                    actual=str(result.type),
                )
            graph.output("value", "value", result)
            graph.finish()
        return graph.name

    def reach(self, tensor: Tensor) -> Tensor:
        """A tensor of another graph as one of this; E-FLOW-002, since a graph reads only its own."""
        raise error(
            "E-FLOW-002",
            f"this tensor belongs to graph `{tensor.graph.name}`, but `{self.name}` is being traced",
            help="pass it as an argument, or compute it again inside this function",
            notes=tensor.provenance(),
        )

    def site(self) -> str:
        """A name for the next random draw: the model path and its ordinal under it."""
        path = self.path[-1] if self.path else ""
        self._sites[path] += 1
        return f"{self.scope}{path}#{self._sites[path]}"

    def finish(self) -> None:
        """Close the function: its terminator, its type and its signature."""
        loc = self.context.location(None)
        ir.Operation.create(
            "func.return",
            operands=[v.value for _, v in self.outputs],
            loc=loc,
            ip=ir.InsertionPoint(self.block),
        )
        if self.rows is not None:
            i64 = ir.IntegerType.get_signless(64, context=self.context.mlir)
            self.func.attributes["sx.rows"] = ir.IntegerAttr.get(i64, self.rows)
        if self.counters:
            text = json.dumps(self.counters)
            self.func.attributes["sx.counters"] = ir.StringAttr.get(text, context=self.context.mlir)
        write_signature(self.func, self.inputs, [o for o, _ in self.outputs])

    def locate(self) -> Span | None:
        """Add what follows at the location of the form being executed, and give its place."""
        span, own = executing()
        if own is None and self.made:
            own = self.made[-1]
        path = self.path[-1] if self.path else ""
        key = (span, own, path)
        known = self.tracer.locations.get(key)
        if known is None:
            site = span
            if span is not None and own is not None and own != span:
                site = CallSite(own.file, own.line, own.col, own.end_line, own.end_col, span)
            known = self.tracer.locations[key] = self.context.location(site, path)
        self.builder.location = known
        return span

    def location(self, span: Span | None) -> Any:
        """The MLIR location of a form, under the path of the model instance that is running."""
        path = self.path[-1] if self.path else ""
        return self.context.location(span, path)
