"""What each verb answers: standard output alone carries it, `--json` is one document, help shows examples."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.cli import VERBS
from tests.cli.test_bad_input import sexpgpu
from tests.trace.experiments import write

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def answer(*arguments: str | Path) -> Any:
    done = sexpgpu(*arguments, "--json")
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    return document


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_two_examples(verb: str) -> None:
    done = sexpgpu(verb, "--help")
    assert done.returncode == 0
    assert done.stdout.count(f"sexpgpu {verb}") >= 3  # the usage line and two examples


def modules_after(code: str) -> set[str]:
    script = f"import sys; sys.argv = ['sexpgpu', *{code!r}.split()]\n"
    script += (
        "from sexpgpu.cli import guarded, cli\nguarded(cli, 'sexpgpu')\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_imports_neither_mlir_nor_numpy() -> None:
    assert not {"mlir", "numpy", "rich", "cattrs", "safetensors"} & modules_after("--help")


def test_check_imports_neither_rich_nor_cattrs_nor_safetensors() -> None:
    loaded = modules_after(f"check {EXAMPLES / 'moons.sx'}")
    assert "mlir" in loaded
    assert not {"rich", "cattrs", "safetensors"} & loaded


def test_check_counts_what_it_compiled(tmp_path: Path) -> None:
    file = write(tmp_path)
    done = sexpgpu("check", file)
    assert done.returncode == 0
    assert done.stdout == f"{file}: ok, 2 parameters, 8 elements, 6 graphs\n"
    document = answer("check", file)
    assert document["ok"] is True
    assert (document["parameters"], document["elements"]) == (2, 8)
    assert {"train", "val", "init model.out.weight"} <= set(document["graphs"])
    assert document["diagnostics"] == []


def test_check_as_json_reports_diagnostics_on_standard_output(tmp_path: Path) -> None:
    file = write(tmp_path, objective="(defun objective (logits labels) logits)")
    document = answer("check", file)
    assert document["ok"] is False
    (diagnostic,) = document["diagnostics"]
    assert diagnostic["code"] == "E-SHAPE-020"
    assert diagnostic["span"]["line"] == 8
    assert diagnostic["expected"] == "f32[]"
    assert "^" in diagnostic["rendered"]


def test_eval_prints_a_line_a_form(tmp_path: Path) -> None:
    file = tmp_path / "forms.sx"
    file.write_text('(+ 1 2)\n(def width 4)\n(defun twice (x) (* 2 x))\n(values 1 "a")\n(twice width)\n')
    done = sexpgpu("eval", file)
    assert done.stdout.splitlines() == ["3", "width = 4", "twice = #<function twice>", '#<values 1 "a">', "8"]
    assert answer("eval", file)["values"] == done.stdout.splitlines()


def test_explain_tells_the_plan(tmp_path: Path) -> None:
    file = write(tmp_path)
    text = sexpgpu("explain", file, "--set", "width=3").stdout
    assert text.startswith("experiment.sx: 2 parameters, 4 steps, precision f32  (sexpgpu ")
    assert "width  3           set" in text
    assert "    out.weight  [2, 3]  f32        6  default\n" in text
    assert "val: every 2 steps, at the end, the whole loader in batches of 4" in text
    document = answer("explain", file)
    assert document["step"]["records"] == 4
    assert [g["name"] for g in document["groups"]] == ["default"]
    train = next(g for g in document["graphs"] if g["name"] == "train")
    assert train["nodes"] == sum(train["ops"].values())
    assert document["device"] is None


def test_explain_counts_the_casts_of_the_policy(tmp_path: Path) -> None:
    file = write(tmp_path, run="(defrun :steps 4 :seed 1 :precision :bf16)")
    train = next(g for g in answer("explain", file)["graphs"] if g["name"] == "train")
    assert train["casts"] > 0
    assert f"{train['casts']} casts added by the bf16 policy" in sexpgpu("explain", file).stdout


def test_ir_gives_the_document_or_the_module(tmp_path: Path) -> None:
    file = write(tmp_path)
    document = answer_of_ir(file)
    assert document["train_graph"] == "train"
    assert document["train_loader"]["fields"][0]["source"]["kind"] == "npy"
    module = sexpgpu("ir", file, "--mlir").stdout
    assert "sx.grad" in module
    traced = sexpgpu("ir", file, "--stage", "traced", "--graph", "train").stdout
    assert traced.startswith("func.func @train(")
    assert "sx.grad" not in traced
    out = tmp_path / "module.mlir"
    assert sexpgpu("ir", file, "--mlir", "-o", out).stdout == ""
    tool = Path(sys.executable).with_name("sexpgpu-opt")
    again = subprocess.run([tool, out, "--sx-verify"], capture_output=True, text=True, check=True)
    assert again.stdout == module
    wrong = sexpgpu("ir", file, "--graph", "trian")
    assert wrong.returncode == 1
    assert "[E-ARG-020]" in wrong.stderr


def answer_of_ir(file: Path) -> Any:
    document = json.loads(sexpgpu("ir", file).stdout)
    assert document["schema"] == 1
    return document


def test_doctor_finds_this_machine_able() -> None:
    document = answer("doctor")
    assert document["ok"] is True
    assert {f["what"] for f in document["findings"]} >= {"python", "mlir", "numpy", "memory", "run folder"}
    environment = answer("doctor", "--env")
    assert "SEXPGPU_DEVICE" in {row["name"] for row in environment["environment"]}


def test_explain_code_knows_every_code() -> None:
    from sexpgpu.diag.catalogue import ENTRIES

    assert set(answer("explain-code")["codes"]) == ENTRIES.keys()
    text = sexpgpu("explain-code", "e-shape-013").stdout
    assert text.startswith("E-SHAPE-013: ")
    assert ENTRIES["E-SHAPE-013"].explanation in text


def test_run_answers_with_its_directory_and_metrics(tmp_path: Path) -> None:
    file = write(tmp_path)
    document = answer("run", file, "--out", tmp_path / "run")
    assert document["ok"] is True
    assert document["step"] == document["steps"] == 4
    assert {"train/loss", "val/loss"} <= document["metrics"].keys()
    assert Path(document["directory"]) == tmp_path / "run"


def test_colour_obeys_no_color(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    done = sexpgpu("check", write(tmp_path, run="(defrun)"))
    assert done.returncode == 1
    assert "\x1b[" not in done.stderr
