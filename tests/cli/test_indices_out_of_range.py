"""Ids and labels out of range in the data: told at the user's form, with field, number, records, range and step."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_bad_input import refused, sexpgpu

FILE = """(require "sexpgpu/nn") (require "sexpgpu/optim")
(def ids (npy "ids.npy"))
(def ys (npy "ys.npy"))
(defloader train-loader (:batch 4 :order :sequential) (tokens ids) (label ys))
(defloader val-loader (:batch 5 :order :sequential) (label (records ys :from 20)) (tokens (records ids :from 20)))
(defun prepare (batch) (values (field batch 'tokens) (field batch 'label)))
(defmodel net () (defsub embed (embedding 10 4)) (defsub out (linear 4 3))
  (forward (x)
    (out (mean (embed x) :axis 1))))
(def model (net))
(defun objective (logits labels)
  (cross-entropy logits labels))
(defun evaluate (logits labels) (metric 'loss (cross-entropy logits labels)))
(defeval val (:loader val-loader :every 2))
(def optimizer (sgd :lr 0.1))
(defrun :steps 4 :microbatches 2 :seed 1)
"""


def told(folder: Path, *, ids: dict[int, int], labels: dict[int, int], changed: dict[str, str] | None = None) -> str:
    """What a run says on standard error; `ids` and `labels` are numbers by record, `changed` texts of the file."""
    tokens = np.arange(200, dtype=np.int32).reshape(40, 5) % 10
    ys = np.arange(40) % 3
    for record, number in ids.items():
        tokens[record, 2] = number
    for record, number in labels.items():
        ys[record] = number
    np.save(folder / "ids.npy", tokens)
    np.save(folder / "ys.npy", ys)
    text = FILE
    for old, new in (changed or {}).items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "e.sx").write_text(text, "utf-8")
    done = sexpgpu("run", "e.sx", "--out", "run", "--quiet", cwd=folder)
    refused(done, "E-VALUE-101")
    last = json.loads((folder / "run" / "events.jsonl").read_text("utf-8").splitlines()[-1])
    assert (last["event"], last["code"]) == ("error", "E-VALUE-101")
    assert done.stderr.startswith(f"{last['at']}: error")
    return done.stderr


def test_an_id_that_a_layer_embeds(tmp_path: Path) -> None:
    text = told(tmp_path, ids={13: 12, 14: 12}, labels={})
    assert text.startswith("e.sx:9:16: error[E-VALUE-101]")  # (embed x)
    assert "expected: indices from 0 to 9" in text
    assert "actual:   index 12" in text
    assert "note: inside the standard module (" in text
    assert "library/nn/dense.sx:" in text
    assert "note: field `tokens` has the number 12 in records 13, 14 (e.sx:2:10)" in text
    assert "note: at step 1, microbatch 1\n" in text


def test_a_label_that_is_no_class(tmp_path: Path) -> None:
    text = told(tmp_path, ids={}, labels={9: -1})
    assert text.startswith("e.sx:12:3: error[E-VALUE-101]")  # (cross-entropy logits labels)
    assert "expected: indices from 0 to 2" in text
    assert "note: field `label` has the number -1 in record 9 (e.sx:3:9)" in text
    assert "note: at step 1, microbatch 0\n" in text


def test_a_label_of_an_evaluation(tmp_path: Path) -> None:
    text = told(tmp_path, ids={}, labels={26: 3})
    assert text.startswith("e.sx:13:47: error[E-VALUE-101]")
    assert "note: field `label` has the number 3 in record 6" in text  # of those the loader has
    assert "note: at batch 1 of evaluation val, after step 2\n" in text


@pytest.mark.parametrize(
    ("changed", "at", "note"),
    [
        ({"(embed x)": "(embed (- x 20))"}, "e.sx:9:16", "the index is computed from field `tokens` (e.sx:2:10)"),
        (
            {
                "(mean (embed x) :axis 1)": "(scan (lambda (s id) (values (+ s (embed id)) s))"
                " (zeros (list (dim x 0) 4)) x :axis 1)"
            },
            "e.sx:9:44",
            "field `tokens` has the number 12 in record 9 (e.sx:2:10)",
        ),
        (
            {"(cross-entropy logits labels))\n(defun ev": "(cross-entropy logits labels :ignore-index 2))\n(defun ev"},
            "e.sx:12:3",
            "field `label` has the number 7 in record 5 (e.sx:3:9)",
        ),
        (
            {
                "(def model (net))": "(def model (embedding 10 3))",
                "objective (logits labels)\n  (cross-entropy logits labels)": "objective (x labels)\n  (mean x)",
                "(cross-entropy logits labels)))\n(defev": "(mean logits)))\n(defev",
            },
            "e.sx:10:12",  # no form of the file's calls the model: the one that makes it
            "field `tokens` has the number 12 in record 9 (e.sx:2:10)",
        ),
    ],
)
def test_numbers_on_their_way_to_an_index(changed: dict[str, str], at: str, note: str, tmp_path: Path) -> None:
    text = told(tmp_path, ids={9: 12}, labels={5: 7} if "label" in note else {}, changed=changed)
    assert text.startswith(f"{at}: error[E-VALUE-101]"), text
    assert f"note: {note}\n" in text, text
    assert "note: at step " in text


def test_what_is_not_finite_inside_a_layer(tmp_path: Path) -> None:
    """The same places as of an index: the user's form, and where in the library it led."""
    text = FILE.replace("(defsub out", "(defsub norm (rms-norm 4 :eps 0.0)) (defsub out").replace(
        "(mean (embed x) :axis 1)", "(norm (* 0.0 (mean (embed x) :axis 1)))"
    )
    np.save(tmp_path / "ids.npy", np.zeros((40, 5), np.int32))
    np.save(tmp_path / "ys.npy", np.zeros(40, np.int64))
    (tmp_path / "e.sx").write_text(text, "utf-8")
    done = sexpgpu("run", "e.sx", "--out", "run", "--quiet", cwd=tmp_path)
    refused(done, "E-NUM-001")
    notes = [line.strip() for line in done.stderr.splitlines() if line.startswith("  note: ")]
    assert notes[0] == "note: not finite first: the result of rsqrt (e.sx:9:10)"  # (norm ...)
    assert notes[1].startswith("note: inside the standard module (")
    assert "dense.sx:" in notes[1]
    assert notes[-1] == "note: records 16, 17, 18, 19"
