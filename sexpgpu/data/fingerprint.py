"""What tells the data of a field from others: how many bytes its files have, a digest where reading them is cheap."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from sexpgpu.data.files import locate, shards
from sexpgpu.data.source import Arange, Bpe, ByStep, FieldSource, Joined, Leaf, Normalize

DIGESTED = 16 << 20
"""Files of more bytes than this, all of a field together, are known by their size alone."""


@frozen
class Fingerprint:
    """`bytes` of all files together; `sha256` of them one after the other, None for large ones."""

    bytes: int
    sha256: str | None


def used_files(source: FieldSource, base: Path | None = None) -> Iterator[Path]:
    """Every file that decides the records of a source, in one order."""
    if isinstance(source, ByStep):
        yield from used_files(source.source, base)
    elif isinstance(source, Joined):
        for part in source.parts:
            yield from used_files(part, base)
    elif isinstance(source, Leaf):
        if not isinstance(source, Arange):
            yield from shards(source.path, base)
        if isinstance(source, Bpe):
            yield locate(source.tokenizer, base)
    else:
        yield from used_files(source.source, base)
        if isinstance(source, Normalize) and source.fit is not None:
            yield from used_files(source.fit, base)


def fingerprint(paths: Sequence[Path]) -> Fingerprint | None:
    """None where there is nothing that stays to be compared: no file, a pipe, one that has gone."""
    try:
        stats = [path.stat() for path in paths]
        if not stats or not all(stat.S_ISREG(each.st_mode) for each in stats):
            return None
        size = sum(each.st_size for each in stats)
        if size > DIGESTED:
            return Fingerprint(size, None)
        digest = hashlib.sha256()
        for path in paths:
            digest.update(path.read_bytes())
        return Fingerprint(size, digest.hexdigest())
    except OSError:
        return None
