"""Folding microbatches: exact where arithmetic is, in a fixed order, and no operation for a single one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.runtime.fold import MeanFold, SumFold, exact_sum, weighted_mean


def fold(values: list[np.ndarray], rows: list[int], tree: bool) -> np.ndarray:
    means = MeanFold(rows, tree)
    for value in values:
        means.add(value)
    result: np.ndarray = means.mean()
    return result


@pytest.mark.parametrize("tree", [False, True])
@given(
    rows=st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=9),
    numbers=st.lists(st.integers(-1000, 1000), min_size=36, max_size=36),
)
def test_whole_numbers_have_one_mean_however_they_are_split(tree: bool, rows: list[int], numbers: list[int]) -> None:
    records = np.array(numbers[: sum(rows)], np.float32)
    parts = np.split(records, np.cumsum(rows)[:-1])
    result = fold([np.array([part.mean()], np.float32) for part in parts], rows, tree)
    assert result == np.float32(records.sum() / np.float32(len(records)))


def test_one_microbatch_stays_as_it_is() -> None:
    value = np.array([0.1, np.nan], np.float32)
    assert fold([value], [7], tree=False) is value


def test_a_tree_splits_at_the_largest_power_of_two_below() -> None:
    values = [np.array(x, np.float32) for x in (1e8, 1.0, -1e8, 1.0, 1e8, 1.0, 3.0)]
    v = [float(x) for x in values]

    def plus(a: float, b: float) -> float:
        return float(np.float32(a) + np.float32(b))

    left = plus(plus(v[0], v[1]), plus(v[2], v[3]))
    right = plus(plus(v[4], v[5]), v[6])
    total = SumFold()
    for value in values:
        total.add(value.copy())
    assert float(total.total()) == plus(left, right)


def test_read_only_values_are_not_written() -> None:
    values = [np.broadcast_to(np.float32(1), (3,)) for _ in range(3)]
    assert fold(list(values), [1, 2, 3], tree=False).tolist() == [1, 1, 1]


def test_numbers_in_double_precision() -> None:
    assert exact_sum([1e16, 1.0, -1e16]) == 1.0
    assert math.isnan(exact_sum([math.inf, -math.inf]))
    assert exact_sum([1e308, 1e308]) == math.inf
    assert weighted_mean([0.1], [3.0]) == 0.1
    assert weighted_mean([1.0, 2.0], [1.0, 3.0]) == 1.75
    assert math.isnan(weighted_mean([1.0], [0.0]))
    assert math.isnan(weighted_mean([1.0, math.nan], [1.0, 1.0]))
