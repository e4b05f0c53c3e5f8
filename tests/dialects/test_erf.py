"""erf against 40-digit values: within 2 units of the last place, exact where it must be."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sexpgpu.dialects.erf import erf

LINES = Path(__file__).with_name("erf_values.txt").read_text(encoding="utf-8").splitlines()
VALUES = [(float.fromhex(x), Fraction(value)) for x, value in (line.split() for line in LINES)]
EXACT_IN_F32 = VALUES[: len(VALUES) // 2]


@pytest.mark.parametrize(("dtype", "values"), [(np.float32, EXACT_IN_F32), (np.float64, VALUES)])
def test_within_two_ulp(dtype: Any, values: list[tuple[float, Fraction]]) -> None:
    arguments = np.array([x for x, _ in values], dtype)
    assert [float(x) for x in arguments] == [x for x, _ in values]
    errors = [
        abs(Fraction(float(given)) - wanted) / Fraction(float(np.spacing(abs(dtype(wanted)))))
        for given, (_, wanted) in zip(erf(arguments), values, strict=True)
    ]
    assert max(errors) <= 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_values(dtype: Any) -> None:
    given = erf(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 30, -30], dtype))
    np.testing.assert_array_equal(given, np.array([0.0, -0.0, 1, -1, np.nan, 1, -1], dtype))
    assert np.signbit(given[:2]).tolist() == [False, True]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_odd_rising_and_the_same_in_any_layout(dtype: Any) -> None:
    x = np.linspace(-7, 7, 100_001, dtype=dtype)
    y = erf(x)
    np.testing.assert_array_equal(erf(-x), -y)
    # Rounding may let neighbours fall, by no more than the error allowed.
    assert (np.diff(y) >= -4 * np.spacing(np.abs(y[1:]))).all()
    np.testing.assert_array_equal(erf(x[::-1]), y[::-1])
    np.testing.assert_array_equal(erf(x[:100_000].reshape(100, 1000).T), y[:100_000].reshape(100, 1000).T)


def test_tiny_arguments_keep_their_digits() -> None:
    x = np.array([1e-310, 5e-324, 1e-30])
    np.testing.assert_allclose(erf(x), x * 1.1283791670955126, rtol=1e-15, atol=5e-324)
