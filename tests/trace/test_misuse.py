"""Calls that cannot be meant: each tensor function refuses them with the code that its documentation names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sexpgpu.diag import SxError
from tests.golden.tracing import Case, Outcome, outcomes

INPUTS: dict[str, NDArray[Any]] = {
    "x": np.ones((4, 2)),
    "i": np.array([0, 1, 1, 0], np.int32),
    "s": np.ones((1, 2, 4)),
}

CALLS: tuple[tuple[str, str], ...] = (
    ("E-VALUE-101", "(gather x (constant '(0 7)))"),
    ("E-VALUE-101", "(gather x -5)"),
    ("E-VALUE-101", "(embed x (constant 4))"),
    ("E-VALUE-101", "(take-along-axis x (constant '((0) (2) (0) (0))) 1)"),
    ("E-VALUE-101", "(scatter-add x (constant '(4)) (zeros '(1 2)))"),
    ("E-VALUE-101", "(index-update x (constant '(-1)) (zeros '(1 2)))"),
    ("E-VALUE-012", "(constant '(300) :dtype :u8)"),
    ("E-DTYPE-008", "(constant '(1.5) :dtype :i32)"),
    ("E-VALUE-012", "(+ i 3000000000)"),
    ("E-VALUE-012", "(- (cast i :u8) -1)"),
    ("E-TYPE-011", "(full '(2) 'x)"),
    ("E-VALUE-012", "(log x 0)"),
    ("E-ARG-001", "(= x)"),
    ("E-VALUE-012", "(top-k x 3)"),
    ("E-SHAPE-002", "(top-k (sum x) 1)"),
    ("E-SHAPE-002", "(sort x :axis 2)"),
    ("E-ARG-002", "(sort x :descending t)"),
    ("E-VALUE-012", "(tile x '(-1 1))"),
    ("E-VALUE-012", "(repeat-axis x -1 0)"),
    ("E-DTYPE-008", "(pad i '((1 0)) :value 0.5)"),
    ("E-SHAPE-021", "(random-shift (sum x :axis 0) 1)"),
    ("E-VALUE-012", "(random-shift x '(-1))"),
    ("E-VALUE-012", "(random-crop x '(3))"),
    ("E-VALUE-012", "(random-crop x '(0))"),
    ("E-SHAPE-021", "(random-flip (sum x :axis 0))"),
    ("E-VALUE-012", "(attend (reshape x '(1 1 4 2)) (ones '(1 1 4 2)) (ones '(1 1 4 2)) :window 0)"),
    ("E-SHAPE-046", "(attend (ones '(1 3 4 2)) (ones '(1 2 4 2)) (ones '(1 2 4 2)))"),
    ("E-SHAPE-046", "(attend (ones '(1 1 3 2)) (ones '(1 1 2 2)) (ones '(1 1 2 2)) :causal t)"),
    ("E-DTYPE-001", "(attend (ones '(1 1 2 2)) (ones '(1 1 2 2)) (ones '(1 1 2 2)) :mask (ones '(2 2)))"),
    ("E-VALUE-012", "(conv s (ones '(1 2 2)) :stride 0)"),
    ("E-VALUE-012", "(conv s (ones '(1 2 2)) :dilation 0)"),
    ("E-VALUE-012", "(conv s (ones '(1 2 2)) :padding -1)"),
    ("E-ARG-011", "(conv s (ones '(1 2 2)) :padding :valid)"),
    ("E-ARG-010", "(conv s (ones '(1 2 2)) :padding 1.5)"),
    ("E-SHAPE-004", "(conv s (ones '(1 2 2)) :stride '(1 1))"),
    ("E-SHAPE-004", "(conv s (ones '(1 2 2)) :padding '((1 2 3)))"),
    ("E-SHAPE-041", "(conv s (ones '(1 2 2)) :dilation 4)"),
    ("E-SHAPE-044", "(conv s (ones '(1 2 2)) :groups 0)"),
    ("E-DTYPE-001", "(conv (arange 3) (arange 3))"),
    ("E-SHAPE-041", "(pool-max s 2 :padding 2)"),
    ("E-SHAPE-041", "(pool-avg s 5)"),
    ("E-SHAPE-004", "(pool-avg s '(1 1))"),
    ("E-VALUE-041", '(einsum "ij,jk" x)'),
    ("E-VALUE-041", '(einsum "ijk->i" x)'),
    ("E-VALUE-041", '(einsum "i->i" x)'),
    ("E-VALUE-041", '(einsum "i1->i" x)'),
    ("E-VALUE-041", '(einsum "ij->ii" x)'),
    ("E-VALUE-041", '(einsum "ij->ik" x)'),
    ("E-VALUE-041", "(einsum x)"),
    ("E-VALUE-041", '(einsum "")'),
    ("E-SHAPE-045", '(einsum "ij,jk" x x)'),
    ("E-SHAPE-045", '(einsum "ii" x)'),
    ("E-DTYPE-007", "(cross-entropy x (cast i :float))"),
    ("E-VALUE-012", "(constant '(1d300) :dtype :f32)"),
    ("E-SHAPE-005", "(zeros '(99999999999999999999999))"),
    ("E-SHAPE-026", "(cross-entropy x (ones '(3) :dtype :i32))"),
    ("E-VALUE-012", "(random-integer '(2) 0)"),
    ("E-VALUE-015", "(dropout x 1)"),
)


@pytest.fixture(scope="module")
def found() -> dict[str, Outcome | Exception]:
    return outcomes([Case(call, call, INPUTS) for _, call in CALLS])


@pytest.mark.parametrize(("code", "call"), CALLS)
def test_a_call_is_refused(code: str, call: str, found: dict[str, Outcome | Exception]) -> None:
    fault = found[call]
    assert isinstance(fault, SxError), fault
    assert fault.diagnostic.code == code


def test_an_index_of_the_data_is_looked_at_when_it_is_used() -> None:
    inputs: dict[str, NDArray[Any]] = {"x": np.ones((3, 2)), "i": np.array([1, 3], np.int32)}
    calls = ("(gather x i)", "(scatter-add x i (ones '(2 2)))", "(index-update x i (ones '(2 2)))")
    for call, fault in outcomes([Case(call, call, inputs) for call in calls]).items():
        assert isinstance(fault, SxError), call
        assert fault.diagnostic.code == "E-VALUE-101"
        assert fault.diagnostic.span is not None
