"""Loaders as a file says them: every source, orders and their short batches, rows that belong to steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from tokenizers import Tokenizer, models

from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import compile_in, evaluate
from sexpgpu.driver.document import document_text
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.explain import explain
from sexpgpu.driver.explain_text import text_of as explain_text
from sexpgpu.lang.forms import NIL
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.runtime.run import RunOptions, RunResult, run
from sexpgpu.trace.declarations import Flags
from tests.runtime.reading import events
from tests.trace.experiments import codes, compiled, prepared, text_of, write, write_data

ROWS = 12


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Files of every kind, each with twelve records."""
    write_data(tmp_path, ROWS)
    (tmp_path / "t.txt").write_text("abcabcabcabc", encoding="utf-8")
    np.arange(ROWS, dtype="<u2").tofile(tmp_path / "t.bin")
    np.arange(ROWS, dtype="<i4").tofile(tmp_path / "t.i32")
    (tmp_path / "d.jsonl").write_text("\n".join(f'{{"a": {i}, "b": 1}}' for i in range(ROWS)), encoding="utf-8")
    pa.parquet.write_table(pa.table({"a": np.arange(ROWS), "b": np.arange(ROWS)}), tmp_path / "d.parquet")
    Tokenizer(models.BPE({"a": 0, "b": 1, "c": 2, "ab": 3}, [])).save(str(tmp_path / "tokenizer.json"))
    return tmp_path


SOURCES = {
    '(bytes "t.txt")': (12, 256),
    '(bytes "t.txt" :from 0.5 :vocab 128)': (6, 128),
    '(tokens "t.bin" :vocab 12)': (12, 12),
    '(tokens "t.i32" :dtype :i32 :vocab 50 :to 0.99)': (11, 50),
    '(bpe "t.txt" "tokenizer.json")': (12, 4),
    '(jsonl "d.jsonl" "a" :vocab 12 :dtype :i32)': (12, 12),
    "(jsonl \"d.jsonl\" 'a 'b :to 5)": (5, None),
    "(parquet \"d.parquet\" 'a 'b)": (12, None),
    '(parquet "d.parquet" "b" :vocab 12)': (12, 12),
    '(parquet "d.parquet" :shape \'(12 2))': (12, None),
    "(arange 7)": (7, 7),
    "(window (arange 7) 3 :stride 2 :from 1)": (2, 7),
    '(concat-sources (arange 4) (bytes "t.txt"))': (16, 256),
    "(mix ((arange 4) 0.5) ((arange 6) 0.5))": (11, 6),
    "(take (arange 9) 2 :from 3)": (2, 9),
    "(scale (arange 9) 0.5 :from 0.9)": (1, 9),
    '(npy "s3://bucket/x.npy" :shape \'(5 3) :dtype :f32)': (5, None),
}


@pytest.mark.parametrize("form", SOURCES)
def test_every_source_can_be_said(form: str, data: Path) -> None:
    count, vocab = SOURCES[form]
    file = data / "f.sx"
    asked = "nil" if vocab is None else "(vocab-size s)"
    file.write_text(f"(def s {form})\n(list (record-count s) {asked})\n", encoding="utf-8")
    _, diagnostics, results = run_deep(lambda: evaluate(file, Selection()))
    assert list(diagnostics) == []
    assert list(results[-1].values[0]) == [count, NIL if vocab is None else vocab]


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ("(window (by-step (arange 3)) 2)", "E-TYPE-014"),
        ("(take 3 2)", "E-TYPE-014"),
        ('(tokens "t.bin" :dtype :f32)', "E-ARG-011"),
        ('(jsonl "d.jsonl" :to 3)', "E-ARG-001"),
        ('(parquet "d.parquet" \'aa)', "E-LOAD-004"),
        ("(mix)", "E-ARG-001"),
        ("(mix ((arange 3) 0))", "E-LOAD-010"),
        ("(mix ((arange 4) 3) ((window (arange 6) 1) 1))", "E-LOAD-006"),
        ('(csv "d.jsonl" :skipp 1)', "E-ARG-002"),
    ],
)
def test_what_a_source_refuses(form: str, code: str, data: Path) -> None:
    loader = f"(defloader train-loader (:batch 4) (x xs) (y ys) (z {form}))"
    assert [found for found, _ in run_deep(lambda: codes(write(data, loader=loader)))] == [code]


@pytest.mark.parametrize(
    ("loader", "column", "width"),
    [
        ("(defloader train-loader (:batch 4) (x xs) (y 5))", 46, 1),
        ("(defloader y (:batch 4) (x xs) (y 5))", 35, 1),
        ("(def five 5) (defloader train-loader (:batch 4) (x xs) (y five))", 59, 4),
        ("(defloader train-loader (:batch 4) (stage a (x xs) (y 5)))", 55, 1),
        ("(defloader train-loader (:batch 4) (x xs) (y (scale 'no 2)))", 53, 3),
        ("(defloader train-loader (:batch 4) (x xs) (y (normalize ys :zscore :fit 7)))", 73, 1),
        ("(defloader train-loader (:batch 4) (x xs) (y (concat-sources ys 8)))", 65, 1),
        ("(defloader train-loader (:batch 4) (x xs) (y (window (by-step ys) 2)))", 54, 12),
    ],
)
def test_what_is_no_source_has_its_own_place(loader: str, column: int, width: int, data: Path) -> None:
    with compiled(write(data, loader=loader)) as done:
        error = next(e for e in done.diagnostics.errors if e.code == "E-TYPE-014")
    assert error.span is not None
    assert (error.span.col, error.span.end_col) == (column, column + width)


def trained(
    folder: Path, microbatches: int = 1, length: str = ":epochs 2", out: str = "out", **parts: str
) -> RunResult:
    file = folder / "f.sx"
    defrun = f"(defrun {length} :seed 1 :microbatches {microbatches})"
    file.write_text(text_of(**{"run": defrun, "eval": "", **parts}), encoding="utf-8")

    def work() -> RunResult:
        with prepared(file) as done:
            assert done.diagnostics.errors == []
            return run(CpuEngine(done), RunOptions(out=folder / out, quiet=True))

    return run_deep(work)


COUNTING = """(defun prepare (batch)
  (counter 'rows (dim (field batch 'x) 0))
  (metric 'sum (sum (cast (field batch 'n) :float)) :reduce :sum)
  (values (field batch 'x) (field batch 'y)))"""


@pytest.mark.parametrize("order", [":sequential", ":shuffle", ":random", ":streams", '(index-file "order.npy")'])
def test_short_batches_of_every_order(order: str, data: Path) -> None:
    """Twelve records in batches of five: an epoch of 5, 5, 2, or of full batches where the order has no end."""
    np.save(data / "order.npy", np.array([[0, 1, 2, 3, 4], [5, 6, 7, -1, -1], [8, 9, 10, 11, -1]] * 2))
    loader = f"(defloader train-loader (:batch 5 :order {order}) (x xs) (y ys) (n (arange {ROWS})))"
    assert trained(data, loader=loader, prepare=COUNTING).code == 0
    steps = events(data / "out", "step")
    counted = [event["counters"]["rows"] for event in steps]
    sums = [event["metrics"]["train/sum"] for event in steps]
    match order:
        case ":sequential":
            assert counted == [5, 5, 2] * 2
            assert sums == [10, 35, 21] * 2
        case ":shuffle":
            assert counted == [5, 5, 2] * 2
            assert sum(sums[:3]) == sum(sums[3:]) == 66
            assert sums[:3] != [10, 35, 21]
        case ":random":
            assert counted == [5] * 6
        case ":streams":  # five streams of two records, an epoch of two batches
            assert counted == [5] * 4
            assert sums == [0 + 2 + 4 + 6 + 8, 1 + 3 + 5 + 7 + 9, 2 + 4 + 6 + 8 + 0, 3 + 5 + 7 + 9 + 1]
        case _:
            assert counted == [5, 3, 4] * 2
            assert sums == [10, 18, 38] * 2


def test_rows_of_a_by_step_field_have_no_axis_of_records(data: Path) -> None:
    """A recorded draw: the same row for every microbatch of a step, and by its own count in an evaluation."""
    np.save(data / "noise.npy", np.arange(30.0, dtype=np.float32).reshape(6, 5))
    parts = {
        "loader": '(def noise (by-step (npy "noise.npy")))'
        " (defloader train-loader (:batch 5) (x xs) (y ys) (noise noise))"
        " (defloader val-loader (:batch 8) (x xs) (y ys) (noise (by-step (arange 3))))",
        "prepare": "(defun prepare (batch) (metric 'noise (sum (field batch 'noise)) :reduce :last)"
        " (values (field batch 'x) (field batch 'y)))",
        "eval": "(defun eval-prepare (batch) (metric 'noise (+ 0.0 (cast (field batch 'noise) :float)) :reduce :max)"
        " (values (field batch 'x) (field batch 'y))) (defeval val (:loader val-loader :every 2))",
    }
    result = trained(data, 2, ":steps 6", **parts)
    assert result.error is None
    sums = np.arange(30.0).reshape(6, 5).sum(axis=1)
    assert [e["metrics"]["train/noise"] for e in events(data / "out", "step")] == sums.tolist()
    assert [e["metrics"]["val/noise"] for e in events(data / "out", "eval")] == [0, 1, 2]
    again = trained(data, 2, ":steps 7", "again", **parts)
    assert again.error is not None
    assert (again.error.code, again.error.actual, again.step) == ("E-LOAD-012", "6 rows", 0)
    assert again.error.span is not None


def test_a_loader_of_by_step_rows_alone_is_none(data: Path) -> None:
    loader = "(defloader train-loader (:batch 4) (x (by-step xs)) (y (by-step ys)))"
    assert run_deep(lambda: codes(write(data, loader=loader)))[0][0] == "E-LOAD-042"


def test_streams_whose_windows_overlap_are_warned_of(data: Path) -> None:
    def warned(out: str, window: str) -> list[Any]:
        fields = f"(x (records xs :to 4)) (y (records ys :to 4)) (t {window})"
        loader = f"(defloader train-loader (:batch 2 :order :streams) {fields})"
        return [(w.code, w.help) for w in trained(data, 1, ":steps 1", out, loader=loader).warnings]

    assert warned("shifted", "(window (arange 13) 4 :stride 3)") == []
    assert warned("apart", "(window (arange 16) 4 :stride 4)") == []
    assert warned("overlapping", "(scale (window (arange 7) 4) 2.0)") == [
        ("W-LOAD-002", ":stride 3 (targets one further on) or 4")
    ]


def test_the_document_says_the_kind_of_every_source(data: Path) -> None:
    loader = "(defloader train-loader (:batch 4) (x xs) (y (concat-sources ys)) (n (by-step (arange 40))))"
    with compiled(write(data, loader=loader)) as done:
        fields = json.loads(document_text(done))["train_loader"]["fields"]
    assert [field["source"]["kind"] for field in fields] == ["npy", "concat-sources", "by-step"]


def test_a_prompt_is_as_long_as_its_tokens(data: Path) -> None:
    """Of a text of tokens a prompt of seven characters is fewer ids."""
    generator = """(defgenerator story (:trips 1 :text (bpe "t.txt" "tokenizer.json"))
 (:init (ctx) (getf ctx :prompt)) (:trip (s i ctx) s) (:emit (s) (sample 'story s :as :text)))"""
    (data / "tokenizer.json").unlink()
    Tokenizer(models.BPE({"a": 0, "b": 1, "c": 2, "ab": 3}, [("a", "b")])).save(str(data / "tokenizer.json"))
    file = write(data, eval=generator)

    def prompt_shape() -> tuple[int, ...]:
        with open_context() as context:
            done = compile_in(context, file, Selection(), flags=Flags("abcabab"))
            assert done.experiment is not None
            (given,) = [i for i in done.experiment.graphs["story init"].inputs if i.role == "prompt"]
            return given.type.shape

    assert run_deep(prompt_shape) == (4,)


def test_explain_shows_the_stages(data: Path) -> None:
    loader = """(defloader train-loader (:batch 4)
 (stage few (x (records xs :to 4)) (y (records ys :to 4))) (stage all (x xs) (y ys)))
(defloader val-loader (:batch 4) (x xs) (y ys))"""
    evaluation = """(defeval val (:loader val-loader :every 2))
(defun curriculum (ctx) (where (< (getf (getf ctx :metrics) :val/loss) 0.5) 1 0))"""

    def text() -> str:
        with compiled(write(data, loader=loader, eval=evaluation)) as done:
            assert list(done.diagnostics) == []
            return explain_text(explain(done))

    assert "  stages           few, all, chosen by val/loss\n" in run_deep(text)
