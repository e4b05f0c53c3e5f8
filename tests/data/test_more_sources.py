"""Bytes, tokens, byte-pair encodings, Parquet, JSON lines, numbers; compressed and sharded files of every kind."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from sexpgpu.data.codec import codec_of
from sexpgpu.data.counts import record_count
from sexpgpu.data.facts import facts, record_type, vocabulary_size
from sexpgpu.data.readers import open_source
from sexpgpu.data.source import (
    Arange,
    Bpe,
    Bytes,
    Chars,
    Csv,
    Declared,
    Idx,
    Jsonl,
    Lines,
    Normalize,
    Npy,
    Npz,
    Parquet,
    Scale,
    Source,
    Take,
    Tokens,
    Window,
)
from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.tensortype import DType, TensorType

TEXT = "to be, or not to be: that is the question.\nWhether 'tis nobler in the mind\n"


def all_of(source: Source, base: Path) -> np.ndarray:
    """Every record, after a check that the facts and the reader agree and that any order of asking is the same."""
    reader = open_source(source, base)
    known = facts(source, base)
    assert (known.count, known.type) == (reader.count, reader.type)
    records = reader.read(np.arange(reader.count))
    assert records.shape == (reader.count, *reader.type.shape)
    backwards = np.arange(reader.count)[::-1]
    assert (reader.read(backwards) == records[::-1]).all()
    return records


def refused(source: Source, base: Path) -> Diagnostic:
    with pytest.raises(SxError) as caught:
        open_source(source, base)
    return caught.value.diagnostic


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator(
        [TEXT] * 3, trainers.BpeTrainer(vocab_size=60, special_tokens=["<end>"], show_progress=False)
    )
    path = tmp_path_factory.mktemp("bpe") / "tokenizer.json"
    made.save(str(path))
    return path


def test_bytes(tmp_path: Path) -> None:
    data = bytes(range(256)) + b"again"
    (tmp_path / "f.bin").write_bytes(data)
    assert all_of(Bytes("f.bin"), tmp_path).tolist() == list(data)
    assert record_type(Bytes("absent"), tmp_path) == TensorType((), "i32")
    assert vocabulary_size(Bytes("absent"), tmp_path) == 256
    assert all_of(Window(Bytes("f.bin", to=0.5), 4, stride=4), tmp_path)[1].tolist() == [4, 5, 6, 7]
    found = refused(Bytes("f.bin", Declared(vocab=128)), tmp_path)
    assert (found.code, found.actual) == ("E-LOAD-007", "ids from 0 to 255")


@pytest.mark.parametrize(
    ("stored", "read"), [("u8", "i32"), ("u16", "i32"), ("i16", "i32"), ("u32", "i64"), ("i32", "i32"), ("i64", "i64")]
)
def test_tokens(stored: Any, read: DType, tmp_path: Path) -> None:
    ids = np.array([0, 7, 100, 3, 99])
    dtype = np.dtype(f"<{stored[0]}{int(stored[1:]) // 8}")
    ids.astype(dtype).tofile(tmp_path / "t.bin")
    records = all_of(Tokens("t.bin", stored), tmp_path)
    assert records.tolist() == ids.tolist()
    assert facts(Tokens("t.bin", stored), tmp_path).type == TensorType((), read)
    with bz2.open(tmp_path / "t.bin.bz2", "wb") as stream:
        stream.write((tmp_path / "t.bin").read_bytes())
    assert all_of(Tokens("t.bin.bz2", stored), tmp_path).tolist() == ids.tolist()
    assert record_count(Tokens("absent", stored, Declared(count=9)), tmp_path) == 9
    assert refused(Tokens("t.bin", stored, Declared(count=6)), tmp_path).code == "E-LOAD-007"
    assert refused(Tokens("t.bin", stored, Declared(vocab=100)), tmp_path).actual == "ids from 0 to 100"
    if dtype.itemsize > 1:
        (tmp_path / "t.bin").write_bytes((tmp_path / "t.bin").read_bytes()[:-1])
        found = refused(Tokens("t.bin", stored), tmp_path)
        assert found.code == "E-LOAD-003"
        assert f"{5 * dtype.itemsize - 1} bytes" in str(found.actual)
    (tmp_path / "t.bin").write_bytes(b"")
    assert refused(Tokens("t.bin", stored), tmp_path).actual == "the file is empty"


def test_byte_pairs(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TEXT, encoding="utf-8")
    source = Bpe("t.txt", str(tokenizer))
    reference = Tokenizer.from_file(str(tokenizer))
    ids = all_of(source, tmp_path)
    assert ids.dtype == np.int32
    assert ids.tolist() == reference.encode(TEXT).ids
    assert len(ids) < len(TEXT)
    assert vocabulary_size(source, tmp_path) == reference.get_vocab_size() == 60
    assert vocabulary_size(Bpe("absent", str(tokenizer)), tmp_path) == 60
    codec = codec_of(Window(source, 4), tmp_path)
    assert codec is not None
    assert codec.encode("the mind").tolist() == reference.encode("the mind").ids
    assert codec.decode(codec.encode("nobler")) == reference.decode(reference.encode("nobler").ids)
    assert codec == codec_of(Bpe("t.txt", str(tokenizer), to=0.5), tmp_path)
    digest = open_source(source, tmp_path).fitted["tokenizer"]
    assert len(digest) == 64
    assert refused(Bpe("t.txt", str(tokenizer), Declared(vocab=61)), tmp_path).code == "E-LOAD-007"
    assert refused(Bpe("t.txt", "absent.json"), tmp_path).code == "E-LOAD-001"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "no table of tokens"),
        ("[]", "no table of tokens"),
        ('{"model": {"type": "BPE"}}', "no table of tokens"),
        ('{"model": {"type": "Unigram", "vocab": {"a": 0}}}', "of the kind Unigram"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0}}}', "merges"),
    ],
)
def test_files_that_are_no_tokenizer(content: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    found = refused(Bpe("t.txt", "tokenizer.json"), tmp_path)
    assert found.code == "E-LOAD-003"
    assert reason in str(found.actual)


@pytest.mark.parametrize(("package", "extra"), [("tokenizers", "bpe"), ("pyarrow", "parquet")])
def test_a_missing_package_names_its_extra(
    package: str, extra: str, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_text("ab" + package, encoding="utf-8")
    monkeypatch.setitem(sys.modules, package, None)
    source: Source = Bpe("f", str(tokenizer)) if extra == "bpe" else Parquet("f")
    found = refused(source, tmp_path)
    assert (found.code, found.help) == ("E-DEV-010", f"pip install 'sexpgpu[{extra}]'")


def parquet_file(folder: Path, name: str = "t.parquet", rows: int = 7, **more: Any) -> dict[str, Any]:
    columns = {
        "A": np.arange(rows, dtype=np.float32) / 2,
        "b": np.arange(rows, dtype=np.float32) * 3,
        "label": np.arange(rows, dtype=np.int16) % 2,
        "vec": [[float(i), float(-i), 1.0] for i in range(rows)],
        "name": [f"row {i}" for i in range(rows)],
    } | more
    pa.parquet.write_table(pa.table(columns), folder / name, row_group_size=3)
    return columns


def test_parquet(tmp_path: Path) -> None:
    columns = parquet_file(tmp_path)
    assert all_of(Parquet("t.parquet", ("label",)), tmp_path).tolist() == columns["label"].tolist()
    assert record_type(Parquet("t.parquet", ("label",)), tmp_path) == TensorType((), "i32")
    assert all_of(Parquet("t.parquet", ("a", "b")), tmp_path)[2].tolist() == [1.0, 6.0]
    assert all_of(Parquet("t.parquet", ("vec",)), tmp_path)[2].tolist() == [2.0, -2.0, 1.0]
    assert record_type(Parquet("t.parquet", ("vec",)), tmp_path) == TensorType((3,), "f64")
    absent = Parquet("absent", ("vec",), Declared(shape=(9, 3), dtype="f32"))
    assert record_type(absent, tmp_path) == TensorType((3,), "f32")
    assert record_count(absent, tmp_path) == 9
    (tmp_path / "t.parquet.gz").write_bytes(gzip.compress((tmp_path / "t.parquet").read_bytes()))
    assert all_of(Parquet("t.parquet.gz", ("b",)), tmp_path)[3] == 9
    for declared in (Declared(shape=(7, 4)), Declared(dtype="f32"), Declared(count=8)):
        assert refused(Parquet("t.parquet", ("vec",), declared), tmp_path).code == "E-LOAD-007"


def test_parquet_files_that_are_not_what_is_asked(tmp_path: Path) -> None:
    parquet_file(tmp_path, hole=[1.0, None, *[2.0] * 5], ragged=[[1.0], [1.0, 2.0], *[[1.0]] * 5])
    for names, code, actual in (
        (("lable",), "E-LOAD-004", "lable"),
        (("hole",), "E-LOAD-003", "column hole has nothing in row 1"),
        (("ragged",), "E-LOAD-003", "column ragged has 2 numbers in row 1, 1 in row 0"),
        (("name",), "E-LOAD-003", "column name holds string"),
        (("a", "label"), "E-LOAD-003", "column label holds int16, and A float32"),
        (("a", "vec"), "E-LOAD-003", "column vec holds lists, and A float32"),
    ):
        found = refused(Parquet("t.parquet", names), tmp_path)
        assert (found.code, found.actual) == (code, actual)
    assert refused(Parquet("t.parquet", ("lable",)), tmp_path).help == "did you mean label?"
    whole = (tmp_path / "t.parquet").read_bytes()
    for content in (b"", whole[:100], whole[:-1], b"PAR1" * 9):
        (tmp_path / "bad.parquet").write_bytes(content)
        assert refused(Parquet("bad.parquet"), tmp_path).code == "E-LOAD-003"
    pa.parquet.write_table(pa.table({"x": pa.array([], pa.float32())}), tmp_path / "none.parquet")
    assert refused(Parquet("none.parquet"), tmp_path).actual == "it has no rows"


def test_json_lines(tmp_path: Path) -> None:
    rows = [{"x": [[i, i + 1], [0, 0.5]], "Y": i, "flag": i % 2 == 0} for i in range(4)]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    assert all_of(Jsonl("d.jsonl", ("x",)), tmp_path)[3].tolist() == [[3, 4], [0, 0.5]]
    assert record_type(Jsonl("d.jsonl", ("x",)), tmp_path) == TensorType((2, 2), "f32")
    assert all_of(Jsonl("d.jsonl", ("y",), Declared(dtype="i64")), tmp_path).tolist() == [0, 1, 2, 3]
    assert all_of(Jsonl("d.jsonl", ("y", "flag")), tmp_path).tolist() == [[0, 1], [1, 0], [2, 1], [3, 0]]
    with lzma.open(tmp_path / "d.jsonl.xz", "wb") as stream:
        stream.write((tmp_path / "d.jsonl").read_bytes())
    assert len(all_of(Jsonl("d.jsonl.xz", ("y",)), tmp_path)) == 4
    absent = Jsonl("absent", ("x",), Declared(shape=(5, 2, 2)))
    assert record_type(absent, tmp_path) == TensorType((2, 2), "f32")
    assert refused(Jsonl("d.jsonl", ("x",), Declared(shape=(4, 2, 3))), tmp_path).code == "E-LOAD-007"


@pytest.mark.parametrize(
    ("second", "dtype", "code", "actual"),
    [
        ('{"x": 1', "f32", "E-LOAD-003", "line 2, column 8: Expecting ',' delimiter"),
        ("[1]", "f32", "E-LOAD-003", "line 2 holds [1], which is no object"),
        ('{"z": 1}', "f32", "E-LOAD-004", "x"),
        ('{"x": "one"}', "f32", "E-LOAD-003", 'line 2: x is no number or list of numbers: "one"'),
        ('{"x": null}', "f32", "E-LOAD-003", "line 2: x is no number or list of numbers: null"),
        ('{"x": [1, 2]}', "f32", "E-LOAD-003", "line 2: x has the shape [2], before it []"),
        ('{"x": [[1], [1, 2]]}', "f32", "E-LOAD-003", "line 2: x has lists of different lengths"),
        ('{"x": 1.5}', "i32", "E-LOAD-003", "line 2: x is no i32: 1.5"),
        ('{"x": 1' + "0" * 5000 + "}", "f32", "E-LOAD-003", None),
    ],
)
def test_a_bad_line_is_told_by_its_number(
    second: str, dtype: DType, code: str, actual: str | None, tmp_path: Path
) -> None:
    (tmp_path / "d.jsonl").write_text(f'{{"x": 1}}\n{second}\n', encoding="utf-8")
    found = refused(Jsonl("d.jsonl", ("x",), Declared(dtype=dtype)), tmp_path)
    assert found.code == code
    assert "line 2" in f"{found.message} {found.actual}"
    assert actual is None or found.actual == actual


def test_counted_numbers(tmp_path: Path) -> None:
    assert all_of(Arange(5), tmp_path).tolist() == [0, 1, 2, 3, 4]
    assert all_of(Arange(10, from_=0.5), tmp_path).tolist() == [5, 6, 7, 8, 9]
    assert all_of(Window(Arange(6), 3, stride=3), tmp_path).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert vocabulary_size(Arange(5), tmp_path) == 5


def test_cuts_stand_on_every_combinator(tmp_path: Path) -> None:
    ten = Arange(10)
    assert all_of(Take(ten, 2, from_=0.35), tmp_path).tolist() == [3, 4]
    assert all_of(Scale(ten, 2.0, from_=8), tmp_path).tolist() == [16, 18]
    assert all_of(Normalize(ten, "minmax", from_=0.5), tmp_path).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert all_of(Window(ten, 2, from_=7, to=1.0), tmp_path).tolist() == [[7, 8], [8, 9]]


def write_text(path: Path) -> None:
    path.write_text(TEXT, encoding="utf-8")


def write_npz(path: Path) -> None:
    with path.open("wb") as stream:
        np.savez(stream, a=np.arange(6.0).reshape(3, 2))


def write_npy(path: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, np.arange(6.0).reshape(3, 2))


def write_parquet(path: Path) -> None:
    parquet_file(path.parent, path.name)


KINDS: dict[str, tuple[Callable[[str], Source], Callable[[Path], object]]] = {
    "chars": (Chars, write_text),
    "lines": (lambda path: Lines(path, 9), write_text),
    "bytes": (Bytes, write_text),
    "tokens": (Tokens, lambda path: np.arange(7, dtype="<u2").tofile(path)),
    "npy": (Npy, write_npy),
    "npz": (lambda path: Npz(path, "a"), write_npz),
    "idx": (Idx, lambda path: path.write_bytes(b"\0\0\x08\x01\0\0\0\x03abc")),
    "csv": (lambda path: Csv(path, ("x",)), lambda path: path.write_text("x,y\n1,2\n3,4\n", encoding="utf-8")),
    "parquet": (lambda path: Parquet(path, ("vec",)), write_parquet),
    "jsonl": (lambda path: Jsonl(path, ("x",)), lambda path: path.write_text('{"x": 3}\n{"x": 4}', encoding="utf-8")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read_compressed_and_in_shards(kind: str, tmp_path: Path) -> None:
    make, write = KINDS[kind]
    write(tmp_path / "part-b")
    plain = all_of(make("part-b"), tmp_path)
    data = (tmp_path / "part-b").read_bytes()
    for suffix, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        (tmp_path / f"packed{suffix}").write_bytes(pack(data))
        assert all_of(make(f"packed{suffix}"), tmp_path).tolist() == plain.tolist()
        (tmp_path / f"cut{suffix}").write_bytes(pack(data)[:-9])
        found = refused(make(f"cut{suffix}"), tmp_path)
        assert found.code == "E-LOAD-003"
        assert f"cut{suffix}" in found.message
        (tmp_path / f"plain{suffix}").write_bytes(data)
        assert refused(make(f"plain{suffix}"), tmp_path).code == "E-LOAD-003"
    (tmp_path / "part-a.gz").write_bytes(gzip.compress(data))
    both = np.concatenate([plain, plain])
    assert all_of(make("part-*"), tmp_path).tolist() == both.tolist()
    (tmp_path / "part-c[1]").write_bytes(data)
    assert all_of(make("part-c[1]"), tmp_path).tolist() == plain.tolist()  # the very name comes first
    assert refused(make("shard-*"), tmp_path).code == "E-LOAD-001"
    found = refused(make("s3://bucket/part-*"), tmp_path)
    assert (found.code, found.actual) == ("E-LOAD-011", "s3://bucket/part-*")
    (tmp_path / "x.zst").write_bytes(data)
    found = refused(make("x.zst"), tmp_path)
    assert (found.code, found.help) == ("E-LOAD-002", "zstd -d unpacks it")


def test_shards_come_in_the_order_of_their_names_under_one_alphabet(tmp_path: Path) -> None:
    for name, text in (("b.txt", "ca"), ("a.txt", "bb"), ("a1.txt", "d")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert all_of(Chars("*.txt"), tmp_path).tolist() == [1, 1, 3, 2, 0]
    assert vocabulary_size(Chars("*.txt"), tmp_path) == 4
    assert all_of(Lines("*.txt", 2), tmp_path).tolist() == [[1, 1], [3, -1], [2, 0]]


def test_shards_that_do_not_belong_together(tmp_path: Path) -> None:
    np.save(tmp_path / "n-0.npy", np.zeros((2, 3)))
    np.save(tmp_path / "n-1.npy", np.zeros((2, 4)))
    found = refused(Npy("n-*.npy"), tmp_path)
    assert (found.code, found.actual) == ("E-LOAD-003", "its records are f64[4]")
    assert "n-1.npy" in found.message
    (tmp_path / "t-0.csv").write_text("1,2\n", encoding="utf-8")
    (tmp_path / "t-1.csv").write_text("1,2,3\n", encoding="utf-8")
    assert "t-1.csv" in refused(Csv("t-*.csv"), tmp_path).message
    parquet_file(tmp_path, "p-0.parquet")
    parquet_file(tmp_path, "p-1.parquet", vec=[[1.0]] * 7)
    assert "p-1.parquet" in refused(Parquet("p-*.parquet", ("vec",)), tmp_path).message


def test_a_vocabulary_that_nothing_tells(tmp_path: Path) -> None:
    np.arange(4, dtype="<u2").tofile(tmp_path / "t.bin")
    with pytest.raises(SxError) as caught:
        vocabulary_size(Tokens("t.bin"), tmp_path)
    assert (caught.value.diagnostic.code, caught.value.diagnostic.expected) == ("E-LOAD-005", ":vocab")
    with pytest.raises(SxError) as caught:
        record_count(Tokens("s3://bucket/t.bin"), tmp_path)
    assert caught.value.diagnostic.expected == ":count"


def test_numbers_are_counted_without_a_table_of_them(tmp_path: Path) -> None:
    reader = open_source(Arange(1 << 31), tmp_path)
    assert reader.count == 1 << 31
    assert reader.read(np.array([(1 << 31) - 1, 5])).tolist() == [(1 << 31) - 1, 5]


def test_a_file_without_a_byte_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(SxError) as caught:
        record_count(Bytes("empty"), tmp_path)
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == (
        "E-LOAD-006",
        "this bytes has no records",
    )
