"""Faults in the clauses of a generator, those that only a prompt leads to among them, are found by `check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostic
from sexpgpu.lang.limits import run_deep
from tests.trace.experiments import compiled

FILE = """(require "sexpgpu/nn") (require "sexpgpu/optim")
(defknobs (seq 8) (shown 4))
(def text (chars "text.txt" :vocab 14 :count 100))
(defloader train-loader (:batch 4 :order :random) (tokens (window text (+ seq 2))))
(defun prepare (batch) (let ((x (field batch 'tokens))) (values (slice x 1 0 -1) (slice x 1 1 nil))))
(defmodel net () (defsub embed (embedding 14 5)) (defsub head (linear 5 14)) (forward (x) (head (embed x))))
(def model (net))
(defun objective (logits labels) (cross-entropy logits labels))
(def optimizer (sgd :lr 0.1))
(defgenerator story (:trips seq)
  (:init (ctx)
    (let ((prompt (getf ctx :prompt)) (room (zeros (list shown seq) :dtype :i32)))
      (if (null prompt) room {said})))
  (:trip (tokens i ctx) (let ((logits (funcall model {seen}))) {next}))
  (:emit (tokens) {shown}))
(defrun :steps 4 :seed 1)
"""
SAID = "(concat (list room (broadcast-to prompt (list shown (dim prompt 0)))) 1)"
SEEN = "(slice tokens 1 -1 nil)"
NEXT = "(concat (list (slice tokens 1 1 nil) (next-token logits :top-k (getf ctx :top-k) :top-p (getf ctx :top-p))) 1)"
SHOWN = "(sample 'text tokens :as :text)"


def faults(folder: Path, said: str = SAID, seen: str = SEEN, next: str = NEXT, shown: str = SHOWN) -> list[Diagnostic]:
    file = folder / "story.sx"
    file.write_text(FILE.format(said=said, seen=seen, next=next, shown=shown), "utf-8")

    def look() -> list[Diagnostic]:
        with compiled(file) as done:
            return list(done.diagnostics)

    return run_deep(look)


ONLY_TOLD = "generate` would meet with --top-k, --top-p and a --prompt of 3 ids"


@pytest.mark.parametrize(
    ("part", "code", "place", "told"),
    [
        ({"said": "(concat (list room prompt) 1)"}, "E-SHAPE-010", "(concat (list room prompt) 1)", True),
        ({"said": "(concat (list room (+ 0.5 prompt)) 1)"}, "E-DTYPE-008", "(+ 0.5 prompt)", True),
        ({"said": "(cast (unsqueeze prompt 0) :float)"}, "E-DTYPE-001", "(embed x)", True),
        ({"said": "(matmul room prompt)"}, "E-SHAPE-013", "(matmul room prompt)", True),
        ({"said": "(broadcast-to promt (list shown 3))"}, "E-NAME-001", "promt", False),
        ({"said": "prompt"}, "E-SHAPE-002", SEEN, True),
        ({"next": "(if (getf ctx :top-k) (top-k logits 15) nil) tokens"}, "E-VALUE-012", "(top-k logits 15)", True),
        ({"next": "(if (getf ctx :top-p) (reshape logits '(3)) nil) tokens"}, "E-SHAPE-007", "(reshape logits", True),
        ({"next": "(concat (list tokens (next-token logits)) 1)"}, "E-FLOW-007", "(defgenerator story", False),
        ({"seen": "(reshape tokens '(7))"}, "E-SHAPE-007", "(reshape tokens '(7))", False),
        ({"shown": "(sample 'x (+ tokens 0) :as :wav)"}, "E-ARG-011", ":wav", False),
    ],
)
def test_a_fault_in_a_clause_is_found_by_check(
    part: dict[str, str], code: str, place: str, told: bool, tmp_path: Path
) -> None:
    (found,) = faults(tmp_path, **part)
    assert found.code == code
    assert found.span is not None
    line = (tmp_path / "story.sx").read_text("utf-8").splitlines()[found.span.line - 1]
    assert line[found.span.col - 1 :].startswith(place)
    assert any(ONLY_TOLD in note.text for note in found.notes) == told


@pytest.mark.parametrize(
    "said",
    [
        SAID,
        '(error "no prompt, please")',
        "(+ room (zeros (list shown (dim prompt 0)) :dtype :i32))",
        "(broadcast-to (reshape (slice prompt 0 0 (+ seq 1)) (list 1 (+ seq 1))) (list shown (+ seq 1)))",
    ],
)
def test_a_generator_may_refuse_prompts_or_take_those_of_one_length(said: str, tmp_path: Path) -> None:
    assert faults(tmp_path, said) == []


def test_what_is_tried_leaves_nothing_behind(tmp_path: Path) -> None:
    """The graphs, the draws of the trips and the module are those of a file that is told nothing."""
    assert faults(tmp_path) == []
    with compiled(tmp_path / "story.sx") as done:
        assert done.experiment is not None
        assert [name for name in done.experiment.graphs if name.startswith("story")] == [
            "story init",
            "story trip",
            "story emit",
        ]
        assert all(given.role != "prompt" for graph in done.experiment.graphs.values() for given in graph.inputs)


def test_a_generator_is_looked_at_where_the_model_has_failed(tmp_path: Path) -> None:
    file = tmp_path / "story.sx"
    assert faults(tmp_path, said="(concat (list room prompt) 1)")
    file.write_text(file.read_text("utf-8").replace("(linear 5 14)", "(linear 5 0)"), "utf-8")

    def codes() -> list[str]:
        with compiled(file) as done:
            return [d.code for d in done.diagnostics]

    assert run_deep(codes) == ["E-VALUE-012", "E-SHAPE-010"]
