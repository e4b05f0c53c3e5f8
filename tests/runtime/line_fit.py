"""A small engine in NumPy for tests of the loop: a straight line fitted by momentum descent.

It has one of everything that the loop handles: two parameters, an averaged buffer, a counted one and one kept
per microbatch, weighted and mapped metrics, counters, a shorter last batch, an optimizer view, two passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from sexpgpu.data.source import Npy
from sexpgpu.diag import Span
from sexpgpu.experiment import (
    Buffer,
    Evaluation,
    Experiment,
    Graph,
    Group,
    Input,
    KnobValue,
    Loader,
    LoaderField,
    Manifest,
    Order,
    Output,
    Parameter,
    RunConfig,
    State,
    Update,
)
from sexpgpu.runtime.run import RunOptions
from sexpgpu.tensortype import TensorType

Array = NDArray[Any]
Function = Callable[..., Sequence[Any]]
SCALAR, COUNT = TensorType((), "f64"), TensorType((), "i32")
WIDTH = 3
RECORDS = 23


@frozen
class NumpyExecutable:
    spec: Graph
    function: Function

    def __call__(self, inputs: Sequence[Array], into: Sequence[Array | None] = ()) -> list[Array]:
        for slot, value in zip(self.spec.inputs, inputs, strict=True):
            assert value.shape == slot.type.shape, slot
        results = [np.array(result) for result in self.function(*inputs)]
        assert len(results) == len(self.spec.outputs)
        return results

    def origin_not_finite(self, inputs: Sequence[Array]) -> tuple[str, Span | None] | None:
        """An input, if it is one; a function does not show what it does inside."""
        for slot, value in zip(self.spec.inputs, inputs, strict=True):
            if not np.isfinite(value).all():
                return f"the {slot.role} {slot.name}", None
        return None


@frozen(eq=False)
class NumpyEngine:
    experiment: Experiment
    functions: dict[str, Function]
    device: str = "numpy"
    asked: list[tuple[str, int | None]] = field(factory=list)

    def index_fields(self, graph: str, span: Span) -> tuple[str, ...]:
        """None: a function does not show what it does inside."""
        return ()

    def updater(self) -> None:
        """Each update is a call."""

    def executable(self, graph: str, rows: int | None = None) -> NumpyExecutable:
        self.asked.append((graph, rows))
        spec = self.experiment.graphs[graph]
        if rows is not None:
            spec = evolve(spec, rows=rows, inputs=tuple([_resized(slot, rows) for slot in spec.inputs]))
        return NumpyExecutable(spec, self.functions[graph])


def _resized(slot: Input, rows: int) -> Input:
    """A field of a batch of another size."""
    return (
        slot if slot.role != "field" else evolve(slot, type=TensorType((rows, *slot.type.shape[1:]), slot.type.dtype))
    )


def write_data(folder: Path, *, records: int = RECORDS, whole: bool = False, width: int = WIDTH) -> None:
    """`x.npy` and `y.npy`; `whole` numbers keep every sum exact."""
    draw = np.random.default_rng(5)
    x = draw.integers(-4, 5, (records, width)).astype(np.float64) if whole else draw.normal(size=(records, width))
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", np.round(x.sum(axis=1) * 2) if whole else x.sum(axis=1) * 2 + 1)


def loader(folder: Path, name: str, batch: int, order: Order, width: int = WIDTH) -> Loader:
    fields = (
        LoaderField("x", Npy(str(folder / "x.npy")), TensorType((batch, width), "f64")),
        LoaderField("y", Npy(str(folder / "y.npy")), TensorType((batch,), "f64")),
    )
    span = Span("line.sx", 3, 1, 3, 20)
    return Loader(name, batch, order, 11, fields, index_file=str(folder / "order.npy"), span=span)


def train(w: Array, b: Array, mean: Array, seen: Array, carry: Array, x: Array, y: Array) -> Sequence[Any]:
    """Half the mean squared residual, with its gradients and everything else that is reported."""
    residual = x @ w + b - y
    weight = x[:, 0] ** 2
    total = weight.sum()
    return (
        0.5 * (residual**2).mean(),
        x.T @ residual / len(y),
        residual.mean(),
        residual.mean(),  # the proposal for the averaged buffer
        seen + 1,
        carry * 0.5 + x[:, 0].sum(),
        (weight * residual).sum() / total if total else np.float64(0),
        total,
        abs(residual).max(),
        np.int32(len(y)),
    )


def update(param: Array, grad: Array, velocity: Array, step: Array, steps: Array) -> Sequence[Any]:
    rate = 0.2 * (1 - step / steps)
    velocity = 0.9 * velocity - rate * grad
    return param + velocity, velocity, rate


def evaluate(w: Array, b: Array, x: Array, y: Array) -> Sequence[Any]:
    residual = x @ w + b - y
    return (residual**2).mean(), np.int32(len(y))


def make_engine(
    folder: Path,
    run: RunConfig | None = None,
    *,
    batch: int = 4,
    order: Order = "shuffle",
    evaluations: tuple[Evaluation, ...] | None = None,
    functions: dict[str, Function] | None = None,
    width: int = WIDTH,
    knobs: tuple[KnobValue, ...] = (),
) -> NumpyEngine:
    """The engine over data that `write_data` left in `folder`; `functions` replace graphs by name."""
    vector = TensorType((width,), "f64")
    params = (Input("param", "model.w", vector), Input("param", "model.b", SCALAR))
    fields = (
        Input("field", "x", TensorType((batch, width), "f64")),
        Input("field", "y", TensorType((batch,), "f64")),
    )
    buffers = (("model.mean", SCALAR), ("model.seen", COUNT), ("model.carry", SCALAR))
    at = Span("line.sx", 9, 3, 9, 30)
    graphs = [
        Graph("init w", "w", (), (Output("value", "w", vector),)),
        Graph("init b", "b", (), (Output("value", "b", SCALAR),)),
        Graph("init mean", "mean", (), (Output("value", "mean", SCALAR),)),
        Graph("init seen", "seen", (), (Output("value", "seen", COUNT),)),
        Graph("init velocity", "init", (Input("param", "param", SCALAR),), (Output("value", "velocity", SCALAR),)),
        Graph(
            "train",
            "train",
            (*params, *(Input("buffer", name, type) for name, type in buffers), *fields),
            (
                Output("loss", "loss", SCALAR, span=at),
                Output("grad", "model.w", vector),
                Output("grad", "model.b", SCALAR),
                *(Output("buffer", name, type) for name, type in buffers),
                Output("metric", "residual", SCALAR, then="then arctan"),
                Output("weight", "residual", SCALAR),
                Output("metric", "worst", SCALAR, reduce="max"),
                Output("counter", "points", COUNT),
            ),
            rows=batch,
            counters=(("calls", 1),),
        ),
        Graph("then arctan", "arctan", (Input("value", "x", SCALAR),), (Output("value", "y", SCALAR),)),
        Graph("view", "view", (Input("param", "model.w", vector),), (Output("param", "model.w", vector),)),
        Graph(
            "eval",
            "eval",
            (*params, *fields),
            (Output("metric", "loss", SCALAR), Output("metric", "n", COUNT, reduce="sum")),
            rows=batch,
        ),
    ]
    graphs += [update_graph("update w", vector, "model.w"), update_graph("update b", SCALAR, "model.b")]
    if evaluations is None:
        evaluations = (
            Evaluation("val", loader(folder, "val-loader", batch, "sequential", width), "eval", 4, at_start=True),
            Evaluation("some", loader(folder, "some-loader", batch, "random", width), "eval", 3, batches=2),
        )
    experiment = Experiment(
        name="line",
        manifest=Manifest(str(folder / "line.sx"), (), knobs, None, None, "0"),
        parameters=(
            Parameter("model.w", vector, "init w", aliases=("model.tied",), span=Span("line.sx", 5, 1, 5, 9)),
            Parameter("model.b", SCALAR, "init b"),
        ),
        buffers=(
            Buffer("model.mean", SCALAR, "init mean"),
            Buffer("model.seen", COUNT, "init seen"),
            Buffer("model.carry", SCALAR, "init mean", per_microbatch=True),
        ),
        states=(
            State("model.w/velocity", "model.w", vector),
            State("model.b/velocity", "model.b", SCALAR, "init velocity"),
        ),
        graphs={graph.name: graph for graph in graphs},
        updates=(Update("update w", "default", ("model.w",)), Update("update b", "default", ("model.b",))),
        groups=(Group("default", "*", "momentum", ("model.w", "model.b"), ("velocity",)),),
        train_loader=loader(folder, "train-loader", batch, order, width),
        train_graph="train",
        sums_graph=None,
        evaluations=evaluations,
        views={},
        run=run or RunConfig(20, None, 3, precision="f64", checkpoint_every=3),
    )
    given: dict[str, Function] = {
        "init w": lambda: (np.linspace(-1, 1, width),),
        "init b": lambda: (np.float64(0.5),),
        "init mean": lambda: (np.float64(0),),
        "init seen": lambda: (np.int32(0),),
        "init velocity": lambda b: (b,),
        "train": train,
        "then arctan": lambda x: (np.arctan(x),),
        "view": lambda w: (w * 0,),
        "eval": evaluate,
        "update w": update,
        "update b": update,
    }
    return NumpyEngine(experiment, given | (functions or {}))


def update_graph(name: str, type: TensorType, path: str) -> Graph:
    inputs = (
        Input("param", path, type),
        Input("grad", path, type),
        Input("state", f"{path}/velocity", type),
        Input("ctx", "step", COUNT),
        Input("ctx", "steps", COUNT),
    )
    outputs = (
        Output("param", path, type),
        Output("state", f"{path}/velocity", type),
        Output("value", "lr", SCALAR),
    )
    return Graph(name, name, inputs, outputs)


def options(out: Path, **more: Any) -> RunOptions:
    return RunOptions(out=out, quiet=True, **more)
