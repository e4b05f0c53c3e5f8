"""Files that hold more or less than they promise, and cells that only Python takes for numbers."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.data.readers import open_source
from sexpgpu.data.source import Csv, Declared, Idx, Jsonl, Npy, Npz, Source
from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.tensortype import DType


def refused(source: Source, base: Path) -> Diagnostic:
    with pytest.raises(SxError) as caught:
        open_source(source, base)
    return caught.value.diagnostic


def npy_header(shape: tuple[int, ...], dtype: str = "<f4") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


HUGE = (2**31, 2**31, 4)  # 2 ** 64 elements: 0 in 64 bits


def test_an_idx_header_of_more_than_64_bits(tmp_path: Path) -> None:
    (tmp_path / "f.idx").write_bytes(struct.pack(">HBB", 0, 8, 3) + struct.pack(">III", *HUGE))
    found = refused(Idx("f.idx"), tmp_path)
    assert found.code == "E-LOAD-003"
    assert found.actual == f"its header promises {2**64 + 16} bytes, the file has 16"


@pytest.mark.parametrize("shape", [HUGE, (2**40,), (2**64,), (-3,), (-1, -2), (3, -1)])
@pytest.mark.parametrize("kind", ["npy", "npy.gz", "npz"])
def test_a_numpy_header_that_promises_what_is_not_there(kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    data = npy_header(shape) + bytes(8)
    (tmp_path / "f.npy").write_bytes(data)
    (tmp_path / "f.npy.gz").write_bytes(gzip.compress(data))
    with zipfile.ZipFile(tmp_path / "f.npz", "w") as archive:
        archive.writestr("a.npy", data)
    found = refused(Npz("f.npz", "a") if kind == "npz" else Npy(f"f.{kind}"), tmp_path)
    assert found.code == "E-LOAD-003"
    assert "its header promises" in str(found.actual)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize("extra", [b"", b"\0", bytes(64), b"\n"])
def test_bytes_after_an_array(version: tuple[int, int], extra: bytes, tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asfortranarray(np.arange(6.0).reshape(3, 2)), version=version)
    data = stream.getvalue() + extra
    (tmp_path / "f.npy").write_bytes(data)
    (tmp_path / "f.npy.gz").write_bytes(gzip.compress(data))
    with zipfile.ZipFile(tmp_path / "f.npz", "w") as archive:
        archive.writestr("a.npy", data)
    for source in (Npy("f.npy"), Npy("f.npy.gz"), Npz("f.npz", "a")):
        if extra:
            found = refused(source, tmp_path)
            assert found.code == "E-LOAD-003"
            promised = len(data) - len(extra)
            assert found.actual == f"its header promises {promised} bytes, the file has {len(data)}"
        else:
            assert open_source(source, tmp_path).read(np.array([1])).tolist() == [[2, 3]]


@pytest.mark.parametrize("cell", ["1_0", "1_0.5", "1e1_0", "１０", "٣"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_cells_that_only_python_takes_for_numbers(cell: str, dtype: DType, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"a,b\n1,2\n3,{cell}\n", encoding="utf-8")
    found = refused(Csv("t.csv", (), 0, Declared(dtype=dtype)), tmp_path)
    assert found.code == "E-LOAD-003"
    assert found.actual == f"line 3, column 2: {cell!r} is no number"
    (tmp_path / "t.jsonl").write_text(f'{{"a": 1}}\n{{"a": {cell}}}\n', encoding="utf-8")
    assert refused(Jsonl("t.jsonl", ("a",), Declared(dtype=dtype)), tmp_path).code == "E-LOAD-003"
    (tmp_path / "t.jsonl").write_text(json.dumps({"a": cell}), encoding="utf-8")
    assert refused(Jsonl("t.jsonl", ("a",), Declared(dtype=dtype)), tmp_path).code == "E-LOAD-003"


@pytest.mark.parametrize(
    ("cell", "dtype"), [("1e400", "f32"), ("-1e400", "f64"), ("1" + "0" * 310, "f64"), ("-4e38", "f32")]
)
def test_a_number_too_large_is_not_read_as_infinity(cell: str, dtype: DType, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"a,b\n1,2\n3,{cell}\n", encoding="utf-8")
    found = refused(Csv("t.csv", ("b",), 0, Declared(dtype=dtype)), tmp_path)
    assert (found.code, found.actual) == ("E-LOAD-003", f"line 3, column 2: {cell!r} is beyond the numbers of {dtype}")
    number = cell if "e" in cell else cell + ".0"
    (tmp_path / "t.jsonl").write_text(f'{{"a": 1}}\n{{"a": {number}}}\n', encoding="utf-8")
    found = refused(Jsonl("t.jsonl", ("a",), Declared(dtype=dtype)), tmp_path)
    assert found.code == "E-LOAD-003"
    assert str(found.actual).startswith("line 2: ")
    assert "is beyond the numbers of" in str(found.actual)


def test_what_stays_a_number(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("名_1,b\n 1, 2e3\n+.5,-4.\ninf,\u00a07\n", encoding="utf-8")
    records = open_source(Csv("t.csv"), tmp_path).read(np.arange(3))
    assert records.tolist() == [[1, 2000], [0.5, -4], [float("inf"), 7]]
