"""`diff`: the rows of two experiments, of one under two selections, and the lines of two stages."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.cli import cli, guarded
from sexpgpu.driver.diff_stages import GraphText, changes
from tests.trace.experiments import text_of, write_data

Diff = Callable[..., tuple[int, str, str]]

DECAYED = """(defoptimizer sgd (&key (lr 0.1) (weight-decay 0.0))
  (optimizer-update (param grad ctx) (- param (* lr (+ grad (* weight-decay param))))))"""


@pytest.fixture
def diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Diff:
    """Runs `sexpgpu diff` in a folder that has data and `my-run.sx`: the exit code and both streams."""
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "my-run.sx")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sexpgpu", "diff", *words])
        code = guarded(cli, "sexpgpu")
        out, err = capsys.readouterr()
        return code, out, err

    return run


def put(file: Path, **replaced: str) -> None:
    parts = {"require": f'(require "sexpgpu/nn")\n{DECAYED}', "knobs": "(defknobs (width 3) (lr 0.5))"}
    file.write_text(text_of(**(parts | {"optimizer": "(def optimizer (sgd :lr lr))"} | replaced)), encoding="utf-8")


def printed(done: tuple[int, str, str]) -> str:
    code, out, err = done
    assert (code, err) == (0, "")
    return out


def sections(diff: Diff, *words: str) -> dict[str, Any]:
    document = json.loads(printed(diff(*words, "--json")))
    assert (document["schema"], document["verb"], document["ok"]) == (1, "diff", True)
    return {name: {row["key"]: (row["a"], row["b"]) for row in rows} for name, rows in document["sections"].items()}


def test_one_file_under_two_selections(diff: Diff) -> None:
    assert printed(diff("my-run.sx", "my-run.sx", "--set", "lr=0.25")) == (
        "a  my-run.sx\n"
        "b  my-run.sx --set lr=0.25\n"
        "\n"
        "knobs\n"
        "  lr  0.5 (default)  0.25 (set)\n"
        "\n"
        "optimizer groups\n"
        "  default constants  0, 0.5  0, 0.25\n"
    )


def test_identical(diff: Diff, tmp_path: Path) -> None:
    assert printed(diff("my-run.sx", "my-run.sx")) == "identical\n"
    put(tmp_path / "commented.sx", run=";; What follows is shorter than it was.\n(defrun :steps 4 :seed 1)")
    assert printed(diff("my-run.sx", "commented.sx", "--exit-code")) == "identical\n"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_data(elsewhere)
    put(elsewhere / "my-run.sx")
    assert printed(diff("my-run.sx", "elsewhere/my-run.sx")) == "identical\n"


def test_what_only_the_operations_tell(diff: Diff, tmp_path: Path) -> None:
    put(tmp_path / "twice.sx", objective="(defun objective (logits labels) (* 2.0 (cross-entropy logits labels)))")
    put(tmp_path / "thrice.sx", objective="(defun objective (logits labels) (* 3.0 (cross-entropy logits labels)))")
    assert list(sections(diff, "twice.sx", "thrice.sx")) == ["graphs"]
    assert list(sections(diff, "twice.sx", "thrice.sx")["graphs"]) == ["train code"]


def test_what_is_read(diff: Diff, tmp_path: Path) -> None:
    some = "(x (records xs :to 8)) (y (records ys :to 8))"
    put(tmp_path / "other.sx", loader=f"(defloader train-loader (:batch 4 :order :shuffle) {some})")
    loaders = sections(diff, "my-run.sx", "other.sx")["loaders"]
    assert loaders["train-loader order"] == ("sequential", "shuffle")
    assert loaders["train-loader x to"] == (None, 8)


def test_a_seed_is_no_other_initializer(diff: Diff, tmp_path: Path) -> None:
    put(tmp_path / "reseeded.sx", run="(defrun :steps 4 :seed 2)")
    assert sections(diff, "my-run.sx", "reseeded.sx") == {"training step": {"seed": (1, 2)}}
    dropped = {"model": "(defmodel net () (defsub out (linear width 2)) (forward (x) (out (dropout x 0.5))))"}
    put(tmp_path / "a.sx", **dropped)
    put(tmp_path / "b.sx", **dropped, run="(defrun :steps 4 :seed 2)")
    assert list(sections(diff, "a.sx", "b.sx")) == ["training step"]


def test_another_initializer(diff: Diff, tmp_path: Path) -> None:
    narrow = "(defmodel net () (defsub out (linear width 2 :init (normal 0.1))) (forward (x) (out x)))"
    put(tmp_path / "a.sx", model=narrow)
    put(tmp_path / "b.sx", model=narrow.replace("0.1", "0.2"), run="(defrun :steps 4 :seed 2)")
    found = sections(diff, "a.sx", "b.sx")
    assert list(found) == ["graphs", "training step"]
    assert list(found["graphs"]) == ["init model.out.weight code"]


def test_a_key_of_one_side(diff: Diff, tmp_path: Path) -> None:
    put(
        tmp_path / "deeper.sx",
        model="(defmodel net () (defsub hidden (linear width 4)) (defsub out (linear 4 2))"
        " (forward (x) (out (relu (hidden x)))))",
        evaluate="",
        eval="",
    )
    text = printed(diff("my-run.sx", "deeper.sx"))
    assert "  model.hidden.weight  -                   [4, 3] f32 default\n" in text
    assert "  evaluation val   every 2 steps, at the end, the whole loader in batches of 4  -\n" in text
    assert "  default members  -  model.hidden.weight, model.hidden.bias\n" in text
    assert "  val nodes" in text


def test_twenty_rows_and_a_count(diff: Diff, tmp_path: Path) -> None:
    put(tmp_path / "one.sx", knobs="(defknobs (width 3) (lr 0.5) " + " ".join(f"(k{i} 1)" for i in range(23)) + ")")
    rows = printed(diff("my-run.sx", "one.sx")).splitlines()
    assert rows[:5] == ["a  my-run.sx", "b  one.sx", "", "knobs", "  k0   -  1 (default)"]
    assert rows[-2:] == ["  k19  -  1 (default)", "  3 more"]
    assert len(sections(diff, "my-run.sx", "one.sx")["knobs"]) == 23


def test_the_selection_is_for_b(diff: Diff, tmp_path: Path) -> None:
    put(tmp_path / "b.sx", knobs="(defknobs (width 3) (lr 0.5)) (defvariant slow (lr 0.1))")
    text = printed(diff("my-run.sx", "b.sx", "--variant", "slow"))
    assert text.startswith("a  my-run.sx\nb  b.sx --variant slow\n\nknobs\n  lr       0.5 (default)  0.1 (variant)\n")
    assert "  variant  -              slow\n" in text


def test_the_exit_code(diff: Diff) -> None:
    assert diff("my-run.sx", "my-run.sx", "--set", "lr=1.0")[0] == 0
    assert diff("my-run.sx", "my-run.sx", "--set", "lr=1.0", "--exit-code")[0] == 1
    assert diff("my-run.sx", "--stage", "traced", "--stage", "autodiff", "--exit-code")[0] == 1


def test_errors_are_shown_with_their_file(diff: Diff, tmp_path: Path) -> None:
    put(tmp_path / "wrong.sx", objective="(defun objective (logits labels) logits)")
    for words in (("wrong.sx", "my-run.sx"), ("my-run.sx", "wrong.sx"), ("wrong.sx", "gone.sx")):
        code, out, err = diff(*words)
        assert (code, out) == (1, "")
        assert "wrong.sx:" in err
        assert "E-SHAPE-020" in err
    assert "gone.sx" in diff("gone.sx", "wrong.sx")[2]
    assert diff("wrong.sx", "wrong.sx")[2].count("error[E-SHAPE-020]") == 1
    code, out, err = diff("my-run.sx", "wrong.sx", "--json")
    document = json.loads(out)
    assert (code, err, document["ok"]) == (1, "", False)
    assert document["diagnostics"]["a"] == []
    assert [d["code"] for d in document["diagnostics"]["b"]] == ["E-SHAPE-020"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("my-run.sx", "diff takes two files"),
        ("my-run.sx my-run.sx my-run.sx", "diff takes two files"),
        ("my-run.sx --stage traced", "give it twice with one file, not once"),
        ("my-run.sx --stage traced --stage 1 --stage 2", "give it twice with one file, not 3 times"),
        ("my-run.sx my-run.sx --stage traced --stage autodiff", "give it once with 2 files, not twice"),
        ("my-run.sx my-run.sx --device sim", "give --stage"),
        ("my-run.sx my-run.sx --stage traced --target sm_90", "--target says which chip"),
    ],
)
def test_wrong_usage(diff: Diff, words: str, said: str) -> None:
    code, _, err = diff(*words.split())
    assert code == 2
    assert said in err


def test_two_stages(diff: Diff) -> None:
    text = printed(diff("my-run.sx", "--stage", "traced", "--stage", "autodiff", "--set", "lr=1.0"))
    head, *graphs = text.split("\n\n")
    assert head == "a  my-run.sx --set lr=1.0 --stage traced\nb  my-run.sx --set lr=1.0 --stage autodiff"
    train = next(graph for graph in graphs if graph.startswith("train  "))
    first, *lines = train.splitlines()
    assert [word.isdigit() for word in first.split()] == [False, True, False, True, False]
    assert any(line.startswith("  + ") and "sx.matmul" in line for line in lines)
    assert printed(diff("my-run.sx", "--stage", "traced", "--stage", "0")) == "identical\n"
    document = json.loads(printed(diff("my-run.sx", "--stage", "traced", "--stage", "autodiff", "--json")))
    assert "train" in [graph["graph"] for graph in document["graphs"]]


def test_one_stage_of_two_selections(diff: Diff) -> None:
    text = printed(diff("my-run.sx", "my-run.sx", "--stage", "traced", "--set", "lr=1.0"))
    head, *graphs = text.split("\n\n")
    assert head == "a  my-run.sx --stage traced\nb  my-run.sx --set lr=1.0 --stage traced"
    assert all(graph.startswith("update ") for graph in graphs)
    assert printed(diff("my-run.sx", "my-run.sx", "--stage", "traced")) == "identical\n"
    skipped = printed(diff("my-run.sx", "my-run.sx", "--stage", "fuse", "--skip", "simplify"))
    assert skipped.splitlines()[1] == "b  my-run.sx --stage fuse --skip simplify"
    document = json.loads(printed(diff("my-run.sx", "my-run.sx", "--stage", "1", "--set", "lr=1.0", "--json")))
    assert set(document["diagnostics"]) == {"a", "b"}
    assert not document["identical"]
    code, _, err = diff("my-run.sx", "my-run.sx", "--stage", "traced", "--set", "nothing=1")
    assert code == 1
    assert "E-KNOB-001" in err


@pytest.mark.parametrize("stage", ["to-gpu", "to-nvvm", "to-ptx"])
def test_kernels_of_two_selections(diff: Diff, stage: str) -> None:
    """The same launches of kernels that multiply by other constants; of one selection nothing differs."""
    words = ("my-run.sx", "my-run.sx", "--stage", stage, "--device", "cuda", "--target", "sm_90")
    assert printed(diff(*words)) == "identical\n"
    text = printed(diff(*words, "--set", "lr=0.25"))
    assert text.startswith(f"a  my-run.sx --stage {stage} --device cuda --target sm_90\nb  my-run.sx --set lr=0.25 ")
    kernels = [graph for graph in text.split("\n\n") if graph.startswith("kernel ")]
    assert kernels
    assert not any(graph.startswith(("kernel product", "train")) for graph in text.split("\n\n"))


def test_two_stages_of_a_device(diff: Diff) -> None:
    words = ("my-run.sx", "--stage", "to-nvvm", "--stage", "to-ptx", "--device", "sim")
    (kernel, *_) = (part for part in printed(diff(*words)).split("\n\n") if part.startswith("kernel "))
    first, *lines = kernel.splitlines()
    assert [word.isdigit() for word in first.split()] == [False, False, True, False, True, False]
    assert any(line.startswith("  - llvm.func @") for line in lines)
    assert any(line.startswith("  + .visible .entry") for line in lines)
    code, out, err = diff("my-run.sx", "my-run.sx", "--stage", "to-ptx")
    assert (code, out) == (1, "")
    assert "E-IR-014" in err


def test_a_stage_that_is_none(diff: Diff) -> None:
    code, out, err = diff("my-run.sx", "--stage", "traced", "--stage", "autodif")
    assert (code, out) == (1, "")
    assert "E-IR-014" in err


def test_renumbering_is_no_change() -> None:
    a = GraphText(("func.func @f(%arg0: f32) {", "  %0 = one(%arg0)", "  %1 = two(%0)", "  return %1", "}"), 3)
    b = GraphText(("func.func @f(%arg0: f32) {", "  %5 = one(%arg0)", "  %7 = two(%5)", "  return %7", "}"), 3)
    assert changes({"f": a}, {"f": b}) == []


def test_another_operand_is_a_change_and_what_reads_it_is_none() -> None:
    lines = ["func.func @f(%a: f32, %b: f32) {", "%0 = one(%a)", "%1 = two(%0)", "%2 = two(%1)", "return %2", "}"]
    changed = [lines[0], lines[1], "%1 = two(%b)", *lines[3:]]
    (found,) = changes({"f": GraphText(tuple(lines), 4)}, {"f": GraphText(tuple(changed), 4)})
    assert [line for line in found.lines if line[0] in "-+"] == ["- %1 = two(%0)", "+ %1 = two(%b)"]


def test_a_graph_of_one_stage() -> None:
    text = GraphText(("func.func @f() {", "return", "}"), 1)
    (found,) = changes({}, {"f": text})
    assert (found.before, found.after, found.lines[0]) == (None, 1, "+ func.func @f() {")
    (found,) = changes({"f": text}, {})
    assert (found.before, found.after, found.lines[-1]) == (1, None, "- }")
