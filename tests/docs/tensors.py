"""Blocks of tensor operations with their values: each form is traced, compiled and run, and compared with its comment.

    (cumsum (constant '(1 2 3)))    ; => (1 3 6)

Floats are shown to four digits behind the point; several values are separated by commas.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sexpgpu.lang.forms import Source
from sexpgpu.lang.reader import read_text
from tests.docs.blocks import Block
from tests.docs.values import Evaluated
from tests.golden.tracing import Case, Outcome, Place, outcomes

_SHOWN = re.compile(r"; =>[^\n]*")


def evaluated(block: Block) -> list[Evaluated]:
    """The forms of a block in order, each with what it gives; a fault is shown as its code."""
    starts = [found.start() for found in re.finditer(r"(?m)^(?=[^\s;])", block.text)]
    pieces = [block.text[a:b] for a, b in zip(starts, [*starts[1:], len(block.text)], strict=True)]
    texts = [piece[: _end(piece)] for piece in pieces]
    cases = [Case(str(number), text, {}) for number, text in enumerate(texts)]
    found = outcomes(cases, place=Place(training=True))
    return [
        Evaluated(
            block.line + block.text.count("\n", 0, start),
            text,
            piece[len(text) :],
            (f"; => {shown(found[case.name])}",),
            tuple(given.rstrip() for given in _SHOWN.findall(piece[len(text) :])),
        )
        for start, piece, text, case in zip(starts, pieces, texts, cases, strict=True)
    ]


def _end(piece: str) -> int:
    return next(iter(read_text(Source("block.sx", piece), lambda _: None))).end


def shown(outcome: Outcome | Exception) -> str:
    if isinstance(outcome, Exception):
        return f"error {outcome}"
    return ", ".join(_written(value.tolist()) for value in outcome.values)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"({' '.join(map(_written, value))})"
    if isinstance(value, bool):
        return "t" if value else "nil"
    if isinstance(value, int) or not np.isfinite(value):
        return str(value)
    return str(round(value, 4) + 0.0)
