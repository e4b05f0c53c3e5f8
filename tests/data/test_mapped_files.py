"""Files that are cut after they were mapped: an error at the next read, not the end of the process."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.data.readers import open_source
from sexpgpu.data.source import Arange, Bytes, Npy, Source, Tokens, Window, source_leaves
from sexpgpu.diag import SxError

RECORDS = 100_000


def write(folder: Path) -> None:
    values = np.arange(RECORDS, dtype=np.uint16)
    np.save(folder / "f.npy", values)
    np.save(folder / "g.npy", np.asfortranarray(np.arange(RECORDS * 2.0).reshape(RECORDS, 2)))
    values.tofile(folder / "f.bin")


@pytest.mark.parametrize("keep", [0, 100, -1])
@pytest.mark.parametrize(
    "source",
    [
        Npy("f.npy"),
        Npy("g.npy"),
        Npy("f.npy", from_=0.5),
        Window(Npy("f.npy"), 4),
        Bytes("f.bin"),
        Tokens("f.bin", "u16"),
    ],
)
def test_a_file_cut_after_it_was_opened(source: Source, keep: int, tmp_path: Path) -> None:
    write(tmp_path)
    reader = open_source(source, tmp_path)
    last = np.array([reader.count - 1])
    before = reader.read(last).tolist()
    (leaf,) = source_leaves(source)
    assert not isinstance(leaf, Arange)
    path = tmp_path / leaf.path
    size = path.stat().st_size
    whole = path.read_bytes()
    now = keep % size
    os.truncate(path, now)
    with pytest.raises(SxError) as caught:
        reader.read(last)
    found = caught.value.diagnostic
    assert found.code == "E-LOAD-003"
    assert str(path) in found.message
    assert (found.expected, found.actual) == (
        f"the {size} bytes that it had when it was opened",
        f"{now} bytes: it was cut since",
    )
    path.write_bytes(whole + b"more")
    assert reader.read(last).tolist() == before


def test_a_new_version_moved_over_the_name_disturbs_nobody(tmp_path: Path) -> None:
    write(tmp_path)
    reader = open_source(Npy("f.npy"), tmp_path)
    (tmp_path / "new").write_bytes(b"other")
    os.replace(tmp_path / "new", tmp_path / "f.npy")
    assert reader.read(np.array([70, RECORDS - 1])).tolist() == [70, (RECORDS - 1) % 2**16]
