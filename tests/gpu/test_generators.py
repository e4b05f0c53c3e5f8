"""Generators and samples of evaluations on the simulated device: what they emit is what they emit on the CPU."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.gpu.test_doctor import without_gpu
from tests.gpu.test_engine import sexpgpu

FILE = """
(require "sexpgpu/nn") (require "sexpgpu/optim")
(def text (chars "text.txt"))
(defloader train-loader (:batch 4 :order :random) (tokens (window text 9)))
(defun prepare (batch) (let ((x (field batch 'tokens))) (values (slice x 1 0 -1) (slice x 1 1 nil))))
(defmodel net ()
  (defsub embed (embedding (vocab-size text) 8))
  (defsub head (linear 8 (vocab-size text)))
  (forward (x) (head (tanh (embed x)))))
(def model (net))
(defun objective (logits labels) (cross-entropy logits labels))
(defun evaluate (logits labels)
  (metric 'loss (cross-entropy logits labels))
  (sample 'guess (slice (argmax logits) 0 0 1) :as :text))
(defeval val (:loader train-loader :every 2 :batches 2))
(def optimizer (ema 0.9 (adamw :lr 5e-2)))
(defgenerator story (:trips 6)
  (:init (ctx)
    (let ((prompt (getf ctx :prompt)) (blank (zeros '(1 4) :dtype :i32)))
      (if (null prompt) blank (slice (concat (list blank (reshape prompt '(1 -1))) 1) 1 -4 nil))))
  (:trip (tokens i ctx)
    (let ((next (slice (funcall model tokens) 1 -1 nil)))
      (concat (list (slice tokens 1 1 nil) (next-token next :temperature (getf ctx :temperature))) 1)))
  (:emit (tokens) (sample 'text tokens :as :text)))
(defgenerator batch (:trips 1 :at :step :every 2 :weights :train)
  (:init (ctx) (field (getf ctx :batch) 'tokens))
  (:trip (state i ctx) (+ state 1))
  (:emit (state) (sample 'numbers state)))
(defrun :steps 4 :seed 1)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one file on both devices, in `cpu` and `sim`."""
    folder = tmp_path_factory.mktemp("generators")
    (folder / "text.txt").write_text("abcd efgh ijkl. " * 40, "utf-8")
    (folder / "story.sx").write_text(FILE, "utf-8")
    for device in ("cpu", "sim"):
        done = sexpgpu("run", folder / "story.sx", "--device", device, "--out", folder / device, "--quiet")
        assert done.returncode == 0, done.stderr
    return folder


def samples(run: Path) -> list[tuple[object, ...]]:
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text("utf-8").splitlines()]
    return [(e["step"], e["name"], e["source"], e["texts"]) for e in lines if e["event"] == "sample"]


def test_a_run_shows_what_it_shows_on_the_cpu(folder: Path) -> None:
    told = samples(folder / "sim")
    assert {name for _, name, _, _ in told} == {"val/guess", "story/text", "batch/numbers"}
    assert told == samples(folder / "cpu")
    for file in sorted((folder / "cpu" / "samples").rglob("*.npy")):
        same = folder / "sim" / file.relative_to(folder / "cpu")
        assert same.read_bytes() == file.read_bytes()


def test_the_verb_runs_on_the_device_that_it_is_told(folder: Path) -> None:
    flags = ("--prompt", "abcd", "--temperature", "0", "story")
    answers = []
    for device in ("cpu", "sim"):
        done = sexpgpu("generate", folder / "sim", *flags, SEXPGPU_DEVICE=device)
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)
    flagged = sexpgpu("generate", folder / "sim", *flags, "--device", "sim", SEXPGPU_DEVICE="cuda")
    assert answers == [flagged.stdout] * 2


@without_gpu
@pytest.mark.parametrize(("flags", "environment"), [((), {"SEXPGPU_DEVICE": "cuda"}), (("--device", "cuda"), {})])
def test_a_gpu_that_is_not_there_is_refused_as_by_run(
    flags: tuple[str, ...], environment: dict[str, str], folder: Path
) -> None:
    done = sexpgpu("generate", folder / "sim", "story", *flags, **environment)
    assert done.returncode == 3
    assert re.search(r"error\[E-DEV-0(02|10)\]", done.stderr), done.stderr


def test_a_checkpoint_of_one_device_goes_on_on_another(folder: Path) -> None:
    out = folder / "moved"
    start = sexpgpu("run", folder / "story.sx", "--device", "sim", "--out", out, "--steps", 2, "--quiet")
    assert start.returncode == 0, start.stderr
    done = sexpgpu("run", folder / "story.sx", "--device", "cpu", "--out", out, "--resume", "latest", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step"] == 4


def test_a_generator_that_does_not_fit_is_refused_before_the_checkpoint_is_read(folder: Path) -> None:
    done = sexpgpu("generate", folder / "sim", "story", SEXPGPU_DEVICE="sim", SEXPGPU_MEMORY="1KiB")
    assert done.returncode == 1
    assert "error[E-MEM-001]" in done.stderr
    assert "1.0 KiB at most, by SEXPGPU_MEMORY" in done.stderr
    assert re.search(r"actual: +parameters .*, views .*, arena ", done.stderr)


def test_a_generator_keeps_to_its_plan(folder: Path) -> None:
    """It needs less than a step of training, and no byte more than it was said to need."""
    refused = sexpgpu("generate", folder / "sim", "story", SEXPGPU_DEVICE="sim", SEXPGPU_MEMORY="1KiB")
    (needed,) = re.findall(r"the generator needs (\d+\.\d) KiB", refused.stderr)
    room = f"{int(float(needed)) + 1}KiB"
    done = sexpgpu("generate", folder / "sim", "story", SEXPGPU_DEVICE="sim", SEXPGPU_MEMORY=room)
    assert done.returncode == 0, done.stderr
    trained = sexpgpu("run", folder / "story.sx", "--device", "sim", SEXPGPU_MEMORY=room)
    assert "error[E-MEM-001]" in trained.stderr
