"""The graph of `curriculum`: which stage of the train loader comes next, from what evaluations reported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define

from sexpgpu.diag import error
from sexpgpu.lang.builtin import show
from sexpgpu.lang.forms import keyword, lisp_list, one
from sexpgpu.lang.poison import Poison
from sexpgpu.tensortype import DType, TensorType
from sexpgpu.trace.contract import Contract
from sexpgpu.trace.declarations import Declarations
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.graphs import LOOP_CONTEXT, shown_at
from sexpgpu.trace.optimizers import context_plist
from sexpgpu.trace.tensor import Reference, Tensor, TensorLike, as_tensor
from sexpgpu.trace.tracer import Tracer

CURRICULUM = "curriculum"
_STAGE = TensorType((), "i32")


@define(eq=False)
class MetricScalar(Reference):
    """A metric of an evaluation, taken by the graph only when it is read."""

    name: str
    float_type: DType

    @property
    def type(self) -> TensorType:
        return TensorType((), self.float_type)

    def resolve(self, graph: GraphTrace) -> Tensor:
        return graph.input("observed", self.name, self.type, source=f"the metric {self.name}")


def trace_curriculum(tracer: Tracer, contract: Contract, metrics: Iterable[str]) -> GraphTrace:
    """`curriculum` of a plist with the scalars of the loop and, as `:metrics`, a plist of `metrics` by keyword.

    E-RUN-028 unless it gives an i32 scalar or an integer.
    """
    assert contract.curriculum is not None
    graph = GraphTrace(tracer, CURRICULUM, stream="eval", prefix=CURRICULUM)
    with graph.tracing():
        known: list[Any] = []
        for name in metrics:
            known += [keyword(name), MetricScalar(name, tracer.float_type)]
        context = lisp_list([*context_plist(graph, LOOP_CONTEXT), keyword("metrics"), lisp_list(known)])
        with shown_at(contract, CURRICULUM):
            given = one(contract.curriculum(context))
            if not isinstance(given, TensorLike) and type(given) is not int:
                raise _no_stage(show(given))
            stage = as_tensor(given, CURRICULUM, like=_STAGE)
            if stage.type != _STAGE:
                raise _no_stage(str(stage.type))
        graph.output("value", "stage", stage)
        graph.finish()
    return graph


def trace_stages(tracer: Tracer, contract: Contract, declared: Declarations, metrics: Iterable[str]) -> str | None:
    """The name of the graph that chooses among the stages of the train loader, None where there are no stages.

    E-RUN-036, E-RUN-027, E-RUN-029 where stages, a curriculum or evaluations are there without the others.
    """
    loader = contract.train_loader
    if isinstance(loader, Poison):
        return None
    if contract.curriculum is None:
        if len(loader.stages) > 1:
            raise error(
                "E-RUN-027",
                f"nothing ever goes on to the stage {loader.stages[1].name} of the train loader",
                help="(defun curriculum (ctx) (where (< (getf (getf ctx :metrics) :val/loss) 2.0) 1 0))",
            )
        return None
    if len(loader.stages) < 2:
        raise error(
            "E-RUN-036",
            "there is a `curriculum`, and the train loader has no stages",
            help="(defloader train-loader (:batch 8) (stage easy (x SOURCE)) (stage hard (x SOURCE)))",
        )
    if not declared.evaluations:
        raise error(
            "E-RUN-029",
            "`curriculum` is called after evaluations, and there are none",
            help="(defeval val (:loader val-loader :every 100))",
        )
    return trace_curriculum(tracer, contract, metrics).name


def _no_stage(actual: str) -> Exception:
    return error(
        "E-RUN-028",
        "`curriculum` gives the number of a stage",
        expected=f"an integer, or {_STAGE}",
        actual=actual,
        help="(where (< loss 2.0) 1 0), or (cast x :i32)",
    )
