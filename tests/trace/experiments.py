"""Small experiments that tests take apart: a file with one part replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sexpgpu.driver.compile import Compilation, compiling
from sexpgpu.driver.pipeline import EVERY, Passes
from sexpgpu.driver.planning import preparing
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection

PARTS = {
    "require": '(require "sexpgpu/nn") (require "sexpgpu/optim")',
    "knobs": "(defknobs (width 3))",
    "data": '(def xs (npy "x.npy")) (def ys (npy "y.npy"))',
    "loader": "(defloader train-loader (:batch 4 :order :sequential) (x xs) (y ys))",
    "prepare": "(defun prepare (batch) (values (field batch 'x) (field batch 'y)))",
    "model": "(defmodel net () (defsub out (linear width 2)) (forward (x) (out x)))",
    "instance": "(def model (net))",
    "objective": "(defun objective (logits labels) (cross-entropy logits labels))",
    "evaluate": "(defun evaluate (logits labels) (metric 'loss (cross-entropy logits labels)))",
    "eval": "(defeval val (:loader train-loader :every 2))",
    "optimizer": "(def optimizer (sgd :lr 0.1))",
    "run": "(defrun :steps 4 :seed 1)",
}


def write_data(folder: Path, records: int = 10) -> None:
    """x: f32 [records, 3], y: i64 [records] of 0 and 1."""
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.normal(size=(records, 3)).astype(np.float32))
    np.save(folder / "y.npy", rng.integers(0, 2, records))


def text_of(**replaced: str) -> str:
    """The experiment, a part a line, with some parts replaced."""
    assert replaced.keys() <= PARTS.keys()
    return "\n".join({**PARTS, **replaced}.values()) + "\n"


def write(folder: Path, **replaced: str) -> Path:
    """An experiment file with its data beside it."""
    write_data(folder)
    file = folder / "experiment.sx"
    file.write_text(text_of(**replaced), encoding="utf-8")
    return file


@contextmanager
def compiled(file: Path, selection: Selection | None = None) -> Iterator[Compilation]:
    with compiling(file, selection or Selection()) as done:
        yield done


@contextmanager
def prepared(file: Path, selection: Selection | None = None, passes: Passes = EVERY) -> Iterator[Compilation]:
    """A compilation with its plans, as a run has it."""
    with preparing(file, selection or Selection(), passes) as done:
        yield done


def codes(file: Path, selection: Selection | None = None) -> list[tuple[str, int | None]]:
    """Code and line of everything the compiler says of a file."""

    def look() -> list[tuple[str, int | None]]:
        with compiled(file, selection) as done:
            return [(d.code, d.span.line if d.span else None) for d in done.diagnostics]

    return run_deep(look)
