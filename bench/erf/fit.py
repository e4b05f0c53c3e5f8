"""Derives the polynomials of `dialects/erf.py` and prints them.

    python bench/erf/fit.py

Two pieces a precision. Near 0, q(x^2) with erf(x) = x + x q(x^2); beyond, p(x - 1) with erf(x) = 1 - exp(p),
p being the logarithm of erfc, whose error counts only as much as erfc weighs against 1. Each is a weighted
least squares fit on Chebyshev nodes in 60 digits, which lies within a factor of two or three of the best
polynomial; the printed error is the greatest over a finer grid, in units of the last place of the result.
Needs mpmath.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 60
CENTRE = 1
Function = Callable[[mp.mpf], mp.mpf]


def fit(value: Function, weight: Function, variable: Function, low: float, high: float, degree: int) -> mp.matrix:
    """Coefficients, constant first, of the polynomial in `variable(x)` for `value` on [low, high]."""
    nodes = 4 * (degree + 1)
    middle, half = mp.mpf(low + high) / 2, mp.mpf(high - low) / 2
    xs = [middle + half * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / nodes) for k in range(nodes)]
    rows = mp.matrix(nodes, degree + 1)
    right = mp.matrix(nodes, 1)
    for i, x in enumerate(xs):
        for j in range(degree + 1):
            rows[i, j] = weight(x) * variable(x) ** j
        right[i] = weight(x) * value(x)
    return mp.lu_solve(rows, right)


def greatest_error(
    value: Function, weight: Function, variable: Function, low: float, high: float, coefficients: list[float]
) -> mp.mpf:
    grid = [mp.mpf(low) + mp.mpf(high - low) * i / 2000 for i in range(1, 2001)]
    descending = coefficients[::-1]
    return max(abs(weight(x) * (mp.polyval(descending, variable(x)) - value(x))) for x in grid)


def near(x: mp.mpf) -> mp.mpf:
    return mp.erf(x) / x - 1


def far(x: mp.mpf) -> mp.mpf:
    return mp.log(mp.erfc(x))


def main() -> None:
    for name, bits, split, end, near_degree, far_degree in (
        ("F32", 24, 1.0, 4.0, 6, 6),
        ("F64", 53, 1.0, 6.0, 12, 18),
    ):
        ulp = mp.mpf(2) ** -bits  # of results in [1/2, 1)
        pieces = (
            (f"{name}_NEAR", near, lambda x: mp.mpf(1), lambda x: x * x, 1e-9, split, near_degree),
            (f"{name}_FAR", far, mp.erfc, lambda x: x - CENTRE, split, end, far_degree),
        )
        for label, value, weight, variable, low, high, degree in pieces:
            solved = fit(value, weight, variable, low, high, degree)
            coefficients = [float(c) for c in solved]
            worst = greatest_error(value, weight, variable, low, high, coefficients)
            print(f"{label} = (  # {mp.nstr(worst / ulp, 2)} ulp")
            print("".join(f"    {c!r},\n" for c in coefficients) + ")")


if __name__ == "__main__":
    main()
