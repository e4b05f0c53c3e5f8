"""What operations refuse: every code is provoked, and states expected and actual facts by role."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sexpgpu.diag import SxError
from sexpgpu.diag.catalogue.graphs import OPERATIONS
from sexpgpu.dialects.opdef import parse_type
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.rules import normalize_axis

CONV = {"stride": (1,), "low": (0,), "high": (0,), "dilation": (1,), "groups": 1}
POOL = {"kernel": (2,), "stride": (2,), "low": (0,), "high": (0,)}

CASES: list[tuple[str, str, tuple[str, ...], dict[str, Any], str]] = [
    ("E-SHAPE-001", "add", ("f32[2, 3]", "f32[2, 4]"), {}, "y: f32[2, 4]"),
    ("E-SHAPE-001", "where", ("bool[2]", "f32[3]", "f32[3]"), {}, "condition: f32[2]"),
    ("E-SHAPE-002", "sum", ("f32[2, 3]",), {"axes": (2,), "keepdims": False}, "2 axes"),
    ("E-SHAPE-002", "cumsum", ("f32[]",), {"axis": 0}, "0 axes"),
    ("E-SHAPE-003", "flip", ("f32[2, 3]",), {"axes": (1, 1)}, "[1, 1]"),
    ("E-SHAPE-004", "pad", ("f32[2, 3]",), {"low": (0,), "high": (0, 0), "value": 0}, "1: [0]"),
    ("E-SHAPE-005", "iota", (), {"shape": (-1,), "axis": 0, "dtype": "i32"}, "[-1]"),
    ("E-SHAPE-006", "broadcast", ("f32[3]",), {"shape": (3, 2)}, "x: f32[*3*]"),
    ("E-SHAPE-006", "broadcast", ("f32[2, 3]",), {"shape": (3,)}, "x: f32[*2*, 3]"),
    ("E-SHAPE-007", "reshape", ("f32[2, 6]",), {"shape": (3, 5)}, "15 elements"),
    ("E-SHAPE-008", "transpose", ("f32[2, 3]",), {"perm": (0, 0)}, "[0, 0]"),
    ("E-SHAPE-009", "slice", ("f32[4]",), {"start": (1,), "stop": (6,), "step": (1,)}, "stop 6"),
    ("E-SHAPE-009", "slice", ("f32[4]",), {"start": (0,), "stop": (4,), "step": (0,)}, "step 0"),
    ("E-SHAPE-010", "concat", ("f32[2, 3]", "f32[2, 4]"), {"axis": 0}, "y: f32[2, *4*]"),
    ("E-SHAPE-010", "concat", ("f32[2]", "f32[2, 1]"), {"axis": 0}, "y: f32[2, 1]"),
    ("E-SHAPE-011", "amax", ("f32[0, 3]",), {"axes": (0,), "keepdims": False}, "x: f32[0, 3]"),
    ("E-SHAPE-011", "argmin", ("f32[3, 0]",), {"axis": 1, "keepdims": False}, "x: f32[3, 0]"),
    ("E-SHAPE-012", "matmul", ("f32[3]", "f32[3, 4]"), {}, "x: f32[3]"),
    ("E-SHAPE-012", "matmul", ("f32[2, 3, 4]", "f32[5, 4, 3]"), {}, "y: f32[5, 4, 3]"),
    ("E-SHAPE-013", "matmul", ("f32[2, 3]", "f32[4, 5]"), {}, "4 rows"),
    ("E-SHAPE-014", "random_bits", ("i32[2]",), {"key": 1, "shape": (2,)}, "counter: i32[2]"),
    ("E-SHAPE-015", "take_along_axis", ("f32[2, 3]", "i32[3, 1]"), {"axis": 1}, "indices: i32[*3*, 1]"),
    ("E-SHAPE-016", "scatter_add", ("f32[5, 3]", "i32[4]", "f32[2, 3]"), {"axis": 0}, "f32[2, 3]"),
    ("E-SHAPE-016", "conv_input_grad", ("f32[1, 4, 3]", "f32[4, 2, 2]"), CONV | {"size": (5,)}, "f32[1, 4, 3]"),
    ("E-SHAPE-016", "conv_weight_grad", ("f32[1, 2, 4]", "f32[1, 4, 4]"), CONV | {"kernel": (2,)}, "f32[1, 4, 4]"),
    ("E-SHAPE-016", "conv_weight_grad", ("f32[3, 2, 4]", "f32[0, 4, 3]"), CONV | {"kernel": (2,)}, "f32[0, 4, 3]"),
    ("E-SHAPE-016", "pool_max_grad", ("f32[1, 2, 3]", "f32[1, 2, 4]"), POOL, "f32[1, 2, 3]"),
    ("E-SHAPE-016", "pool_mean_grad", ("f32[1, 2, 3]",), POOL | {"size": (4,)}, "f32[1, 2, 3]"),
    ("E-SHAPE-041", "conv", ("f32[1, 2, 4]", "f32[4, 2, 5]"), CONV, "it spans 5"),
    ("E-SHAPE-041", "conv", ("f32[1, 2, 4]", "f32[4, 2, 3]"), CONV | {"dilation": (2,)}, "it spans 5"),
    ("E-SHAPE-041", "pool_max", ("f32[1, 2, 4]",), POOL | {"low": (2,)}, "padding [2] before"),
    ("E-SHAPE-041", "pool_mean", ("f32[1, 2, 0]",), POOL | {"low": (1,), "high": (1,)}, "f32[1, 2, 0]"),
    ("E-SHAPE-042", "conv", ("f32[2, 4]", "f32[2, 4]"), CONV, "x: f32[2, 4]"),
    ("E-SHAPE-043", "conv", ("f32[1, 2, 4]", "f32[4, 2]"), CONV, "w: f32[4, 2]"),
    ("E-SHAPE-044", "conv", ("f32[1, 2, 4]", "f32[4, 3, 2]"), CONV, "groups 1"),
    ("E-SHAPE-044", "conv", ("f32[1, 4, 4]", "f32[3, 2, 2]"), CONV | {"groups": 2}, "groups 2"),
    ("E-SHAPE-044", "conv", ("f32[1, 4, 4]", "f32[3, 2, 2]"), CONV | {"groups": 0}, "groups 0"),
    ("E-SHAPE-004", "conv", ("f32[1, 2, 4]", "f32[4, 2, 2]"), CONV | {"stride": (1, 1)}, "2: [1, 1]"),
    ("E-VALUE-012", "conv", ("f32[1, 2, 4]", "f32[4, 2, 2]"), CONV | {"low": (-1,)}, "[-1]"),
    ("E-VALUE-012", "pool_max", ("f32[1, 2, 4]",), POOL | {"stride": (0,)}, "[0]"),
    ("E-VALUE-012", "top_k", ("f32[3]",), {"k": 4}, "4 of x: f32[3]"),
    ("E-SHAPE-016", "index_update", ("f32[3]", "i32[2]", "f32[3]"), {"axis": 0}, "updates: f32[3]"),
    ("E-DTYPE-001", "exp", ("i32[3]",), {}, "x: i32[3]"),
    ("E-DTYPE-001", "logical_and", ("f32[3]", "f32[3]"), {}, "x: f32[3]"),
    ("E-DTYPE-001", "gather", ("f32[3]", "f32[2]"), {"axis": 0}, "indices: f32[2]"),
    ("E-DTYPE-002", "mul", ("f32[3]", "f64[3]"), {}, "y: f64[3]"),
    ("E-ARG-101", "gelu", ("f32[3]",), {"approximate": "sigmoid"}, "sigmoid"),
]


@pytest.mark.parametrize(("code", "op", "types", "attrs", "fact"), CASES)
def test_infer_refuses(code: str, op: str, types: tuple[str, ...], attrs: dict[str, Any], fact: str) -> None:
    with pytest.raises(SxError) as caught:
        OPS[op].infer(*map(parse_type, types), **attrs)
    found = caught.value.diagnostic
    assert found.code == code
    assert found.message.startswith(f"{op}: ")
    assert found.expected
    assert fact in str(found.actual)
    assert found.span is None


@pytest.mark.parametrize("index", [-1, 3])
@pytest.mark.parametrize("op", ["gather", "scatter_add", "take_along_axis", "add_along_axis"])
def test_an_index_outside_is_refused_when_it_is_met(op: str, index: int) -> None:
    operands = [np.zeros(3), np.array([0, index], np.int32), np.zeros(2)]
    with pytest.raises(SxError, match="E-VALUE-101") as caught:
        OPS[op].numpy(*operands[: len(OPS[op].operands)], axis=0)
    assert caught.value.diagnostic.actual == f"index {index}"
    assert caught.value.diagnostic.expected == "indices from 0 to 2"


def test_every_code_of_the_operations_is_provoked_here() -> None:
    assert {entry.code for entry in OPERATIONS} | {"E-VALUE-012"} == {case[0] for case in CASES} | {"E-VALUE-101"}


def test_a_transposed_operand_is_recognised() -> None:
    with pytest.raises(SxError) as caught:
        OPS["matmul"].infer(parse_type("f32[2, 3]"), parse_type("f32[4, 3]"))
    assert "transpose" in str(caught.value.diagnostic.help)


def test_axes_count_from_either_end() -> None:
    assert [normalize_axis("sum", axis, 3) for axis in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    for axis in (-4, 3):
        with pytest.raises(SxError, match="E-SHAPE-002"):
            normalize_axis("sum", axis, 3)
