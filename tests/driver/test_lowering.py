"""The lowering report: what it sums, how families, forms and reasons are told apart, and its text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sexpgpu.driver.lowering import (
    FellBack,
    Finding,
    GraphRow,
    GroupRow,
    Lowering,
    fallen_back,
    findings,
    sizes,
    summed,
)
from sexpgpu.driver.lowering_text import text_of


def graph(name: str, *groups: GroupRow, nodes: int = 40, products: int = 0, graphs: int = 1) -> GraphRow:
    return GraphRow(name, nodes, nodes - 20, groups, products, 5000, 3000, 2048, 2000, "model.proj, m.sx:25", graphs)


NORMS = [GroupRow("row programs", "row", 5, f"model.blocks.{i}.norm2") for i in range(4)]
ATTENTION = [
    group
    for i in range(4)
    for group in (
        GroupRow("row programs", "row", 7, f"model.blocks.{i}.attn"),
        GroupRow("row programs", "softmax backward", 15, f"model.blocks.{i}.attn"),
    )
]
TAIL = [
    GroupRow("cross-entropy tail", "forward", 4, "model.proj", form="gather of log-probabilities, negated per row"),
    GroupRow("cross-entropy tail", "backward", 6, "model.proj", form="gather of log-probabilities, negated per row"),
]
WIDE = "the head dimension 300 is more than 256"
LEFT = [GroupRow("attention", "forward", 9, f"model.blocks.{i}.attn", fell_back=WIDE) for i in range(2)]
FIRST = GroupRow("row programs", "row", 3, "model.norm1")
POINTWISE = GroupRow("pointwise programs", "pointwise", 2, "model.blocks.0.norm1")


def test_findings_count_kernels_and_name_paths_once() -> None:
    rows, tail = findings(graph("train", *ATTENTION, *NORMS, *TAIL, *LEFT))
    assert rows == Finding(
        "row programs",
        (("row", 8), ("softmax backward", 4)),
        tuple(f"model.blocks.{i}.attn" for i in range(4)) + tuple(f"model.blocks.{i}.norm2" for i in range(4)),
        (),
    )
    assert tail.forms == ("gather of log-probabilities, negated per row",)
    assert tail.kernels == (("forward", 1), ("backward", 1))


def test_what_fell_back_is_no_group() -> None:
    row = graph("train", POINTWISE, *LEFT)
    assert fallen_back(row) == [FellBack("attention", WIDE, ("model.blocks.0.attn", "model.blocks.1.attn"))]
    assert sizes(row) == (2, 2, 2)
    assert [finding.family for finding in findings(row)] == ["pointwise programs"]
    assert sizes(graph("train", *LEFT)) is None


def test_updates_are_summed() -> None:
    one, other = graph("update default f32[2]", POINTWISE), graph("update default f32[3]", POINTWISE, nodes=50)
    row = summed("update default", [one, other])
    assert (row.name, row.graphs, row.nodes, row.kernels, len(row.groups)) == ("update default", 2, 90, 50, 2)
    assert (row.bytes_before, row.bytes_after, row.arena) == (10000, 6000, 2048)


def test_the_text(golden: Callable[[str], None]) -> None:
    rows = (
        graph(
            "train",
            GroupRow("row programs", "row", 3, "model.norm1"),
            *ATTENTION,
            *NORMS,
            POINTWISE,
            *TAIL,
            products=66,
        ),
        graph("train accumulating", *LEFT, products=1),
        graph("val", POINTWISE),
        summed("update default", [graph(f"update default f32[{i}]", POINTWISE, POINTWISE) for i in range(1, 13)]),
    )
    golden(text_of(Lowering("cpu x86-64, 16 threads", rows, (("cache", "off"),))))


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ((), "40 nodes, 20 kernels"),
        ((POINTWISE,), "40 nodes, 20 kernels: 1 fused group of 2 nodes"),
        ((POINTWISE, NORMS[0]), "40 nodes, 20 kernels: 2 fused groups of 2 to 5 nodes (median 3.5)"),
    ],
)
def test_the_counts_of_a_row(groups: tuple[GroupRow, ...], told: str) -> None:
    assert text_of(Lowering("cpu", (graph("train", *groups),))).splitlines()[1] == f"  {'train':25} {told}"
