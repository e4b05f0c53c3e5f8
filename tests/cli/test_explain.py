"""`explain`: its sections in their order and layout, the parameter tree, what was cut, where f32 is kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.driver.compile import compiling
from sexpgpu.driver.explain import FAMILIES, explain
from sexpgpu.driver.explain_text import text_of
from sexpgpu.driver.pipeline import Passes
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from tests.trace.experiments import compiled, write

BLOCKS = {
    "knobs": "(defknobs (width 3) (lr 0.0015))\n(defvariant small (width 3))",
    "model": """(defmodel layer () (defsub norm (layer-norm 3)) (defsub up (linear 3 3))
  (forward (x) (+ x (gelu (up (norm x))))))
(defmodel net ()
  (defsub blocks (repeat 2 (layer))) (defsub out (linear width 2))
  (defbuffer seen () :init (constant-init 0.0))
  (forward (x)
    (when (training-p) (set-buffer seen (+ seen 1.0)))
    (dolist (b blocks) (setq x (funcall b x)))
    (out x)))""",
    "optimizer": """(def optimizer
  (optimizer-groups (adamw :lr (cosine-schedule lr :warmup 2)) (group "model.out.*" (sgd :lr 0.1))))""",
    "run": "(defrun :steps 4 :seed 1 :precision :bf16 :microbatches 2 :clip-norm 1.0)",
}


def report_of(file: Path) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        with compiled(file) as done:
            assert not done.diagnostics.errors
            return explain(done)

    return run_deep(work)


@pytest.fixture
def report(tmp_path: Path) -> dict[str, Any]:
    return report_of(write(tmp_path, **BLOCKS))


def test_the_sections(report: dict[str, Any]) -> None:
    heads = [line.partition(":")[0] for line in text_of(report).splitlines() if line and line[0] != " "]
    assert heads == [
        "experiment.sx",
        "selection",
        "parameters",
        "graphs",
        "training step",
        "kept in f32 by the bf16 policy",
        "passes",
        "device",
    ]


def test_the_layout(golden: Callable[[str], None]) -> None:
    def parameter(path: str, shape: list[int], elements: int, group: str = "default", *aliases: str) -> dict[str, Any]:
        return {"path": path, "shape": shape, "dtype": "f32", "elements": elements, "group": group, "aliases": aliases}

    def group(name: str, members: int, elements: int, *constants: float) -> dict[str, Any]:
        of = {"name": name, "optimizer": "adamw", "members": ["m"] * members, "elements": elements}
        return of | {"states": ["m", "v"], "state_elements": 2 * elements, "constants": constants}

    step: dict[str, Any] = {
        "microbatches": 4,
        "batch": 4,
        "records": 16,
        "steps": 300,
        "epochs": None,
        "counters": {"tokens": 1040},
    }
    step |= {"stages": [], "checkpoint_every": None, "keep": None, "precision": "f32", "seed": 1, "clip_norm": None}
    each = {"name": "eval", "every": 25, "at": [], "at_start": False, "batches": None, "batch": 4}
    step |= {"evaluations": [each], "peak_activation_bytes": 960_000_000}
    ops = {"input": 34, "const": 54, "unary": 28, "binary": 119, "compare": 4, "reduce": 17, "shape": 156}
    largest = {"elements": 25_755_648, "shape": [4, 128, 50304], "dtype": "f32", "op": "broadcast", "place": "m.sx:25"}
    small = {"elements": 128, "shape": [128], "dtype": "bool", "op": "log_softmax", "place": ""}
    train = {"name": "train", "nodes": 412, "casts": 1, "ops": ops, "largest": [largest, small]}
    update = {"name": "update default f32[2]", "nodes": 1, "casts": 0, "ops": {"input": 1}, "largest": [small]}
    islands = [{"path": f"model.{i}.norm", "place": None, "ops": {"sum": 2, "rsqrt": 1}} for i in range(3)]
    golden(
        text_of(
            {
                **{"file": "my-run.sx", "version": "0.1.0", "precision": "f32", "steps": 300, "epochs": None},
                "selection": [
                    {"name": "variant", "value": "smoke", "source": None},
                    {"name": "lr", "value": "0.0015", "source": "default"},
                    {"name": "layers", "value": "2", "source": "variant"},
                ],
                "parameters": [
                    parameter("model.embed.table", [50304, 128], 6_438_912, "model.embed.*", "model.head.table"),
                    parameter("model.blocks.0.norm1.gain", [128], 128),
                    parameter("temperature", [], 1),
                ],
                "buffers": [{"path": "model.seen", "shape": [], "dtype": "i32", "elements": 1}],
                "groups": [
                    group("model.embed.*", 1, 6_438_912, 0.0, 1e-10, 0.05, 0.2, 0.3, *range(3, 60)),
                    group("default", 12, 393_000, 1e-10, 0.0015, 0.05, 0.1),
                ],
                "graphs": [train | {"emits": ["metric train/loss", "counter tokens"]}, update | {"emits": []}],
                "step": step,
                "islands": [
                    {"graph": "train", "kept": [*islands, {"path": None, "place": "m.sx:9", "ops": {"exp": 1}}]}
                ],
                "passes": [{"pass": "sx-simplify", "ms": 1.25, "before": 500, "after": 412, "did": "12 folded"}],
                "device": None,
            }
        )
    )


def test_a_leaf_stands_under_its_root_with_its_group(report: dict[str, Any]) -> None:
    lines = text_of(report).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("parameters: "))
    assert re.fullmatch(r"  model +44", lines[first + 1])
    leaves = lines[first + 2 : lines.index("  groups:")]
    assert len(leaves) == 11
    assert (
        len({tuple(m.start() for m in re.finditer(r"\[|f32|default|model\.out|buffer", leaf)) for leaf in leaves}) == 1
    )


def test_families_are_counted_in_one_order(report: dict[str, Any]) -> None:
    for graph in report["graphs"]:
        assert list(graph["ops"]) == [family for family in FAMILIES if family in graph["ops"]]
        assert sum(graph["ops"].values()) == graph["nodes"]


def test_constants_are_sorted_and_cut(report: dict[str, Any]) -> None:
    sgd, adamw = report["groups"]
    assert sgd["constants"] == pytest.approx([0.1])
    assert adamw["constants"] == sorted(adamw["constants"])
    assert len(adamw["constants"]) > 8
    shown = next(line for line in text_of(report).splitlines() if line.startswith("    default "))
    assert shown.endswith("constants -0.105361, -0.0010005, 0, 1e-08, 0.00075, 0.001, ...")


def test_islands_are_what_computes_in_f32(report: dict[str, Any], tmp_path: Path) -> None:
    train, val = report["islands"]
    assert (train["graph"], val["graph"]) == ("train", "val")
    by_path = {island["path"]: island["ops"] for island in train["kept"]}
    assert by_path["model.blocks.1.norm"] == by_path["model.blocks.0.norm"]
    assert {"sum", "mul"} <= by_path["model.blocks.0.norm"].keys()
    assert "matmul" not in {op for ops in by_path.values() for op in ops}
    assert "    model.blocks.{0..1}.norm " in text_of(report)
    plain = report_of(write(tmp_path, **(BLOCKS | {"run": "(defrun :steps 4)"})))
    assert plain["islands"] == []
    assert "kept in f32: nothing is rounded to bf16, the policy is f32\n" in text_of(plain)


def test_an_operation_that_a_form_keeps_in_f32(tmp_path: Path) -> None:
    product = "(with-numerics (:dtype :f32) (out x))"
    model = f"(defmodel net () (defsub out (linear width 2)) (forward (x) {product}))"
    file = write(tmp_path, model=model, run=BLOCKS["run"])
    (train, _) = report_of(file)["islands"]
    assert "matmul" in next(island["ops"] for island in train["kept"] if island["path"] == "model.out")


def test_the_optimizer_of_each_group(report: dict[str, Any]) -> None:
    assert "  optimizer        adamw, sgd for model.out.*\n" in text_of(report)


def test_what_the_policy_did_is_counted_before_operations_are_raised(root: Path) -> None:
    """Casts and islands of a GPT under bf16 are the same whether or not its parts get one name."""

    def policy_of(*skipped: str) -> tuple[list[int], list[Any]]:
        def work() -> tuple[list[int], list[Any]]:
            passes = Passes(frozenset(skipped))
            with compiling(root / "examples/llama.sx", Selection("bf16"), passes=passes) as done:
                found = explain(done)
                return [graph["casts"] for graph in found["graphs"]], found["islands"]

        return run_deep(work)

    casts, islands = policy_of()
    assert (casts, islands) == policy_of("raise")
    assert casts[:2] == [casts[0], casts[0]], "the loss is evaluated as it is trained"
    assert casts[0] > 0
    ops = [op for kept in islands[0]["kept"] for op in kept["ops"]]
    assert "exp" in ops or "softmax" in ops
    assert not any(op.startswith(("attention", "rms_norm", "cross_entropy")) for op in ops)
