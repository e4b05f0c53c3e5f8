"""Texts as ids and back, by the alphabet of a source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from attrs import frozen

from sexpgpu.data.arrays import Array
from sexpgpu.data.source import Chars, Lines, Source, leaf
from sexpgpu.data.text import text_facts
from sexpgpu.diag import error, nearest


@frozen
class Codec:
    """The characters that ids mean, in order; an id beyond them ends a text (a line's BOS, a fill)."""

    alphabet: str
    lines: bool

    def encode(self, text: str) -> Array:
        """i32[characters]; E-VALUE-031 for a character that the source does not have."""
        places = {c: i for i, c in enumerate(self.alphabet)}
        for c in text:
            if c not in places:
                near = nearest(c.swapcase(), self.alphabet)
                raise error(
                    "E-VALUE-031",
                    f"the text has no character {c!r}",
                    expected=f"one of the {len(self.alphabet)} characters that the model was trained on",
                    actual=repr(c),
                    help=f"{near!r} is one" if near else None,
                )
        return np.array([places[c] for c in text], np.int32)

    def decode(self, ids: Array) -> str:
        """The text of i32[time]. In a text of lines the first BOS only opens it."""
        known = [int(i) for i in ids]
        if self.lines and known and known[0] == len(self.alphabet):
            known = known[1:]
        end = next((n for n, i in enumerate(known) if not 0 <= i < len(self.alphabet)), len(known))
        return "".join(self.alphabet[i] for i in known[:end])


def codec_of(source: Source, base: Path | None = None) -> Codec | None:
    """The codec of the text at the bottom of a source, read for its alphabet; None where that is no text."""
    match leaf(source):
        case Chars() as chars:
            return Codec(text_facts(chars, base).alphabet, False)
        case Lines() as lines:
            return Codec(text_facts(lines, base).line_alphabet, True)
        case _:
            return None
