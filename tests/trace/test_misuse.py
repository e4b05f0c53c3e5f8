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


NAMED: tuple[tuple[str, str, str], ...] = (
    ("E-SHAPE-016", "(scatter-add x i (zeros '(4 3)))", "`scatter-add`: updates"),
    ("E-SHAPE-016", "(index-update x i (zeros '(4 3)))", "`index-update`: updates"),
    ("E-SHAPE-015", "(take-along-axis x i 1)", "`take-along-axis`: indices"),
    ("E-SHAPE-042", "(pool-max x 2)", "`pool-max`: x"),
    ("E-SHAPE-006", "(broadcast-to x '(3 3))", "`broadcast-to`: the tensor"),
    ("E-DTYPE-001", "(top-k (> x 0) 1)", "`top-k`: x has a dtype that it does not take"),
    ("E-DTYPE-001", "(- (> x 0))", "`-`: x has a dtype"),
    ("E-DTYPE-001", "(random-uniform '(2) :dtype :i32)", "`random-uniform` draws floats"),
    ("E-DTYPE-001", "(random-normal '(2) :dtype :bool)", "`random-normal` draws floats"),
    ("E-SHAPE-005", "(eye -1)", "`eye`: a size"),
    ("E-SHAPE-005", "(causal-mask -2)", "`causal-mask`: a size"),
    ("E-SHAPE-005", "(one-hot i -2)", "`one-hot`: a size"),
    ("E-VALUE-012", "(pool-max s 2 :padding -1)", "`pool-max`: :padding"),
    ("E-VALUE-012", "(conv s (ones '(1 2 2)) :padding '((0 -1)))", "`conv`: :padding"),
    ("E-VALUE-012", "(clip x 3 1)", "`clip`: low is above high"),
    ("E-VALUE-012", "(random-uniform '(2) :low 2 :high 1)", "`random-uniform`: :low is above :high"),
    ("E-VALUE-001", "(mod i 0)", "`mod`: division by zero"),
    ("E-VALUE-001", "(mod x 0.0)", "`mod`: division by zero"),
    ("E-VALUE-101", "(one-hot 7 3)", "`one-hot`: an index is outside 3 places"),
    ("E-VALUE-101", "(one-hot (constant '(0 -1)) 3)", "`one-hot`: an index is outside 3 places"),
    ("E-VALUE-101", "(gather x (full '(2) -1 :dtype :i32))", "`gather`: an index is outside axis 0"),
    ("E-VALUE-101", "(gather x (unsqueeze (constant '(4)) 0))", "`gather`: an index is outside axis 0"),
    ("E-VALUE-101", "(gather x (arange 5))", "`gather`: an index is outside axis 0"),
    ("E-VALUE-101", "(gather x (arange 2 -2 -1))", "`gather`: an index is outside axis 0"),
    ("E-SHAPE-002", "(associative-scan #'+ x :axis 4)", "`associative-scan`: there is no axis 4"),
    ("E-SHAPE-002", "(associative-scan #'+ (sum x))", "`associative-scan`: there is no axis 0"),
    ("E-SHAPE-030", "(associative-scan #'mapcar (list x (ones '(3))))", "`associative-scan` goes along"),
    ("E-ARG-012", "(associative-scan #'+ nil)", "`associative-scan` needs a tensor"),
    ("E-FLOW-007", "(associative-scan (lambda (a b) (sum a)) x)", "`associative-scan`: "),
    ("E-ARG-010", "(associative-scan (lambda (a b) (car a)) (list x x))", "`associative-scan`: what "),
    ("E-FLOW-004", "(grad (lambda (y) (cross-entropy y i :ignore-index 0)) x)", "`cross-entropy` inside `grad`"),
    ("E-FLOW-004", "(grad (lambda (y) (step-mean y (ones '(4)))) x)", "`step-mean` inside `grad`"),
)
"""The code of a call, and what it is told by the name that it was called by."""


@pytest.fixture(scope="module")
def told() -> dict[str, Outcome | Exception]:
    return outcomes([Case(call, call, INPUTS) for _, call, _ in NAMED])


@pytest.mark.parametrize(("code", "call", "message"), NAMED)
def test_a_refused_call_is_told_by_its_own_name(
    code: str, call: str, message: str, told: dict[str, Outcome | Exception]
) -> None:
    fault = told[call]
    assert isinstance(fault, SxError), fault
    assert fault.diagnostic.code == code
    assert fault.diagnostic.message.startswith(message)


def test_indices_that_are_known_to_be_within_are_taken() -> None:
    calls = (
        "(gather x (arange 4))",
        "(gather x (arange 3 -1 -1))",
        "(gather x (full '(2) 3 :dtype :i32))",
        "(one-hot (arange 3) 3)",
        "(gather x (* 2 (arange 2)))",
        "(gather x (zeros '(0) :dtype :i32))",
    )
    for call, found in outcomes([Case(call, call, INPUTS) for call in calls]).items():
        assert isinstance(found, Outcome), (call, found)


def test_a_sum_of_many_is_followed_only_so_far() -> None:
    doubled = "(gather x (let ((i (constant '(0)))) (dotimes (n 60) (setq i (+ i i))) i))"
    (found,) = outcomes([Case(doubled, doubled, INPUTS)]).values()
    assert isinstance(found, Outcome), found
