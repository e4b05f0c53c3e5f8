"""Whole runs on the simulated device beside the same runs on the CPU: values, checkpoints, resuming, refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sexpgpu.runtime.restore import newest_good, read_index, read_shard
from tests.trace.experiments import write


def sexpgpu(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sexpgpu", *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **environment}, text=True, capture_output=True)


def trained(file: Path, device: str, *flags: object, **environment: str) -> tuple[dict[str, Any], Path]:
    """The JSON document of a run that ends well, and its directory."""
    out = file.parent / f"out-{device}"
    done = sexpgpu("run", file, "--device", device, "--out", out, "--json", *flags, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), out


def tensors(out: Path) -> dict[str, np.ndarray]:
    """What the last checkpoint of a run holds."""
    from safetensors.numpy import load

    path = newest_good(out / "checkpoints", lambda warning: None)
    assert path is not None
    index = read_index(path)
    return {key: array for name in index["files"] for key, array in load(read_shard(path, name, index)).items()}


def steps(out: Path) -> list[dict[str, float]]:
    """The metrics of each step, those of the run's time left out."""
    lines = [json.loads(line) for line in (out / "events.jsonl").read_text("utf-8").splitlines()]
    metrics = [line["metrics"] for line in lines if line["event"] == "step"]
    return [{name: value for name, value in each.items() if not name.startswith("runtime/")} for each in metrics]


def evaluated(out: Path) -> list[float]:
    """The metrics of all evaluations in order."""
    lines = [json.loads(line) for line in (out / "events.jsonl").read_text("utf-8").splitlines()]
    return [value for line in lines if line["event"] == "eval" for value in line["metrics"].values()]


def both(file: Path, *flags: object, tolerance: float = 1e-5, **environment: str) -> None:
    """A run gives on the simulator what it gives on the CPU."""
    (_, cpu), (_, sim) = [trained(file, device, *flags, **environment) for device in ("cpu", "sim")]
    for wanted, found in zip(steps(cpu), steps(sim), strict=True):
        assert found.keys() == wanted.keys()
        assert list(found.values()) == pytest.approx(list(wanted.values()), rel=tolerance, abs=tolerance)
    assert evaluated(sim) == pytest.approx(evaluated(cpu), rel=tolerance)
    wanted_tensors, found_tensors = tensors(cpu), tensors(sim)
    assert found_tensors.keys() == wanted_tensors.keys()
    for key, array in wanted_tensors.items():
        assert found_tensors[key].dtype == array.dtype
        assert np.allclose(found_tensors[key], array, rtol=tolerance, atol=tolerance), key


def test_training_gives_what_the_cpu_gives(tmp_path: Path) -> None:
    """The last batch of an epoch is shorter, so that it is compiled again at its size."""
    both(write(tmp_path))


@pytest.mark.parametrize(
    "value", ["(ones (shape param))", "(* 0.9 param)", "(* 0.1 (cast (getf ctx :step) :float) grad)"]
)
def test_updates_that_do_not_read_all_they_are_offered(value: str, tmp_path: Path) -> None:
    """Nothing at all, no gradient, not what the parameter was."""
    optimizer = f"(defoptimizer own () (optimizer-update (param grad ctx) {value}))\n(def optimizer (own))"
    both(write(tmp_path, optimizer=optimizer, run="(defrun :steps 3 :clip-norm 0.5 :seed 1)"))


def test_parameters_without_elements(tmp_path: Path) -> None:
    """Beside others and alone in their group, with microbatches that are added up and gradients that are clipped."""
    model = """(defmodel net () (defsub out (linear 3 2)) (defparam e (0 4) :init (normal 1.0))
      (defparam f (0) :init (normal 1.0)) (forward (x) (+ (out x) (+ (sum e) (sum f)))))"""
    optimizer = '(def optimizer (optimizer-groups (adamw :lr 0.05) (group "model.f" (sgd :lr 0.2))))'
    run = "(defrun :steps 3 :microbatches 2 :clip-norm 0.05 :seed 1)"
    both(write(tmp_path, model=model, optimizer=optimizer, run=run))


def test_microbatches_clipping_and_several_groups(tmp_path: Path) -> None:
    optimizer = '(def optimizer (optimizer-groups (adam :lr 0.05) (group "*.bias" (sgd :lr 0.2))))'
    run = "(defrun :steps 3 :microbatches 3 :clip-norm 0.05 :seed 1)"
    both(write(tmp_path, optimizer=optimizer, run=run))


def test_sums_of_a_step_in_a_tree(tmp_path: Path) -> None:
    both(write(tmp_path, run="(defrun :steps 2 :microbatches 4 :deterministic t :seed 1)"))


def test_bf16_rounds_as_the_cpu_does(tmp_path: Path) -> None:
    both(write(tmp_path, run="(defrun :steps 3 :precision :bf16 :seed 1)"), tolerance=2e-2)


def test_nothing_is_found_in_the_kernels_of_a_run(tmp_path: Path) -> None:
    """SEXPGPU_CHECK: the simulator looks for all that it can find, the CPU holds each step against its reference."""
    both(write(tmp_path, run="(defrun :steps 2 :microbatches 2 :clip-norm 0.05 :seed 1)"), SEXPGPU_CHECK="1")


def test_f64(tmp_path: Path) -> None:
    prepare = "(defun prepare (batch) (values (cast (field batch 'x) :float) (field batch 'y)))"
    both(write(tmp_path, prepare=prepare, run="(defrun :steps 3 :precision :f64 :seed 1)"), tolerance=1e-12)


MODEL = """(defmodel net ()
  (defsub out (linear width 2))
  (defbuffer centre () :init (zeros-init))
  (forward (x) (when (training-p) (set-buffer centre (lerp centre (mean x) 0.5))) (out (- x centre))))"""


def test_buffers_are_averaged_over_the_microbatches(tmp_path: Path) -> None:
    both(write(tmp_path, model=MODEL, run="(defrun :steps 3 :microbatches 2 :seed 1)"))


def test_a_run_that_is_resumed_is_the_run_that_never_stopped(tmp_path: Path) -> None:
    file = write(tmp_path, optimizer="(def optimizer (adam :lr 0.1))")
    _, whole = trained(file, "sim")
    kept = tensors(whole)
    first = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "two", "--steps", 2, "--quiet")
    assert first.returncode == 0, first.stderr
    again = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "two", "--resume", "latest", "--quiet")
    assert again.returncode == 0, again.stderr
    resumed = tensors(tmp_path / "two")
    assert all(np.array_equal(resumed[key], array) for key, array in kept.items())


def test_the_same_bits_every_run(tmp_path: Path) -> None:
    file = write(tmp_path, run="(defrun :steps 3 :microbatches 2 :seed 1)")
    _, out = trained(file, "sim")
    first = tensors(out)
    second = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "again", "--quiet")
    assert second.returncode == 0, second.stderr
    again = tensors(tmp_path / "again")
    assert all(np.array_equal(again[key], array) for key, array in first.items())


def test_a_step_that_is_not_finite_is_refused_and_explained(tmp_path: Path) -> None:
    objective = "(defun objective (logits labels) (+ (cross-entropy logits labels) (log (- (mean (* logits logits))))))"
    done = sexpgpu("run", write(tmp_path, objective=objective), "--device", "sim", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "E-NUM-001" in done.stderr
    assert "not finite first: the result of log" in done.stderr


@pytest.mark.parametrize("microbatches", [1, 2])
def test_steps_whose_gradient_is_not_finite_change_nothing(microbatches: int, tmp_path: Path) -> None:
    """The host looks when the updates were made of it: they are dropped, and the gradient's name is found again."""
    model = "(defmodel net () (defparam table (2 3) :init (ones-init)) (forward (y) (gather table y)))"
    prepare = "(defun prepare (batch) (values (field batch 'y) (field batch 'y)))"
    # At a label of 1 the derivative of the root is that at 0.
    objective = "(defun objective (rows labels) (mean (sqrt (square (- rows (cast (reshape labels '(1 1)) :float))))))"
    evaluate = "(defun evaluate (rows labels) (metric 'loss (mean rows)))"
    loader = "(defloader train-loader (:batch 1 :order :shuffle) (y ys))"
    run = f"(defrun :steps 12 :microbatches {microbatches} :clip-norm 0.3 :max-skipped 99 :seed 3)"
    optimizer = "(def optimizer (adam :lr 0.1))"
    file = write(
        tmp_path, model=model, prepare=prepare, objective=objective, evaluate=evaluate, loader=loader, run=run,
        optimizer=optimizer,
    )  # fmt: skip
    names = ("train/loss", "optim/grad_norm")
    told, found, params = [], [], []
    for device in ("cpu", "sim"):
        document, out = trained(file, device)
        told.append([(each["code"], each["message"]) for each in document["diagnostics"]])
        found.append(np.array([[each.get(name) for name in names] for each in steps(out)], float))
        params.append(tensors(out))
    assert told[0] == told[1]
    refused = [number for number, each in enumerate(found[0]) if not np.isfinite(each).all()]
    assert 0 < len(refused) < 12
    assert any("gradient of model.table" in message for _, message in told[0])
    assert np.allclose(found[0], found[1], rtol=1e-5, atol=1e-7, equal_nan=True)
    assert all(np.allclose(params[1][key], array, rtol=1e-5) for key, array in params[0].items())


def test_an_index_outside_its_axis_stops_the_run(tmp_path: Path) -> None:
    model = "(defmodel net () (defparam table (2 2) :init (zeros-init)) (forward (y) (gather table y)))"
    prepare = "(defun prepare (batch) (values (+ (field batch 'y) 1) (field batch 'y)))"
    objective = "(defun objective (rows labels) (mean (* rows rows)))"
    evaluate = "(defun evaluate (rows labels) (metric 'loss (mean rows)))"
    file = write(tmp_path, model=model, prepare=prepare, objective=objective, evaluate=evaluate)
    done = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "E-VALUE-101" in done.stderr
    assert "index 2" in done.stderr
    assert "experiment.sx:6:" in done.stderr
    assert "at step 0, records 0, 1, 2, 3" in done.stderr


INDEXED = {
    "an update": (
        {
            "optimizer": """(defoptimizer listed () (optimizer-update (param grad ctx)
              (- param (* (gather (constant '(0.1 0.2)) (getf ctx :step)) grad))))\n(def optimizer (listed))"""
        },
        "(gather (constant '(0.1 0.2))",
        "at step 2",
    ),
    "a total of the step": (
        {
            "model": """(defmodel net () (defsub out (linear 3 2))
              (forward (x) (/ (out x) (step-sum (sum (gather (ones '(2)) (cast (round (* 99.0 (mean x))) :i32)))))))"""
        },
        "(gather (ones '(2))",
        "at step 0, records 0, 1, 2, 3",
    ),
    "an evaluation": (
        {"evaluate": "(defun evaluate (logits labels) (metric 'v (mean (gather logits (+ labels 1) :axis 1))))"},
        "(gather logits (+ labels 1)",
        "of evaluation",
    ),
    "an evaluation of samples": (
        {"evaluate": "(defun evaluate (logits labels) (sample 'v (gather logits (+ labels 1) :axis 1)))"},
        "(gather logits (+ labels 1)",
        "at batch 0 of evaluation val",
    ),
    "a generator of large samples": (
        {
            "optimizer": """(def optimizer (sgd :lr 0.1))\n(defgenerator g (:trips 3 :at :step) (:init (ctx) (zeros 99))
              (:trip (z i ctx) (+ z (gather (constant '(0.1 0.2)) i))) (:emit (z) (sample 'z z)))"""
        },
        "(gather (constant '(0.1 0.2)) i)",
        "in generator g, after step 1",
    ),
    "a generator": (
        {
            "optimizer": """(def optimizer (sgd :lr 0.1))\n(defgenerator g (:trips 3) (:init (ctx) (zeros 3))
              (:trip (z i ctx) (+ z (gather (constant '(0.1 0.2)) i))) (:emit (z) (sample 'z z)))"""
        },
        "(gather (constant '(0.1 0.2)) i)",
        "in generator g, after step",
    ),
}


@pytest.mark.parametrize("where", INDEXED)
def test_an_index_outside_its_axis_is_told_with_its_place(where: str, tmp_path: Path) -> None:
    """Wherever a kernel met it, and with what went on, as on the CPU."""
    parts, form, note = INDEXED[where]
    file = write(tmp_path, **parts)
    text = file.read_text("utf-8")
    before = text[: text.index(form)]
    place = f"experiment.sx:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}: error[E-VALUE-101]"
    for device in ("cpu", "sim"):
        done = sexpgpu("run", file, "--device", device, "--out", tmp_path / device, "--quiet")
        assert done.returncode == 1
        assert place in done.stderr
        assert note in done.stderr


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("batch", [4, 9, 99])
def test_a_generator_is_given_the_whole_of_a_shorter_batch(batch: int, device: str, tmp_path: Path) -> None:
    """Of 10 records the last batch is shorter, or every one is: no record is missing, and none is of another batch."""
    generator = """(defgenerator g (:trips 1 :at :step) (:init (ctx) (field (getf ctx :batch) 'x))
      (:trip (z i ctx) (* 2.0 z)) (:emit (z) (sample 'z z)))"""
    file = write(
        tmp_path,
        loader=f"(defloader train-loader (:batch {batch} :order :sequential) (x xs) (y ys))",
        optimizer=f"(def optimizer (sgd :lr 0.1))\n{generator}",
        run="(defrun :steps 6 :seed 1)",
    )
    _, out = trained(file, device)
    xs = np.load(tmp_path / "x.npy")
    found = [np.load(path) for path in sorted((out / "samples").glob("*/g-z.npy"))]
    batches = [xs[start : start + batch] for start in range(0, 10, batch)]
    assert len(found) == 6
    for step, array in enumerate(found, 1):
        assert np.array_equal(array, 2 * batches[min(step, 5) % len(batches)])  # behind the last step there is no next


def test_the_device_is_part_of_the_record(tmp_path: Path) -> None:
    _, out = trained(write(tmp_path), "sim", "--steps", 1)
    opening = json.loads((out / "events.jsonl").read_text("utf-8").splitlines()[0])
    assert opening["device"] == "sim sm_80, PTX interpreter"


def test_the_environment_chooses_the_device_and_a_flag_wins(tmp_path: Path) -> None:
    file = write(tmp_path)
    for flags, wanted in (((), "sim sm_80, PTX interpreter"), (("--device", "cpu"), "cpu interpreter")):
        out = tmp_path / f"out{len(flags)}"
        done = sexpgpu("run", file, "--steps", 1, "--out", out, "--quiet", *flags, SEXPGPU_DEVICE="sim")
        assert done.returncode == 0, done.stderr
        assert json.loads((out / "events.jsonl").read_text("utf-8").splitlines()[0])["device"] == wanted


@pytest.mark.parametrize(
    ("environment", "device", "code", "status"),
    [
        ({"SEXPGPU_DEVICES": "8"}, "sim", "E-DP-001", 1),
        ({"SEXPGPU_DEVICES": "a"}, "sim", "E-DP-001", 1),
        ({"SEXPGPU_DEVICES": "0,0"}, "sim", "E-DP-001", 1),
        ({"SEXPGPU_DEVICES": "0,1"}, "sim", "E-DP-003", 1),
        ({"SEXPGPU_NODE_RANK": "1"}, "sim", "E-DP-005", 1),
        ({"SEXPGPU_TF32": "yes"}, "sim", "E-DEV-001", 3),
        ({"SEXPGPU_NODE_WAIT": "x"}, "sim", "E-DEV-001", 3),
        ({"SEXPGPU_NODES": "2"}, "cpu", "E-DP-005", 1),
        ({"SEXPGPU_NODES": "x"}, "sim", "E-DP-005", 1),
        ({"SEXPGPU_MEMORY": "64kB"}, "sim", "E-MEM-001", 1),
    ],
)
def test_what_a_device_refuses(
    environment: dict[str, str], device: str, code: str, status: int, tmp_path: Path
) -> None:
    done = sexpgpu("run", write(tmp_path), "--device", device, "--out", tmp_path / "out", "--json", **environment)
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"]) == (status, False)
    assert document["diagnostics"][-1]["code"] == code


def test_a_pass_that_makes_kernels_is_not_skipped(tmp_path: Path) -> None:
    done = sexpgpu("run", write(tmp_path), "--device", "sim", "--skip", "to-ptx")
    assert done.returncode == 1
    assert "`to-ptx` cannot be skipped: there would be nothing to run" in done.stderr
