"""The file of what was measured: what it keeps of whose, when it is damaged, when several write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from sexpgpu.diag import Diagnostic
from sexpgpu.gpu.choices import Choices, key_of

WAYS = ("library", "kernels")
WRITER = """
import sys
from pathlib import Path
from sexpgpu.gpu.choices import Choices
for number in range(40):
    Choices(Path(sys.argv[1])).keep(f"{sys.argv[2]} {number}", {"1": 1.0, "2": 2.0})
"""


def test_what_one_run_measured_another_finds(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "choices.json"
    Choices(file).keep("key", {"library": 1.0, "kernels": 2.0})
    assert Choices(file).find("key", WAYS) == {"library": 1.0, "kernels": 2.0}
    assert Choices(file).find("key", ("1", "2")) is None, "other ways are another question"
    assert Choices(file).find("other", WAYS) is None
    file.unlink()
    assert Choices(file).find("key", WAYS) is None, "deleted, it is measured again"


def test_entries_of_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "choices.json"
    others = {"theirs": ["anything", {"else": None}], "key": {"library": -1, "kernels": "fast"}}
    file.write_text(json.dumps(others), "utf-8")
    choices = Choices(file)
    assert choices.find("key", WAYS) is None, "no times"
    choices.keep("key", {"library": 2.0, "kernels": 1.0})
    assert json.loads(file.read_text("utf-8")) == {**others, "key": {"library": 2.0, "kernels": 1.0}}


def test_a_damaged_file_is_told_once_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "choices.json"
    for damaged in ("{damaged", "[1, 2]", "\udcff", "[" * 100_000):
        file.write_bytes(damaged.encode("utf-8", "surrogateescape"))
        told: list[Diagnostic] = []
        choices = Choices(file, told.append)
        assert choices.find("key", WAYS) is None
        choices.keep("key", {"library": 2.0, "kernels": 1.0})
        assert [(each.code, each.severity) for each in told] == [("W-IO-003", "warning")]
        assert json.loads(file.read_text("utf-8")) == {"key": {"library": 2.0, "kernels": 1.0}}


def test_a_folder_that_cannot_be_written_keeps_times_for_the_run() -> None:
    choices = Choices(Path("/proc/none/choices.json"))
    choices.keep("key", {"1": 1.0})
    assert choices.find("key", ("1",)) == {"1": 1.0}
    choices = Choices()
    choices.keep("key", {"1": 1.0})
    assert choices.find("key", ("1",)) == {"1": 1.0}


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "choices.json"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), name]) for name in ("a", "b")]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert json.loads(file.read_text("utf-8")).keys() == {f"{name} {n}" for name in ("a", "b") for n in range(40)}


def test_keys_tell_texts_apart() -> None:
    assert key_of("a", "bc") != key_of("ab", "c")
    assert key_of("a") == key_of("a")
