"""Texts as character ids: the alphabet, the ids, lines and their positions."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from sexpgpu.data.files import bad_file, read_text, shards, signature
from sexpgpu.data.source import Lines, TextLeaf

FILL = -1  # what a line shorter than its record is filled with
_TEXT = "a UTF-8 text"

Ids = NDArray[np.int32]


@frozen
class TextFacts:
    """Of one text: its characters, and the lengths and the characters of the lines that are not blank."""

    alphabet: str
    characters: int
    line_alphabet: str
    line_lengths: NDArray[np.int64]


def text_facts(source: TextLeaf, base: Path | None) -> TextFacts:
    """What the text says of itself, all files of it together; read once while they stay as they are."""
    return _text_facts(signature(shards(source.path, base)))


@lru_cache(maxsize=16)
def _text_facts(files: tuple[tuple[Path, int, int], ...]) -> TextFacts:
    texts = [read_text(path, _TEXT) for path, _, _ in files]
    lines = [line for text in texts for line in split_lines(text)]
    return TextFacts(
        alphabet="".join(sorted(set().union(*texts))),
        characters=sum(map(len, texts)),
        line_alphabet="".join(sorted(set().union(*lines))),
        line_lengths=np.array([len(line) for line in lines], np.int64),
    )


def split_lines(text: str) -> list[str]:
    """The lines that are not blank, without their ends."""
    return [line for raw in text.split("\n") if (line := raw.removesuffix("\r")).strip()]


def character_ids(text: str) -> tuple[Ids, str]:
    """i32[characters], each character's place in the sorted alphabet, and that alphabet."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    present = np.zeros(int(codes.max(initial=0)) + 1, bool)
    present[codes] = True
    place = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return place[codes], "".join(map(chr, np.flatnonzero(present)))


def read_characters(source: TextLeaf, base: Path | None) -> tuple[Ids, str]:
    """The ids of all files on end, and their alphabet."""
    return character_ids("".join(read_text(path, _TEXT) for path in shards(source.path, base)))


@frozen
class LineIds:
    """All lines' ids on end; line i is `flat[starts[i]:starts[i + 1]]`."""

    flat: Ids
    starts: NDArray[np.int64]
    alphabet: str

    def between(self, start: int, stop: int) -> LineIds:
        """The lines [start, stop), under the same alphabet."""
        starts = self.starts[start : stop + 1]
        return LineIds(self.flat[starts[0] : starts[-1]], starts - starts[0], self.alphabet)


def read_lines(source: Lines, base: Path | None) -> LineIds:
    """The lines of all files; `E-LOAD-003` where there is none."""
    paths = shards(source.path, base)
    lines = [line for path in paths for line in split_lines(read_text(path, _TEXT))]
    if not lines:
        raise bad_file(paths[0], "a text of lines", "all its lines are blank")
    flat, alphabet = character_ids("".join(lines))
    starts = np.zeros(len(lines) + 1, np.int64)
    np.cumsum([len(line) for line in lines], out=starts[1:])
    return LineIds(flat, starts, alphabet)


def padded_lines(lines: LineIds, pad: int, bos: bool) -> Ids:
    """i32[lines, pad]: each line between BOS ids where `bos`, cut to `pad` or filled with -1."""
    count = len(lines.starts) - 1
    lengths = np.diff(lines.starts)
    out = np.full((count, pad), FILL, np.int32)
    first = 1 if bos else 0
    columns = np.arange(pad)[None, :]
    inside = (columns >= first) & (columns < lengths[:, None] + first)
    source = np.where(inside, lines.starts[:-1, None] + columns - first, 0)
    out[inside] = lines.flat[source[inside]]
    if bos:
        out[:, 0] = len(lines.alphabet)
        out[columns == lengths[:, None] + 1] = len(lines.alphabet)
    return out


def line_contexts(lines: LineIds, n: int) -> tuple[Ids, NDArray[np.int64]]:
    """Ids with `n` BOS before each line and one behind it, and where each record of n + 1 ids starts in
    them.
    """
    count = len(lines.starts) - 1
    lengths = np.diff(lines.starts)
    bos = len(lines.alphabet)
    # Line i moves right by the BOS ids of all the lines before it and its own n in front.
    shift = np.repeat(np.arange(count) * (n + 1) + n, lengths)
    flat = np.full(len(lines.flat) + count * (n + 1), bos, np.int32)
    flat[np.arange(len(lines.flat)) + shift] = lines.flat
    positions = np.arange(len(lines.flat) + count)
    starts = positions + np.repeat(np.arange(count) * n, lengths + 1)
    return flat, starts
