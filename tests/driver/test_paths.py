"""Paths that differ in a number are written as one."""

from __future__ import annotations

import pytest

from sexpgpu.driver.paths import compressed, listed


@pytest.mark.parametrize(
    ("paths", "written"),
    [
        ([], []),
        (["model.norm"], ["model.norm"]),
        (["model.blocks.0.norm1"], ["model.blocks.0.norm1"]),
        ([f"model.blocks.{i}.attn" for i in range(4)], ["model.blocks.{0..3}.attn"]),
        ([f"model.blocks.{i}" for i in (11, 10, 9)], ["model.blocks.{9..11}"]),
        ([f"model.blocks.{i}.attn" for i in (0, 2, 3, 5)], ["model.blocks.{0, 2..3, 5}.attn"]),
        (
            ["model.a", "model.blocks.0.x", "model.b", "model.blocks.1.x"],
            ["model.a", "model.blocks.{0..1}.x", "model.b"],
        ),
        (["model.norm1", "model.norm2"], ["model.norm1", "model.norm2"]),
        (["model.norm", "model.norm", ""], ["model.norm", ""]),
        (
            [f"model.stages.{i}.blocks.{j}" for i in range(2) for j in range(3)],
            ["model.stages.{0..1}.blocks.{0..2}"],
        ),
        (
            ["s.0.b.0", "s.0.b.1", "s.1.b.0"],
            ["s.0.b.{0..1}", "s.1.b.0"],
        ),
        (["model.3", "model"], ["model.3", "model"]),
    ],
)
def test_compressed_paths(paths: list[str], written: list[str]) -> None:
    assert compressed(paths) == written


def test_a_line_names_three_and_counts_the_rest() -> None:
    blocks = [f"model.blocks.{i}.{part}" for i in range(4) for part in ("attn", "norm2", "mlp", "drop")]
    assert listed(["model.norm1", *blocks]) == (
        "model.norm1, model.blocks.{0..3}.attn, model.blocks.{0..3}.norm2, 2 more"
    )
    assert listed(["a", "b", "c"]) == "a, b, c"
    assert listed(["a", "b"], shown=1) == "a, 1 more"
