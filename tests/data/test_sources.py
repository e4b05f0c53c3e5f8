"""Every source: its facts with and without the file, its records, and each way its file can be bad."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.data import statistics
from sexpgpu.data.counts import record_count
from sexpgpu.data.facts import facts, record_type, vocabulary_size
from sexpgpu.data.readers import open_source
from sexpgpu.data.source import (
    Arange,
    Chars,
    Contexts,
    Csv,
    Declared,
    Idx,
    Lines,
    Normalize,
    Npy,
    Npz,
    Records,
    Scale,
    Source,
    Take,
    Window,
)
from sexpgpu.diag import SxError
from sexpgpu.tensortype import DType, TensorType

NAMES = "emma\nolivia\r\n\nava\n"  # alphabet a e i l m o v, BOS 7


def all_of(source: Source, base: Path) -> np.ndarray:
    """Every record, after a check that the facts and the reader agree."""
    reader = open_source(source, base)
    known = facts(source, base)
    assert known.count == reader.count
    assert known.type == reader.type
    records = reader.read(np.arange(reader.count))
    assert records.shape == (reader.count, *reader.type.shape)
    backwards = np.arange(reader.count)[::-1]
    assert (reader.read(backwards) == records[::-1]).all()
    return records


def code_of(source: Source, base: Path) -> str:
    with pytest.raises(SxError) as caught:
        open_source(source, base)
    assert caught.value.diagnostic.message
    return caught.value.diagnostic.code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("to be, or not\n", encoding="utf-8")
    (tmp_path / "names.txt").write_bytes(NAMES.encode())
    (tmp_path / "table.csv").write_text("x0,X1,y\n1.5,2,-1\n3,4e1,1\n", encoding="utf-8")
    np.save(tmp_path / "a.npy", np.arange(24, dtype=np.float64).reshape(6, 4))
    np.savez(tmp_path / "b.npz", ids=np.arange(5, dtype=np.uint16))
    with gzip.open(tmp_path / "images.gz", "wb") as stream:
        stream.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 3, 2, 2) + bytes(range(12)))
    return tmp_path


def test_chars(folder: Path) -> None:
    ids = all_of(Chars("text.txt"), folder)
    assert ids.dtype == np.int32
    alphabet = facts(Chars("text.txt"), folder).characters
    assert alphabet == "".join(sorted(set("to be, or not\n")))
    assert "".join(alphabet[i] for i in ids) == "to be, or not\n"
    assert vocabulary_size(Chars("text.txt"), folder) == len(alphabet)


def test_cuts_count_items_and_floor_fractions(folder: Path) -> None:
    whole = all_of(Chars("text.txt"), folder)
    assert (all_of(Chars("text.txt", to=0.9), folder) == whole[:12]).all()  # floor(14 * 0.9)
    assert (all_of(Records(Chars("text.txt"), from_=0.9), folder) == whole[12:]).all()
    assert (all_of(Take(Chars("text.txt", from_=2), 3), folder) == whole[2:5]).all()
    for cut in (
        Records(Chars("text.txt"), from_=14),
        Take(Chars("text.txt"), 15),
        Records(Chars("text.txt"), to=0.0),
    ):
        assert code_of(cut, folder) == "E-LOAD-006"


def test_windows(folder: Path) -> None:
    whole = all_of(Chars("text.txt"), folder)
    assert (all_of(Window(Chars("text.txt"), 5), folder) == [whole[i : i + 5] for i in range(10)]).all()
    strided = all_of(Window(Chars("text.txt"), 5, stride=4, from_=1), folder)
    assert (strided == [whole[1 + i : 6 + i] for i in (0, 4, 8)]).all()
    assert open_source(Window(Chars("text.txt"), 5, stride=4, from_=1), folder).place == (1, 4)
    assert all_of(Window(Npy("a.npy"), 2), folder).shape == (5, 2, 4)
    assert code_of(Window(Chars("text.txt"), 15), folder) == "E-LOAD-006"


def test_lines_are_framed_filled_and_cut(folder: Path) -> None:
    framed = all_of(Lines("names.txt", pad=7, bos=True), folder)
    assert framed.tolist() == [
        [7, 1, 4, 4, 0, 7, -1],
        [7, 5, 3, 2, 6, 2, 0],
        [7, 0, 6, 0, 7, -1, -1],
    ]
    assert vocabulary_size(Lines("names.txt", pad=7, bos=True), folder) == 8
    bare = all_of(Lines("names.txt", pad=4), folder)
    assert bare.tolist() == [[1, 4, 4, 0], [5, 3, 2, 6], [0, 6, 0, -1]]
    assert vocabulary_size(Lines("names.txt", pad=4), folder) == 7
    with pytest.raises(SxError, match="E-LOAD-005"):
        record_type(Lines("names.txt"), folder)


def test_contexts_see_the_ids_before_each_position(folder: Path) -> None:
    names = Lines("names.txt", bos=True, from_=2)  # ava
    assert all_of(Contexts(names, 2), folder).tolist() == [[7, 7, 0], [7, 0, 6], [0, 6, 0], [6, 0, 7]]
    whole = all_of(Contexts(Lines("names.txt", bos=True), 3), folder)
    assert len(whole) == len("emmaoliviaava") + 3
    assert whole[0].tolist() == [7, 7, 7, 1]
    assert code_of(Contexts(Chars("text.txt"), 3), folder) == "E-LOAD-006"
    assert code_of(Contexts(Lines("names.txt", bos=True), 3, count=15), folder) == "E-LOAD-007"


def test_tables(folder: Path) -> None:
    points = all_of(Csv("table.csv", ("x0", "x1"), declared=Declared(dtype="f64")), folder)
    assert points.dtype == np.float64
    assert points.tolist() == [[1.5, 2.0], [3.0, 40.0]]
    assert all_of(Csv("table.csv", (-1,), declared=Declared(dtype="i32")), folder).tolist() == [-1, 1]
    assert record_type(Csv("table.csv"), folder) == TensorType((3,), "f32")
    skipped = Csv("table.csv", skip=1)
    assert all_of(skipped, folder).tolist() == [[1.5, 2.0, -1.0], [3.0, 40.0, 1.0]]
    assert code_of(Csv("table.csv", ("x2",)), folder) == "E-LOAD-004"
    assert code_of(Csv("table.csv", (3,)), folder) == "E-LOAD-004"
    assert code_of(Csv("table.csv", ("x0",), declared=Declared(dtype="i32")), folder) == "E-LOAD-003"


def test_numbers_of_another_kind_are_told_without_a_warning(tmp_path: Path) -> None:
    """Warnings are errors here: one of NumPy's would hide ours."""
    cases: list[tuple[str, DType]] = [("1.7", "i32"), ("99999999999", "i32"), ("nan", "i32"), ("1e300", "i64")]
    for cell, dtype in (*cases, ("300", "u8")):
        (tmp_path / "t.csv").write_text(f"x\n1\n{cell}\n", encoding="utf-8")
        source = Csv("t.csv", declared=Declared(dtype=dtype))
        with pytest.raises(SxError) as caught:
            open_source(source, tmp_path)
        assert caught.value.diagnostic.code == "E-LOAD-003"
        assert caught.value.diagnostic.actual == f"line 3, column 1: '{cell}' is no {dtype}"


def test_headers_that_name_badly(tmp_path: Path) -> None:
    (tmp_path / "twice.csv").write_text("a,b,A\n1,2,3\n", encoding="utf-8")
    (tmp_path / "narrow.csv").write_text("a,b\n1,2,3\n", encoding="utf-8")
    (tmp_path / "none.csv").write_text("1,2,3\n", encoding="utf-8")
    for name, expected, actual in (
        ("twice", "one column of that name", "columns 1 and 3"),
        ("narrow", "2 cells in a row, as the header has", "3 cells"),
        ("none", "columns by place: the file names none", "a"),
    ):
        with pytest.raises(SxError) as caught:
            open_source(Csv(f"{name}.csv", ("a",)), tmp_path)
        found = caught.value.diagnostic
        assert (found.code, found.expected, found.actual) == ("E-LOAD-004", expected, actual)
        assert all_of(Csv(f"{name}.csv", (2,)), tmp_path).tolist() == [3.0]
    assert all_of(Csv("twice.csv", ("b",)), tmp_path).tolist() == [2.0]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert all_of(Csv("t.csv", ("a",)), tmp_path).tolist() == [1.0]
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbfba\n")
    assert all_of(Chars("t.txt"), tmp_path).tolist() == [2, 1, 0]
    assert vocabulary_size(Lines("t.txt", 4), tmp_path) == 2
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbfa\xff")
    with pytest.raises(SxError) as caught:
        open_source(Chars("t.txt"), tmp_path)
    assert caught.value.diagnostic.actual == "byte 0xff at offset 4, in line 1, is not UTF-8"
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbf")
    assert code_of(Chars("t.txt"), tmp_path) == "E-LOAD-003"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Window(Chars("t"), 2, 0), "stride of window is below 1"),
        (lambda: Window(Chars("t"), 0), "n of window is below 1"),
        (lambda: Contexts(Lines("t", bos=True), 0), "n of contexts is below 1"),
        (lambda: Take(Chars("t"), -1), "n of take is below 1"),
        (lambda: Lines("t", 0), "pad of lines is below 1"),
        (lambda: Csv("t", skip=-1), "skip of csv is below 0"),
        (lambda: Declared(shape=(5, 0)), "shape of the facts is below 1"),
        (lambda: Declared(count=0), "count of the facts is below 1"),
        (lambda: Arange((1 << 31) + 1), "start (the count) of arange is above 2,147,483,648"),
        (lambda: Arange(-5), "start (the count) of arange is below 1"),
        (lambda: facts(Npy("t", declared=Declared(shape=(), dtype="f32"))), "the :shape of npy needs 1 axis or more"),
        (lambda: facts(Csv("t", declared=Declared(shape=(5,)))), "the :shape of csv needs 2 axes"),
    ],
)
def test_a_length_that_is_none(make: Callable[[], object], message: str) -> None:
    with pytest.raises(SxError) as caught:
        make()
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == ("E-LOAD-010", message)


def test_array_files(folder: Path) -> None:
    assert record_type(Npy("a.npy"), folder) == TensorType((4,), "f64")
    assert all_of(Npy("a.npy", from_=4), folder).tolist() == [[16, 17, 18, 19], [20, 21, 22, 23]]
    ids = all_of(Npz("b.npz", "ids"), folder)
    assert ids.dtype == np.int32
    assert ids.tolist() == [0, 1, 2, 3, 4]
    images = all_of(Idx("images.gz"), folder)
    assert images.dtype == np.uint8
    assert images[2].tolist() == [[8, 9], [10, 11]]
    with gzip.open(folder / "a.npy.gz", "wb") as stream:
        stream.write((folder / "a.npy").read_bytes())
    assert (all_of(Npy("a.npy.gz"), folder) == all_of(Npy("a.npy"), folder)).all()
    np.save(folder / "big.npy", np.array([1, 2], ">i4"))
    assert all_of(Npy("big.npy"), folder).tolist() == [1, 2]


def test_scaling_and_normalizing(folder: Path) -> None:
    whole = all_of(Npy("a.npy"), folder)
    assert (all_of(Scale(Npy("a.npy"), 0.5), folder) == whole * 0.5).all()
    assert record_type(Scale(Idx("images.gz"), 1 / 256), folder).dtype == "f32"
    ranged = all_of(Normalize(Npy("a.npy"), "minmax"), folder)
    assert np.allclose(ranged[:, 0], np.linspace(0, 1, 6))
    scored = all_of(Normalize(Npy("a.npy"), "zscore"), folder)
    assert np.allclose(scored.mean(axis=0), 0)
    assert np.allclose(scored.std(axis=0), 1)
    np.save(folder / "flat.npy", np.full((4, 2), 3, np.uint8))
    assert (all_of(Normalize(Npy("flat.npy"), "zscore"), folder) == 0).all()
    fitted = Normalize(Npy("a.npy", from_=4), "minmax", fit=Npy("a.npy", to=4))
    assert np.allclose(all_of(fitted, folder)[:, 0], [16 / 12, 20 / 12])
    assert open_source(fitted, folder).fitted["minmax"]["min"] == [0, 1, 2, 3]
    assert code_of(Normalize(Npy("a.npy"), "minmax", fit=Idx("images.gz")), folder) == "E-LOAD-006"


def test_a_normalization_reads_its_data_in_pieces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = all_of(Normalize(Npy("a.npy"), "zscore"), folder)
    monkeypatch.setattr(statistics, "_CHUNK", 8)
    assert np.allclose(all_of(Normalize(Npy("a.npy"), "zscore"), folder), whole, rtol=1e-14)


ABSENT = [
    (Chars("no"), "vocab", ":vocab"),
    (Chars("no"), "count", ":count"),
    (Lines("no", pad=3), "vocab", ":vocab"),
    (Npy("no", Declared(dtype="f32")), "type", ":shape"),
    (Idx("no", Declared(shape=(3, 2))), "type", ":dtype"),
    (Csv("no"), "type", ":shape"),
    (Csv("no", ("a",)), "count", ":count"),
    (Contexts(Lines("no", bos=True), 3), "count", ":count"),
]


@pytest.mark.parametrize(("source", "fact", "keyword"), ABSENT)
def test_a_missing_fact_names_its_keyword(source: Source, fact: str, keyword: str, tmp_path: Path) -> None:
    ask = {"vocab": vocabulary_size, "count": record_count, "type": record_type}[fact]
    with pytest.raises(SxError) as caught:
        ask(source, tmp_path)
    assert caught.value.diagnostic.code == "E-LOAD-005"
    assert caught.value.diagnostic.expected == keyword


def test_declared_facts_need_no_file(tmp_path: Path) -> None:
    images = Idx("no", Declared(shape=(60000, 28, 28), dtype="u8"), from_=55000)
    assert record_type(images, tmp_path) == TensorType((28, 28), "u8")
    assert record_count(images, tmp_path) == 5000
    text = Window(Chars("no", Declared(vocab=65, count=1000)), 65, to=0.9)
    assert record_count(text, tmp_path) == 900 - 64
    assert vocabulary_size(text, tmp_path) == 65
    assert code_of(images, tmp_path) == "E-LOAD-001"
    assert record_count(Contexts(Lines("no", bos=True), 3, count=9), tmp_path) == 9


FALSE = [
    Chars("text.txt", Declared(vocab=65)),
    Chars("text.txt", Declared(count=3)),
    Lines("names.txt", 4, True, Declared(vocab=7)),
    Csv("table.csv", declared=Declared(shape=(2, 4))),
    Npy("a.npy", Declared(shape=(6, 5))),
    Npy("a.npy", Declared(dtype="f32")),
    Npz("b.npz", "ids", Declared(vocab=4)),
    Idx("images.gz", Declared(count=4)),
]


@pytest.mark.parametrize("source", FALSE, ids=lambda source: f"{type(source).__name__} {source.declared}")
def test_a_false_declaration_shows_both(source: Source, folder: Path) -> None:
    with pytest.raises(SxError) as caught:
        open_source(source, folder)
    assert caught.value.diagnostic.code == "E-LOAD-007"
    assert caught.value.diagnostic.expected
    assert caught.value.diagnostic.actual


BAD_BYTES = {
    "empty": b"",
    "random": bytes((i * 197 + 13) % 256 for i in range(500)),
    "nul": b"\0" * 64,
    "npy cut in its header": b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', ",
    "not utf-8": b"1,2\n\xff\xfe,3\n",
    "idx cut": struct.pack(">BBBBI", 0, 0, 8, 1, 100) + b"abc",
    "idx type": struct.pack(">BBBBI", 0, 0, 7, 1, 3) + b"abc",
    "zip cut": b"PK\x03\x04" + b"\0" * 40,
}
KINDS: dict[str, Callable[[str], Source]] = {
    "chars": Chars,
    "lines": lambda path: Lines(path, 4),
    "csv": Csv,
    "npy": Npy,
    "npz": lambda path: Npz(path, "a"),
    "idx": Idx,
}


@pytest.mark.parametrize("content", BAD_BYTES)
@pytest.mark.parametrize("kind", KINDS)
def test_bad_bytes_are_a_clear_error(kind: str, content: str, tmp_path: Path) -> None:
    for name, data in (
        ("f", BAD_BYTES[content]),
        ("f.gz", gzip.compress(BAD_BYTES[content])),
        ("g.gz", b"\x1f\x8b\x08"),
    ):
        (tmp_path / name).write_bytes(data)
    if kind in ("chars", "lines") and content in ("nul", "zip cut", "idx type", "idx cut"):
        return  # these bytes are a text
    codes = {"E-LOAD-003"}
    assert code_of(KINDS[kind]("f"), tmp_path) in codes
    assert code_of(KINDS[kind]("f.gz"), tmp_path) in codes
    assert code_of(KINDS[kind]("g.gz"), tmp_path) in codes


@pytest.mark.parametrize("kind", KINDS)
def test_missing_files_and_folders(kind: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "plain.gz").write_bytes(b"not compressed")
    source = KINDS[kind]
    assert code_of(source("d"), tmp_path) == "E-LOAD-002"
    assert code_of(source("plain.gz"), tmp_path) == "E-LOAD-003"
    assert code_of(source("no"), tmp_path) == "E-LOAD-001"


def test_truncated_arrays(folder: Path) -> None:
    for name, source in (
        ("a.npy", Npy("a.npy")),
        ("b.npz", Npz("b.npz", "ids")),
        ("images.gz", Idx("images.gz")),
    ):
        data = (folder / name).read_bytes()
        for keep in (len(data) // 3, len(data) - 1):
            (folder / name).write_bytes(data[:keep])
            assert code_of(source, folder) == "E-LOAD-003", (name, keep)


def test_arrays_of_other_kinds(tmp_path: Path) -> None:
    np.save(tmp_path / "complex.npy", np.zeros(3, np.complex64))
    np.save(tmp_path / "object.npy", np.array([{}, 1], object), allow_pickle=True)
    np.save(tmp_path / "scalar.npy", np.float32(1))
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    for name in ("complex", "object", "scalar", "none"):
        assert code_of(Npy(f"{name}.npy"), tmp_path) == "E-LOAD-003"
    np.savez(tmp_path / "z.npz", a=np.zeros(2))
    assert code_of(Npz("z.npz", "b"), tmp_path) == "E-LOAD-004"


def test_ragged_and_unnumeric_tables_say_where(tmp_path: Path) -> None:
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3\n", encoding="utf-8")
    (tmp_path / "word.csv").write_text("a,b\n1,2\n\n\n3,x\n", encoding="utf-8")
    (tmp_path / "header.csv").write_text("a,b\n", encoding="utf-8")
    for name, where in (("ragged", "line 3"), ("word", "line 5, column 2"), ("header", "no rows")):
        with pytest.raises(SxError) as caught:
            open_source(Csv(f"{name}.csv"), tmp_path)
        assert caught.value.diagnostic.code == "E-LOAD-003"
        assert where in (caught.value.diagnostic.actual or "")
