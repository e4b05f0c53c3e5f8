"""The compiled library on disk: found, lacking or broken, nothing that a user sees tells."""

from __future__ import annotations

import hashlib
import marshal
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.diag import Diagnostics, render
from sexpgpu.driver.compile import compiling, evaluate, new_session
from sexpgpu.lang.active import activated
from sexpgpu.lang.functions import info_of_function
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.lang.shelf import MAGIC, Shelf, shelf_file

MODEL = """(require "sexpgpu/nn")
(defmodel net (n &key (act 'gelu))
  (defsub first (linear n 4))
  (defsub norm (layer-norm 4))
  (forward (x) (norm (first x))))
(def symbols (list (gensym) (gensym "A")))
(def model (net 3))
symbols
"""

FAULTS = [
    MODEL,
    '(require "sexpgpu/nn")\n(linear 3)',
    '(require "sexpgpu/nn")\n(linear 0 4)',
    '(require "sexpgpu/nn")\n(layer-norm 4 :epsilon 1)',
    '(require "sexpgpu/optim")\n(adamw :lr -1)\n(adamw :lr "x" :beta 2)',
    "(defmodel)\n(defmodel a)\n(defoptimizer a ())\n(defrun :step 4)",
    "(repeat (i 'a) i)\n(list (uniform 2 1))",
    "(mse 1)\n(cross-entropy '(1) '(2) :label-smoothing 2)",
    "(documentation 'defmodel 'function)\n(list #'normal (function-lambda-expression #'normal))",
    "(with-output-to-string)\n(with-gensyms 5 1)\n(once-only (a) a)",
    "(macroexpand-1 '(checkpoint (f x)))\n(handler-case (normal -1) (error (c) (princ-to-string c)))",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that SEXPGPU_CACHE names, not there yet."""
    monkeypatch.setenv("SEXPGPU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def seen(file: Path) -> tuple[list[str], list[str], int]:
    """What evaluating a file prints and reports, and the steps it leaves."""

    def work() -> tuple[list[str], list[str], int]:
        session, diagnostics, results = evaluate(file, Selection())
        told = [render(diagnostic, session.sources) for diagnostic in diagnostics]
        return [result.line for result in results], told, session.steps_left

    return run_deep(work)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each function of the library that was needed from now on, whether it was found."""
    found: list[bool] = []
    take = Shelf.take

    def watched(self: Shelf, *args: Any) -> Any:
        kept = take(self, *args)
        found.append(kept is not None)
        return kept

    monkeypatch.setattr(Shelf, "take", watched)
    return found


@pytest.mark.parametrize("text", FAULTS)
def test_what_is_found_and_what_is_made_are_the_same(text: str, tmp_path: Path, folder: Path) -> None:
    file = tmp_path / "main.sx"
    file.write_text(text, "utf-8")
    cold = seen(file)
    assert list(folder.glob("*.code")) or not cold
    with pytest.MonkeyPatch.context() as patch:
        found = counted(patch)
        assert seen(file) == cold
        assert all(found)
        patch.setenv("SEXPGPU_CACHE", "off")
        assert seen(file)[:2] == cold[:2]


def test_an_example_is_traced_the_same(root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled() -> tuple[str, int, int]:
        with compiling(root / "examples" / "moons.sx", Selection()) as done:
            assert done.ok
            return str(done.module), done.session.steps_left, len(done.diagnostics.records)

    cold = run_deep(compiled)
    found = counted(monkeypatch)
    assert run_deep(compiled) == cold
    assert len(found) > 5
    assert all(found)


def test_functions_are_described_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def described() -> list[Any]:
        session = new_session(Diagnostics())
        session.evaluate_text('(require "sexpgpu/optim")')
        with activated(session):
            cells = [c for c in session.module.functions.values() if c.defined]
            infos = [info_of_function(c.ref[0]) for c in cells]
            assert session.shelf is not None
            session.shelf.save()
        return [(i.name, i.label, i.parameters, i.span, i.doc) for i in infos if i is not None]

    cold = run_deep(described)
    found = counted(monkeypatch)
    assert run_deep(described) == cold
    assert len(cold) > 10
    assert found
    assert all(found)


class _Trap:
    """Unpickled without care, it would make a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._folder),)


@pytest.mark.parametrize("broken", ["empty", "cut", "flipped", "other", "no-table", "trap", "titles"])
def test_a_broken_file_counts_as_absent(
    broken: str, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "main.sx"
    file.write_text(MODEL, "utf-8")
    cold = seen(file)
    (entries,) = folder.glob("*.code")
    content = entries.read_bytes()
    table = marshal.loads(content[len(MAGIC) + 32 :])
    trap = pickle.dumps(_Trap(tmp_path / "trapped"))
    payload = {
        "no-table": marshal.dumps([1, 2]),
        "trap": marshal.dumps({title: (*cost, trap) for title, (*cost, _) in table.items()}),
        "titles": marshal.dumps({f"{title}0": entry for title, entry in table.items()}),
    }.get(broken, b"")
    flipped = bytearray(content)
    flipped[-9] ^= 1
    entries.write_bytes(
        {"empty": b"", "cut": content[:-7], "flipped": bytes(flipped), "other": b"#" + content}.get(
            broken, MAGIC + hashlib.sha256(payload).digest() + payload
        )
    )
    found = counted(monkeypatch)
    assert seen(file) == cold
    assert found
    assert not any(found)
    assert not (tmp_path / "trapped").exists()
    found.clear()
    assert seen(file) == cold  # it has been written again
    assert all(found)


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    monkeypatch.setenv("SEXPGPU_CACHE", str(blocked / "cache"))
    file = tmp_path / "main.sx"
    file.write_text(MODEL, "utf-8")
    first = seen(file)
    assert first[1] == []
    assert seen(file) == first


def test_a_changed_file_has_other_entries(tmp_path: Path) -> None:
    file = tmp_path / "code" / "a.sx"
    file.parent.mkdir()
    file.write_text("(defun f ())")
    before = shelf_file(tmp_path, [file.parent])
    assert shelf_file(tmp_path, [file.parent]) == before
    file.write_text("(defun f () 1)")
    assert shelf_file(tmp_path, [file.parent]) != before


def test_few_files_are_kept(folder: Path) -> None:
    folder.mkdir()
    for number in range(9):
        old = folder / f"{number}.code"
        old.write_bytes(b"old")
        os.utime(old, (number, number))
    session = new_session(Diagnostics())
    session.evaluate_text("(repeat 2 1)")
    assert session.shelf is not None
    session.shelf.save()
    kept = {path.stem for path in folder.glob("*.code")}
    assert {"8", "7", "6"} < kept
    assert len(kept) == 4
