"""Writes `erf_values.txt`, the reference values of erf: `python tests/dialects/erf_values.py`. Needs mpmath.

A line holds an argument, exact as a hexadecimal float, and erf of it in 40 digits. The arguments are drawn
from every piece of the implementation and its edges, and are exact in f32 on the lines of the first half.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import mpmath as mp

VALUES = Path(__file__).with_suffix(".txt")


def arguments() -> Iterator[float]:
    rng = random.Random(11)
    spans = ((1e-12, 1e-3), (1e-3, 0.5), (0.5, 1.0), (0.99, 1.01), (1.0, 2.0), (2.0, 4.2), (4.2, 6.5))
    for bits in (23, 52):
        for low, high in spans:
            for _ in range(60):
                x = low + (high - low) * rng.random()
                mantissa, exponent = mp.frexp(x)
                yield float(mp.ldexp(mp.floor(mantissa * 2**bits), exponent - bits)) * rng.choice((1, -1))


def main() -> None:
    mp.mp.dps = 40
    lines = [f"{x.hex()} {mp.nstr(mp.erf(mp.mpf(x)), 40)}\n" for x in arguments()]
    VALUES.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
