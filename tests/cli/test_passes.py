"""`passes`, stages by name, skipped passes, dumps, going on from one, and what an internal error leaves."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.passes import PASSES, PIPELINES
from sexpgpu.passes.base import parse_pass
from tests.cli.test_bad_input import refused, sexpgpu
from tests.cli.test_verbs import answer
from tests.runtime.reading import events
from tests.trace.experiments import write

SPECS = (*PIPELINES["shared"], *PIPELINES["cpu"])
NAMES = ["traced", *(spec.removeprefix("sx-").partition("=")[0] for spec in SPECS)]
SKIPPABLE = sorted({*NAMES} - {"traced", "autodiff"})


def stages(*arguments: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer("passes", *arguments)["stages"]
    return found


def with_variables(arguments: list[str | Path], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sexpgpu", *map(str, arguments)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


def losses(directory: Path) -> list[float]:
    return [event["metrics"]["train/loss"] for event in events(directory, "step")]


def stage(name: str) -> str:
    """The stage that the first pass of a name makes: `05-autodiff`."""
    return next(f"{n:02}-{other}" for n, other in enumerate(NAMES) if other == name)


def test_the_table_follows_the_pipeline(tmp_path: Path) -> None:
    file = write(tmp_path)
    rows = stages(file)
    assert [row["name"] for row in rows] == NAMES
    assert [row["number"] for row in rows] == list(range(len(rows)))
    for before, after in pairwise(rows):
        assert after["ops_before"] == before["ops_after"]
        assert after["ms"] >= 0
        assert after["did"]
    assert next(row for row in rows if row["name"] == "autodiff")["changed"]
    text = sexpgpu("passes", file).stdout.splitlines()
    assert text[0].split() == ["stage", "ms", "%", "before", "after", "did"]
    assert len(text) == len(rows) + 2
    assert text[-1].startswith("total")


def test_the_passes_of_a_device(tmp_path: Path) -> None:
    """Those of the flag, whatever the environment says, for the chip that is asked for."""
    file = write(tmp_path)
    rows = stages(file, "--device", "cuda", "--target", "sm_90")
    assert rows[-1]["name"] == "to-ptx"
    assert any(row["spec"] == "sx-to-gpu=chip=sm_90" for row in rows)
    assert [row["name"] for row in stages(file, "--device", "cpu")] == NAMES
    done = with_variables(["passes", file, "--device", "cpu", "--json"], tmp_path, SEXPGPU_DEVICE="sim")
    assert [row["name"] for row in json.loads(done.stdout)["stages"]] == NAMES
    assert sexpgpu("passes", file, "--target", "sm_90").returncode == 2
    assert sexpgpu("passes", file, "--device", "sim", "--skip", "to-gpu").returncode == 1


def test_only_what_changed_of_one_graph(tmp_path: Path) -> None:
    file = write(tmp_path)
    rows = stages(file, "--graph", "val", "--changed")
    names = [row["name"] for row in rows]
    assert names[0] == "traced"
    assert "autodiff" not in names  # an evaluation has no gradients
    assert "autodiff" in [row["name"] for row in stages(file, "--graph", "train", "--changed")]
    done = sexpgpu("passes", file, "--graph", "trian")
    refused(done, "E-ARG-020")
    assert "  expected: one of train, val, " in done.stderr
    assert "pointwise" not in done.stderr  # what the passes make of a graph is none


def test_a_fault_of_the_file_is_reported(tmp_path: Path) -> None:
    file = write(tmp_path, objective="(defun objective (logits labels) logits)")
    refused(sexpgpu("passes", file), "E-SHAPE-020")
    document = answer("passes", file)
    assert document["ok"] is False
    assert document["diagnostics"][0]["code"] == "E-SHAPE-020"


def test_dumped_stages_are_modules_with_an_index(tmp_path: Path) -> None:
    file = write(tmp_path)
    folder = tmp_path / "stages"
    assert sexpgpu("passes", file, "--dump", folder).returncode == 0
    index = json.loads((folder / "index.json").read_text("utf-8"))
    assert index["schema"] == 1
    for row in index["stages"]:
        text = (folder / row["file"]).read_text("utf-8")
        assert row["file"] == f"{row['number']:02}-{row['name']}.mlir"
        assert hashlib.sha256(text.encode()).hexdigest() == row["sha256"]
        assert "loc(" in text
    assert {p.name for p in folder.iterdir()} == {"index.json", *(row["file"] for row in index["stages"])}
    fewer = tmp_path / "fewer"
    assert sexpgpu("passes", file, "--dump", fewer, "--changed").returncode == 0
    changed = {row["file"] for row in index["stages"] if row["changed"]}
    assert {p.name for p in fewer.glob("*.mlir")} == changed
    assert "00-traced.mlir" in changed
    (tmp_path / "taken").write_text("")
    refused(sexpgpu("passes", file, "--dump", tmp_path / "taken"), "E-IO-105", 4)


def test_the_variable_writes_the_same_files(tmp_path: Path) -> None:
    file = write(tmp_path)
    done = with_variables(["explain", file], tmp_path, SEXPGPU_DUMP="dumped")
    assert done.returncode == 0, done.stderr
    assert sexpgpu("passes", file, "--dump", tmp_path / "stages").returncode == 0
    for dumped in (tmp_path / "dumped").glob("*.mlir"):
        assert dumped.read_text("utf-8") == (tmp_path / "stages" / dumped.name).read_text("utf-8")
    assert (tmp_path / "dumped" / "index.json").is_file()


def test_a_stage_by_name_by_number_and_by_both(tmp_path: Path) -> None:
    file = write(tmp_path)

    def module(stage: str) -> str:
        done = sexpgpu("ir", file, "--stage", stage, "--graph", "train")
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "sx.grad" not in module("traced")
    assert module("traced") == module("0") == module("00-traced")
    assert "sx.grad" in module("autodiff")
    number = NAMES.index("autodiff")
    assert module("autodiff") == module(str(number)) == module(f"{number:02}-autodiff") == module("sx-autodiff")
    done = sexpgpu("ir", file, "--stage", "simplify")
    refused(done, "E-IR-014")
    assert f"{stage('simplify')}, " in done.stderr
    done = sexpgpu("ir", file, "--stage", "autodif")
    refused(done, "E-IR-014")
    assert "`autodiff`" in done.stderr


@pytest.mark.parametrize(("text", "stage"), [("to-gpu", "to-gpu"), ("nvvm", "to-nvvm"), ("sx-stack", "stack")])
def test_a_stage_of_another_device_is_named_with_it(text: str, stage: str, tmp_path: Path) -> None:
    file = write(tmp_path)
    done = sexpgpu("ir", file, "--stage", text)
    refused(done, "E-IR-014")
    assert f"`sexpgpu ir FILE --stage {stage} --device sim`" in done.stderr
    assert sexpgpu("ir", file, "--stage", stage, "--device", "sim", "--graph", "train").stdout.startswith("func.func @")


def test_a_stage_of_kernels_for_a_chip(tmp_path: Path) -> None:
    file = write(tmp_path)
    done = sexpgpu("ir", file, "--stage", "to-nvvm", "--device", "cuda", "--target", "sm_90")
    assert done.returncode == 0, done.stderr
    assert 'chip = "sm_90"' in done.stdout
    assert sexpgpu("ir", file, "--stage", "autodiff", "--target", "sm_90").returncode == 2


@pytest.mark.parametrize("verb", ["check", "explain", "ir", "passes", "run"])
def test_passes_that_cannot_be_skipped(verb: str, tmp_path: Path) -> None:
    file = write(tmp_path)
    done = sexpgpu(verb, file, "--skip", "simplfy")
    refused(done, "E-IR-010")
    assert "`simplify`" in done.stderr
    refused(sexpgpu(verb, file, "--skip", "sx-autodiff"), "E-IR-013")


def test_what_skipping_a_pass_makes_of_an_experiment(tmp_path: Path) -> None:
    file = write(tmp_path)
    done = sexpgpu("diff", file, file, "--skip", "simplify")
    assert done.returncode == 0, done.stderr
    assert "--skip simplify" in done.stdout
    assert "identical" not in done.stdout
    refused(sexpgpu("diff", file, file, "--skip", "autodiff"), "E-IR-013")
    assert sexpgpu("diff", file, "--skip", "simplify", "--stage", "0", "--stage", "1").returncode == 2


def test_a_skipped_pass_keeps_its_number(tmp_path: Path) -> None:
    file = write(tmp_path)
    rows = stages(file, "--skip", "simplify")
    assert [row["number"] for row in rows] == list(range(len(rows)))
    skipped = [row for row in rows if row["skipped"]]
    assert [row["name"] for row in skipped] == ["simplify"] * NAMES.count("simplify")
    assert {row["ms"] for row in skipped} == {None}
    assert sexpgpu("ir", file, "--skip", "simplify", "--stage", stage("autodiff")).returncode == 0


@pytest.mark.slow
def test_skipping_a_pass_changes_no_result(tmp_path: Path) -> None:
    file = write(tmp_path)
    assert sexpgpu("run", file, "--out", tmp_path / "whole", "--quiet").returncode == 0
    expected = losses(tmp_path / "whole")
    assert len(expected) == 4
    for name in SKIPPABLE:
        out = tmp_path / name
        done = sexpgpu("run", file, "--out", out, "--quiet", "--skip", name)
        assert done.returncode == 0, done.stderr
        assert losses(out) == pytest.approx(expected, rel=1e-5), name


def test_a_run_goes_on_from_a_dumped_module(tmp_path: Path) -> None:
    file = write(tmp_path, objective="(defun objective (logits labels) (* 1.5 (cross-entropy logits labels)))")
    folder = tmp_path / "stages"
    assert sexpgpu("passes", file, "--dump", folder).returncode == 0
    assert sexpgpu("run", file, "--out", tmp_path / "whole", "--quiet").returncode == 0
    expected = losses(tmp_path / "whole")
    for name in (stage("traced"), stage("autodiff"), stage("plan-memory")):
        out = tmp_path / name
        done = sexpgpu("run", file, "--out", out, "--quiet", "--from", folder / f"{name}.mlir")
        assert done.returncode == 0, done.stderr
        assert losses(out) == expected, name
        for graph in ("train", "val"):  # ten records in fours: the last batch has two
            assert done.stderr.count(f"batches of 2 run `{graph}` as FILE says it, not {name}.mlir") == 1
        assert done.stderr.count("W-IR-001") == 2
    edited = folder / f"{stage('simplify')}.mlir"
    text = edited.read_text("utf-8")
    assert "dense<1.500000e+00>" in text
    edited.write_text(text.replace("dense<1.500000e+00>", "dense<3.000000e+00>"), "utf-8")
    assert sexpgpu("run", file, "--out", tmp_path / "edited", "--quiet", "--from", edited).returncode == 0
    assert losses(tmp_path / "edited")[0] == pytest.approx(2 * expected[0], rel=1e-5)


def test_a_module_that_reaches_every_batch_needs_no_word(tmp_path: Path) -> None:
    file = write(tmp_path, loader="(defloader train-loader (:batch 5 :order :sequential) (x xs) (y ys))")
    assert sexpgpu("passes", file, "--dump", tmp_path / "stages").returncode == 0
    start = tmp_path / "stages" / f"{stage('traced')}.mlir"
    done = sexpgpu("run", file, "--out", tmp_path / "run", "--quiet", "--from", start)
    assert done.returncode == 0
    assert done.stderr == ""


def test_a_module_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path)
    folder = tmp_path / "stages"
    assert sexpgpu("passes", file, "--dump", folder).returncode == 0
    out: list[str | Path] = ["--out", tmp_path / "run", "--quiet"]
    wider = sexpgpu(
        "run",
        write(tmp_path, knobs="(defknobs (width 3) (more 1))", model=WIDER),
        *out,
        "--from",
        folder / "03-simplify.mlir",
    )
    refused(wider, "E-IR-015")
    file = write(tmp_path)
    renamed = folder / "77-simplify.mlir"
    renamed.write_bytes((folder / f"{stage('simplify')}.mlir").read_bytes())
    refused(sexpgpu("run", file, *out, "--from", renamed), "E-IR-014")
    refused(sexpgpu("run", file, *out, "--from", folder / "03-gone.mlir"), "E-IO-101")
    broken = folder / f"{stage('autodiff')}.mlir"
    broken.write_text("module {", "utf-8")
    refused(sexpgpu("run", file, *out, "--from", broken), "E-IR-001")


WIDER = "(defmodel net () (defsub a (linear width 4)) (defsub out (linear 4 2)) (forward (x) (out (a x))))"

FAILING = """
import sys
from dataclasses import dataclass
from typing import ClassVar
from sexpgpu import passes
from sexpgpu.passes.base import Pass, functions

@dataclass(frozen=True)
class Failing(Pass):
    at: int = 1
    name: ClassVar[str] = "failing"

    def run(self, module, context):
        func = functions(module)[0]
        {body}

passes.PASSES["failing"] = lambda: Failing
passes.PIPELINES["shared"] = ("sx-step-sums", "sx-simplify", "sx-failing=at=2", "sx-autodiff")
from sexpgpu.__main__ import main, opt
program = opt if sys.argv[1] == "opt" else main
sys.argv[1:] = sys.argv[2:] if program is opt else sys.argv[1:]
program()
"""
RAISES = "raise IndexError('list index out of range')"
WRONG = """
        for op in func.regions[0].blocks[0].operations:
            if op.operation.name == "sx.sub":
                from mlir import ir
                op.operation.results[0].set_type(ir.Type.parse("tensor<7xf32>", context.mlir))
"""


def with_failing(body: str, arguments: list[str | Path], cwd: Path, **variables: str) -> Any:
    """The program with one pass more, in the middle of the shared pipeline."""
    command = [sys.executable, "-c", FAILING.format(body=body), *map(str, arguments)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


def test_an_internal_error_leaves_what_repeats_it(tmp_path: Path) -> None:
    file = write(tmp_path)
    done = with_failing(RAISES, ["explain", file], tmp_path)
    assert done.returncode == 70
    assert "sx-failing=at=2 failed: IndexError: list index out of range" in done.stderr
    (reproducer,) = tmp_path.glob("sexpgpu-reproducer-*.mlir")
    assert reproducer.name in done.stderr
    assert "(`sexpgpu reduce FILE --internal` makes it small)" in done.stderr
    first, _, module = reproducer.read_text("utf-8").partition("\n")
    assert first == f"// RUN: sexpgpu-opt {reproducer.name} --sx-failing=at=2"
    assert first.removeprefix("// RUN: ") in done.stderr
    # The module is the one before the pass that failed.
    assert sexpgpu("passes", file, "--dump", tmp_path / "stages").returncode == 0
    assert module == (tmp_path / "stages" / f"{stage('simplify')}.mlir").read_text("utf-8")
    again = with_failing(RAISES, ["opt", *first.split()[3:]], tmp_path)
    assert again.returncode == 70
    assert "IndexError: list index out of range" in again.stderr
    assert "sexpgpu reduce" not in again.stderr  # it takes no modules
    assert with_failing(RAISES, ["explain", file], tmp_path).returncode == 70
    assert len(list(tmp_path.glob("sexpgpu-reproducer-*.mlir"))) == 1


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [("gone.mlir", None, "E-IO-101"), ("dense.mlir", b"\xff\xfe\x00", "E-IO-103"), (".", None, "E-IO-102")],
)
def test_what_is_no_module_has_a_code(name: str, content: bytes | None, code: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    command = [sys.executable, "-c", "from sexpgpu.__main__ import opt; opt()", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    refused(done, code)


RUNNING = """
from sexpgpu.cli import main
from sexpgpu.runtime.loop import Loop
def broken(self):
    raise KeyError("no kernel")
Loop.run = broken
main()
"""


def test_an_internal_error_of_a_run_is_none_that_reduce_finds_by_itself(tmp_path: Path) -> None:
    file = write(tmp_path)
    command = [sys.executable, "-c", RUNNING, "run", str(file), "--out", "out", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 70
    assert "(`sexpgpu reduce FILE --command CMD` makes it small, " in done.stderr
    assert "--internal" not in done.stderr
    assert json.loads((tmp_path / "out" / "status.json").read_text("utf-8"))["state"] == "failed"


def test_a_module_that_does_not_verify_is_the_fault_of_the_pass(tmp_path: Path) -> None:
    file = write(
        tmp_path, objective="(defun objective (logits labels) (sum (- (sum logits :axis 1) (cast labels :float))))"
    )
    done = with_failing(WRONG, ["explain", file], tmp_path, SEXPGPU_VERIFY="1", SEXPGPU_DUMP="dump")
    assert done.returncode == 70, done.stderr
    (reproducer,) = (tmp_path / "dump").glob("sexpgpu-reproducer-*.mlir")
    first = reproducer.read_text("utf-8").partition("\n")[0]
    assert first.endswith("--sx-failing=at=2 --sx-verify")
    again = with_failing(WRONG, ["opt", *first.split()[3:]], tmp_path)
    assert "E-IR-0" in again.stderr


def test_a_fault_of_the_file_leaves_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, objective="(defun objective (logits labels) logits)")
    done = with_failing(RAISES, ["explain", file], tmp_path)
    assert done.returncode == 1
    assert not list(tmp_path.glob("sexpgpu-reproducer-*.mlir"))


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_prints_and_parses_back(name: str, tmp_path: Path) -> None:
    from sexpgpu.driver.pipeline import parse_pipeline, pipeline_text

    passes = [parse_pass(spec, PASSES) for spec in PIPELINES[name]]
    assert parse_pipeline(pipeline_text(passes)) == passes
    module = tmp_path / "m.mlir"
    module.write_text("func.func @f(%x: tensor<f32>) -> tensor<f32> {\n  return %x : tensor<f32>\n}\n", "utf-8")
    opt = [sys.executable, "-c", "from sexpgpu.__main__ import opt; opt()", str(module)]
    one, other = (
        subprocess.run([*opt, *given, "--dump-pass-pipeline"], capture_output=True, text=True, check=True)
        for given in (["--pipeline", name], pipeline_text(passes).split())
    )
    assert one.stderr == other.stderr
    assert re.fullmatch(r"// pipeline:( --sx-[a-z-]+(=\S+)?)+\n", one.stderr)
    assert one.stdout == other.stdout
