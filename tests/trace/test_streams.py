"""Streams with carried state: a row goes on from what it kept, on any split of a step and after a resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sexpgpu.driver.engine import CpuEngine
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.runtime.run import RunOptions, RunResult, run
from tests.runtime.reading import events, last_tensors, timeless
from tests.trace.experiments import prepared

SEQ, STEPS = 4, 11

FILE = """(require "sexpgpu/nn") (require "sexpgpu/optim")
(defloader train-loader (:batch {batch} :order :streams)
  (n (window (arange {items}) {window} :stride {seq})))
(defun prepare (batch)
  (let ((n (cast (field batch 'n) :float)))
    (values (slice n 1 0 -1) (slice n 1 1 nil))))
(defmodel follower ()
  (defparam w () :init (constant-init 0.001))
  (defbuffer last ({batch}) :per-microbatch t :init (constant-init -1.0))
  (forward (n)
    (set-buffer last (squeeze (slice n 1 -1 nil) 1))
    (metric 'first (sum (slice n 1 0 1)) :reduce :sum)
    (metric 'gap (sum (abs (- (squeeze (slice n 1 0 1) 1) last 1.0))) :reduce :sum)
    (* w n)))
(def model (follower))
(defun objective (guess targets) (mse guess targets))
(def optimizer (sgd :lr 1e-5))
(defrun :steps {steps} :seed 1 :microbatches {parts} :checkpoint '(:every 1))
"""


def trained(folder: Path, out: str, batch: int, parts: int, *stops: int | None) -> RunResult:
    """Four rows a step, however split, over streams of five records each, and three records more."""
    items = SEQ * (batch * parts * 5 + 3) + 1
    file = folder / f"{batch}.sx"
    text = FILE.format(batch=batch, parts=parts, items=items, window=SEQ + 1, seq=SEQ, steps=STEPS)
    file.write_text(text, encoding="utf-8")

    def work() -> RunResult:
        with prepared(file) as done:
            assert done.diagnostics.errors == []
            for stop in stops:
                options = RunOptions(out=folder / out, quiet=True, resume="latest", steps=stop)
                result = run(CpuEngine(done), options)
            return result

    return run_deep(work)


@pytest.mark.parametrize(("batch", "parts"), [(4, 1), (2, 2), (1, 4)])
def test_a_row_goes_on_from_what_it_kept(batch: int, parts: int, tmp_path: Path) -> None:
    assert trained(tmp_path, "out", batch, parts, None).error is None
    gaps = [event["metrics"]["train/gap"] for event in events(tmp_path / "out", "step")]
    # Nothing is kept before the first step; the seam of the last stream back to the first record is no gap of 1:
    # it comes at steps 5 and 10, for one row of the four.
    starts = np.arange(4) * 5 * SEQ
    assert gaps[0] == (starts - (-1) - 1).sum()
    assert [step for step, gap in enumerate(gaps) if gap] == [0, 5, 10]
    assert gaps[5] == gaps[10] == 4 * 5 * SEQ
    firsts = [event["metrics"]["train/first"] for event in events(tmp_path / "out", "step")]
    assert firsts[:6] == [float((starts + s * SEQ).sum()) for s in range(5)] + [float(starts.sum())]


def test_a_resume_keeps_the_rows(tmp_path: Path) -> None:
    assert trained(tmp_path, "whole", 2, 2, None).error is None
    assert trained(tmp_path, "cut", 2, 2, 1, 2, 5, 6, 10, None).error is None
    assert last_tensors(tmp_path / "cut") == last_tensors(tmp_path / "whole")
    assert timeless(tmp_path / "cut", "step") == timeless(tmp_path / "whole", "step")


def test_the_character_lstm_trains(root: Path, tmp_path: Path) -> None:
    """As it is written, at smoke size: the state that it carries is that of the text, from step to step."""

    def work(steps: int) -> RunResult:
        with prepared(root / "examples/char-lstm.sx", Selection(variant="smoke")) as done:
            assert list(done.diagnostics) == []
            return run(CpuEngine(done), RunOptions(out=tmp_path / "out", quiet=True, resume="latest", steps=steps))

    assert run_deep(lambda: work(1)).error is None
    (name,) = [key for key in last_tensors(tmp_path / "out") if key.startswith("buffer/")]
    dtype, shape, first = last_tensors(tmp_path / "out")[name]
    assert shape == (1, 2, 2, 50, 16)  # microbatches, layers, h and c, batch, width
    assert np.count_nonzero(np.frombuffer(first, dtype)) == 2 * 2 * 50 * 16
    assert run_deep(lambda: work(3)).error is None
    assert last_tensors(tmp_path / "out")[name][2] != first
    losses = [event["metrics"]["train/loss"] for event in events(tmp_path / "out", "step")]
    assert losses == sorted(losses, reverse=True)
