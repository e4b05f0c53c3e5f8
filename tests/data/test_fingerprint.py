"""Which files decide the records of a source."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sexpgpu.data.fingerprint import Fingerprint, fingerprint, used_files
from sexpgpu.data.source import Arange, Bpe, ByStep, Concat, Csv, FieldSource, Normalize, Window


def test_every_file_of_a_source(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "t.txt"):
        (tmp_path / name).write_text(name, encoding="utf-8")

    def names(source: FieldSource) -> list[str]:
        return [path.name for path in used_files(source, tmp_path)]

    assert names(Csv("*.csv")) == ["a.csv", "b.csv"]
    assert names(Window(Bpe("t.txt", "tokenizer.json"), 4)) == ["t.txt", "tokenizer.json"]
    assert names(ByStep(Normalize(Csv("b.csv"), "minmax", fit=Csv("a.csv")))) == ["b.csv", "a.csv"]
    assert names(Concat((Csv("b.csv"), Arange(3), Csv("a.csv")))) == ["b.csv", "a.csv"]


def test_a_fingerprint_is_of_all_files_on_end(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_text(path.name * 3)
    assert fingerprint(paths) == Fingerprint(6, hashlib.sha256(b"aaabbb").hexdigest())
