"""Steps: accumulation, clipping, the finite guard, buffers, step sums, and that evaluations change
nothing.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from sexpgpu.experiment import Evaluation, Graph, Input, Order, Output, RunConfig
from sexpgpu.runtime.run import run
from sexpgpu.tensortype import TensorType
from tests.runtime.line_fit import (
    SCALAR,
    Function,
    NumpyEngine,
    loader,
    make_engine,
    options,
    train,
    write_data,
)
from tests.runtime.reading import events, last_tensors, status, tensors, timeless


def tensors_of(engine: NumpyEngine, out: Path) -> dict[str, Any]:
    assert run(engine, options(out)).code == 0
    return last_tensors(out)


def array(tensors: dict[str, Any], name: str) -> np.ndarray:
    dtype, shape, data = tensors[name]
    return np.frombuffer(data, dtype).reshape(shape)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize(("batch", "microbatches"), [(8, 1), (4, 2), (2, 4), (1, 8)])
def test_any_split_of_a_step_gives_the_same_update(
    batch: int, microbatches: int, deterministic: bool, tmp_path: Path
) -> None:
    """Small whole numbers keep all sums exact, and steps of one keep the weights whole: equal in every
    bit.
    """
    write_data(tmp_path, records=32, whole=True)

    def by_one(param: np.ndarray, grad: np.ndarray, velocity: np.ndarray, *scalars: np.ndarray) -> Any:
        return param - np.sign(grad), velocity, np.float64(1)

    functions: dict[str, Function] = {
        "update w": by_one,
        "update b": by_one,
        "init w": lambda: (np.arange(3.0),),
        "init b": lambda: (np.float64(1),),
    }

    def build(batch: int, k: int) -> NumpyEngine:
        config = RunConfig(8, None, k, precision="f64", deterministic=deterministic)
        return make_engine(tmp_path, config, batch=batch, order="sequential", evaluations=(), functions=functions)

    whole = tensors_of(build(8, 1), tmp_path / "whole")
    split = tensors_of(build(batch, microbatches), tmp_path / "split")
    for name in ("param/model.w", "param/model.b", "buffer/model.mean"):
        assert split[name] == whole[name]
    before, after = timeless(tmp_path / "whole", "step"), timeless(tmp_path / "split", "step")
    for series in ("train/loss", "train/worst", "optim/grad_norm"):
        assert [e["metrics"][series] for e in before] == [e["metrics"][series] for e in after]
    for one, other in zip(before, after, strict=True):
        assert math.isclose(one["metrics"]["train/residual"], other["metrics"]["train/residual"], rel_tol=1e-12)
    assert array(split, "buffer/model.seen") == 8


def test_a_short_microbatch_weighs_its_records(folder: Path) -> None:
    """One step over the whole epoch of 23 records: 4, 4, 4, 4, 4 and 3 rows."""
    one = make_engine(folder, RunConfig(1, None, 6, precision="f64"), order="sequential", evaluations=())
    run(one, options(folder / "out"))
    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    residual = x @ np.linspace(-1, 1, 3) + 0.5 - y
    (step,) = events(folder / "out", "step")
    assert math.isclose(step["metrics"]["train/loss"], 0.5 * (residual**2).mean(), rel_tol=1e-14)
    gradient = np.append(x.T @ residual / 23, residual.mean())
    assert math.isclose(step["metrics"]["optim/grad_norm"], math.sqrt((gradient**2).sum()), rel_tol=1e-13)
    weights = x[:, 0] ** 2
    mapped = math.atan((weights * residual).sum() / weights.sum())
    assert math.isclose(step["metrics"]["train/residual"], mapped, rel_tol=1e-12)
    assert step["metrics"]["train/worst"] == abs(residual).max()
    assert step["counters"] == {"calls": 6, "points": 23}
    assert ("train", 3) in one.asked


def test_a_run_in_epochs_counts_records_exactly(folder: Path) -> None:
    config = RunConfig(None, 2, 5, precision="f64")
    run(make_engine(folder, config, evaluations=()), options(folder / "out"))
    steps = events(folder / "out", "step")
    assert [step["counters"]["points"] for step in steps] == [20, 3 + 16, 4 + 3]
    assert [step["epoch"] for step in steps] == [0, 0, 1]


def test_clipping_follows_the_published_form(folder: Path) -> None:
    config = RunConfig(1, None, 1, precision="f64", clip_norm=0.25)
    got = {}

    def spy(param: np.ndarray, grad: np.ndarray, velocity: np.ndarray, *scalars: np.ndarray) -> Any:
        got[param.shape] = grad.copy()
        return param, velocity, np.float64(0)

    run(
        make_engine(folder, config, evaluations=(), functions={"update w": spy, "update b": spy}),
        options(folder / "out"),
    )
    (step,) = events(folder / "out", "step")
    norm = step["metrics"]["optim/grad_norm"]
    assert norm > 0.25  # reported before clipping
    clipped = math.sqrt(sum((g**2).sum() for g in got.values()))
    assert math.isclose(clipped, norm * 0.25 / (norm + 1e-6), rel_tol=1e-14)


def poisoned(*calls: int, field: int = 0, value: float = math.nan) -> Function:
    """The train graph with one result replaced in some of its calls."""
    count = iter(range(10_000))

    def call(*inputs: np.ndarray) -> Any:
        results = list(train(*(x for x in inputs)))
        if next(count) in calls:
            results[field] = np.full_like(results[field], value)
        return results

    return call


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(("field", "tensor"), [(0, "loss"), (1, "model.w")])
def test_a_step_that_is_not_finite_commits_nothing(field: int, tensor: str, value: float, folder: Path) -> None:
    config = RunConfig(4, None, 3, precision="f64", checkpoint_every=1)
    functions = {"train": poisoned(7, field=field, value=value)}  # microbatch 1 of step 2
    result = run(make_engine(folder, config, evaluations=(), functions=functions), options(folder / "out"))
    assert result.code == 0
    assert [d.code for d in result.warnings] == ["W-NUM-001"]
    (warned,) = events(folder / "out", "warning")
    assert (warned["step"], warned["tensor"]) == (2, tensor)
    assert warned["microbatch"] == (1 if tensor == "loss" else None)
    assert len(warned["records"]) == (4 if tensor == "loss" else 12)
    assert warned["at"] == ("line.sx:9:3" if tensor == "loss" else "line.sx:5:1")
    roots = folder / "out" / "checkpoints"
    assert tensors(roots / "step-00000003") == tensors(roots / "step-00000002")
    assert tensors(roots / "step-00000004") != tensors(roots / "step-00000003")
    steps = events(folder / "out", "step")
    assert [step["refused"] for step in steps] == [False, False, True, False]
    shown = steps[2]["metrics"]["train/loss" if tensor == "loss" else "optim/grad_norm"]
    assert shown == {math.inf: "Infinity"}.get(value, "NaN")


def test_a_refused_step_names_what_was_not_finite_first(folder: Path) -> None:
    y = np.load(folder / "y.npy")
    y[9] = math.nan
    np.save(folder / "y.npy", y)
    engine = make_engine(folder, RunConfig(1, None, 6, precision="f64"), order="sequential", evaluations=())
    result = run(engine, options(folder / "out"))
    (warned,) = events(folder / "out", "warning")
    assert (warned["tensor"], warned["microbatch"]) == ("loss", 2)
    assert warned["origin"] == {"what": "the field y", "at": None}
    assert [note.text for note in result.warnings[0].notes] == ["not finite first: the field y"]


def test_too_many_in_a_row_end_the_run_with_the_last_good_state(folder: Path) -> None:
    config = RunConfig(9, None, 1, precision="f64", max_skipped=2)
    functions = {"train": poisoned(1, 3, 4)}
    result = run(make_engine(folder, config, evaluations=(), functions=functions), options(folder / "out"))
    assert result.code == 1
    assert result.error is not None
    assert result.error.code == "E-NUM-001"
    assert result.error.span is not None
    assert events(folder / "out")[-1]["code"] == "E-NUM-001"
    assert status(folder / "out")["state"] == "failed"
    assert status(folder / "out")["error"]["code"] == "E-NUM-001"
    assert array(last_tensors(folder / "out"), "buffer/model.seen") == 2  # steps 0 and 2 were kept


@pytest.mark.parametrize("steps", [1, 2])
def test_a_run_without_one_finite_step_is_not_finished(steps: int, folder: Path) -> None:
    """Fewer steps than `max_skipped`; going on with it at its end is refused as well."""
    functions = {"train": poisoned(*range(9))}
    engine = make_engine(folder, RunConfig(steps, None, 1, precision="f64"), functions=functions)
    result = run(engine, options(folder / "out"))
    assert result.error is not None
    assert (result.code, result.error.code) == (1, "E-NUM-001")
    assert f"at step {steps - 1}" in str(result.error.actual)
    assert [d.code for d in result.warnings] == ["W-NUM-001"] * steps
    assert status(folder / "out")["state"] == "failed"
    assert events(folder / "out", "checkpoint")[-1]["step"] == steps
    again = run(engine, options(folder / "out", resume="latest"))
    assert again.error is not None
    assert (again.code, again.error.code) == (1, "E-NUM-001")


def test_one_finite_step_makes_a_run(folder: Path) -> None:
    functions = {"train": poisoned(1, 2)}
    engine = make_engine(folder, RunConfig(3, None, 1, precision="f64"), functions=functions)
    assert run(engine, options(folder / "out")).code == 0


def test_a_fault_of_ours_leaves_the_run_failed(folder: Path) -> None:
    def broken(*inputs: np.ndarray) -> Any:
        raise KeyError("no kernel for sx.fold")

    engine = make_engine(folder, RunConfig(4, None, 1, precision="f64"), functions={"train": broken})
    with pytest.raises(KeyError):
        run(engine, options(folder / "out"))
    found = status(folder / "out")
    message = "a fault of sexpgpu: KeyError: 'no kernel for sx.fold'"
    assert (found["state"], found["error"]) == ("failed", {"code": "E-INT-001", "message": message})
    assert events(folder / "out")[-1]["code"] == "E-INT-001"


def test_a_fault_of_ours_before_the_first_step(folder: Path) -> None:
    def broken() -> Any:
        raise AssertionError

    engine = make_engine(folder, RunConfig(4, None, 1, precision="f64"), functions={"init w": broken})
    with pytest.raises(AssertionError):
        run(engine, options(folder / "out"))
    assert status(folder / "out")["state"] == "failed"


def test_an_overflowing_norm_is_refused_without_a_guilty_tensor(folder: Path) -> None:
    functions = {"train": poisoned(0, field=1, value=1e200)}
    config = RunConfig(1, None, 1, precision="f64")
    run(make_engine(folder, config, evaluations=(), functions=functions), options(folder / "out"))
    (warned,) = events(folder / "out", "warning")
    assert warned["tensor"] is None


def test_a_buffer_per_microbatch_keeps_its_rows_apart(folder: Path) -> None:
    found = tensors_of(make_engine(folder, RunConfig(5, None, 3, precision="f64"), evaluations=()), folder / "out")
    carry = array(found, "buffer/model.carry")
    assert carry.shape == (3,)
    assert len(set(carry.tolist())) == 3
    assert array(found, "buffer/model.seen") == 5  # an integer buffer takes the last proposal


def test_step_sums_make_a_masked_mean_exact(tmp_path: Path) -> None:
    """Σx/Σw over the step, with microbatches whose weights differ, from the pass that runs first."""
    write_data(tmp_path, records=24, whole=True)

    def terms(x: np.ndarray) -> Any:
        return ((x[:, 0] > 0).sum().astype(np.float64),)

    def masked(*inputs: np.ndarray) -> Any:
        *usual, total, share = inputs
        w, b, mean, seen, carry, x, y = usual
        results = list(train(w, b, mean, seen, carry, x, y))
        kept = x[:, 0] > 0
        results[0] = (0.5 * ((x @ w + b - y) ** 2)[kept].sum()) / total / share
        return results

    def build(batch: int, k: int) -> NumpyEngine:
        engine = make_engine(
            tmp_path,
            RunConfig(1, None, k, precision="f64"),
            batch=batch,
            order="sequential",
            evaluations=(),
            functions={"train": masked, "sums": terms},
        )
        e = engine.experiment
        old = e.graphs["train"]
        extra = (Input("step_sum", "kept", SCALAR), Input("ctx", "share", SCALAR))
        x = Input("field", "x", TensorType((batch, 3), "f64"))
        sums = Graph("sums", "sums", (x,), (Output("step_term", "kept", SCALAR),), rows=batch)
        graphs = e.graphs | {"train": evolve(old, inputs=(*old.inputs, *extra)), "sums": sums}
        return evolve(engine, experiment=evolve(e, graphs=graphs, sums_graph="sums"))

    losses = []
    for batch, k in ((12, 1), (4, 3), (2, 6), (1, 12)):
        out = tmp_path / f"{batch}"
        assert run(build(batch, k), options(out)).code == 0
        losses.append(events(out, "step")[0]["metrics"]["train/loss"])
    assert np.allclose(losses, losses[0], rtol=1e-14)


def test_evaluations_checkpoints_and_logs_change_no_weights(folder: Path) -> None:
    config = RunConfig(9, None, 2, precision="f64")
    plain = tensors_of(make_engine(folder, config, evaluations=()), folder / "plain")
    busy = evolve(config, checkpoint_every=1, log_every=4)
    each = tuple(Evaluation(f"e{n}", loader(folder, f"l{n}", 4, "shuffle"), "eval", n, at_start=True) for n in (1, 2))
    assert tensors_of(make_engine(folder, busy, evaluations=each), folder / "busy") == plain
    assert [e["step"] for e in events(folder / "busy", "step")] == [0, 4, 8]


def test_evaluations_read_what_they_should(folder: Path) -> None:
    every = {
        "all": Evaluation("all", loader(folder, "a", 10, "sequential"), "eval", 2),
        "shuffled": Evaluation("shuffled", loader(folder, "b", 10, "shuffle"), "eval", 2),
        "fresh": Evaluation("fresh", loader(folder, "c", 10, "random"), "eval", 2, batches=3),
        "fixed": Evaluation("fixed", loader(folder, "c", 10, "random"), "eval", 2, batches=3, fixed=True),
    }
    config = RunConfig(4, None, 1, precision="f64")
    frozen: dict[str, Function] = {name: lambda p, g, v, *s: (p, v, np.float64(0)) for name in ("update w", "update b")}
    engine = make_engine(folder, config, batch=10, evaluations=tuple(every.values()), functions=frozen)
    run(engine, options(folder / "out"))
    found = events(folder / "out", "eval")
    losses = {name: [e["metrics"][f"{name}/loss"] for e in found if e["name"] == name] for name in every}
    counts = {name: {e["metrics"][f"{name}/n"] for e in found if e["name"] == name} for name in every}
    assert counts == {"all": {23}, "shuffled": {23}, "fresh": {30}, "fixed": {30}}
    assert losses["all"][0] == losses["all"][1]
    assert math.isclose(losses["all"][0], losses["shuffled"][0], rel_tol=1e-14)
    assert losses["fresh"][0] != losses["fresh"][1]
    assert losses["fixed"][0] == losses["fixed"][1] == losses["fresh"][0]
    assert [e["index"] for e in found if e["name"] == "fresh"] == [0, 1]


def test_a_view_is_what_evaluation_sees(folder: Path) -> None:
    seen = []

    def spy(w: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray) -> Any:
        seen.append(w.copy())
        return np.float64(0), np.int32(1)

    each = tuple(
        Evaluation(weights, loader(folder, "a", 23, "sequential"), "eval", at=(1,), weights=weights)
        for weights in ("view", "train")
    )
    engine = make_engine(folder, RunConfig(1, None, precision="f64"), evaluations=each, functions={"eval": spy})
    engine = evolve(engine, experiment=evolve(engine.experiment, views={"model.w": "view"}))
    plain = tensors_of(make_engine(folder, RunConfig(1, None, precision="f64"), evaluations=()), folder / "plain")
    found = tensors_of(engine, folder / "out")
    assert not seen[0].any()
    assert seen[1].any()
    assert found == plain


@pytest.mark.parametrize(
    ("batch", "order", "told"), [(24, "shuffle", True), (24, "random", False), (23, "sequential", False)]
)
def test_a_batch_larger_than_the_data_is_told(batch: int, order: Order, told: bool, folder: Path) -> None:
    engine = make_engine(folder, RunConfig(1, None, 1, precision="f64"), batch=batch, order=order)
    result = run(engine, options(folder / "out"))
    assert result.code == 0
    assert [d.message for d in result.warnings] == [
        "a batch of train-loader is to have 24 records, and there are 23"
    ] * told
