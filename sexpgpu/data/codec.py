"""Texts as ids and back, by the alphabet or the tokenizer of a source."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from attrs import field, frozen

from sexpgpu.data.arrays import Array
from sexpgpu.data.bpe import encode, load_tokenizer, read_vocabulary
from sexpgpu.data.source import Bpe, Chars, FieldSource, Lines, source_leaves
from sexpgpu.data.text import text_facts
from sexpgpu.diag import error, nearest


@frozen
class Alphabet:
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


class Codec(Protocol):
    """A text as ids and back. Codecs of equal meaning are equal."""

    def encode(self, text: str) -> Array: ...
    def decode(self, ids: Array) -> str: ...


@frozen
class Tokenizer:
    """The codec of a `bpe` source; its file is read when it is first used."""

    source: Bpe = field(eq=False)
    base: Path | None = field(eq=False)
    digest: str

    def encode(self, text: str) -> Array:
        """i32[tokens]."""
        return encode(load_tokenizer(self.source, self.base), text)

    def decode(self, ids: Array) -> str:
        """The text of i32[time]; ids below 0 are nothing."""
        known = [int(i) for i in ids if i >= 0]
        return str(load_tokenizer(self.source, self.base).decode(known, skip_special_tokens=False))


def codec_of(source: FieldSource, base: Path | None = None) -> Codec | None:
    """The codec of the text at the bottom of a source, read for its alphabet; None where that is no text."""
    match source_leaves(source)[0]:
        case Chars() as chars:
            return Alphabet(text_facts(chars, base).alphabet, False)
        case Lines() as lines:
            return Alphabet(text_facts(lines, base).line_alphabet, True)
        case Bpe() as bpe:
            return Tokenizer(bpe, base, read_vocabulary(bpe, base).digest)
        case _:
            return None
