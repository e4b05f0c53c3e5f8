"""Environment variables: precedence, refusal of what means nothing, and that the environment is read here only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sexpgpu import knobs
from sexpgpu.diag import SxError

ROOT = Path(__file__).resolve().parents[1]
NO_SIZES = (
    "nan",
    "inf",
    "1e400",
    "1e309GiB",
    "9999999999999999999GiB",
    "1025TiB",
    "64kb",
    "0.5",
    "-1",
    "8 gigs",
    "1e-3",
)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for knob in knobs.KNOBS:
        monkeypatch.delenv(knob.name, raising=False)


def test_a_flag_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert knobs.THREADS.read() == knobs.Setting(None, "default")
    monkeypatch.setenv("SEXPGPU_THREADS", "3")
    assert knobs.THREADS.read() == knobs.Setting(3, "environment")
    assert knobs.THREADS.read(1) == knobs.Setting(1, "flag")
    monkeypatch.setenv("SEXPGPU_THREADS", "")
    assert knobs.THREADS.read().source == "default"


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("SEXPGPU_DEVICE", "gpu"),
        ("SEXPGPU_THREADS", "0"),
        ("SEXPGPU_VERIFY", "yes"),
        ("SEXPGPU_THREADS", "many"),
        ("SEXPGPU_EXPLAIN", "everything"),
        *[("SEXPGPU_MEMORY", size) for size in NO_SIZES],
    ],
)
def test_what_means_nothing_is_refused(name: str, bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, bad)
    knob = next(knob for knob in knobs.KNOBS if knob.name == name)
    with pytest.raises(SxError) as caught:
        knob.read()
    assert caught.value.diagnostic.code == "E-DEV-001"
    assert caught.value.diagnostic.expected == knob.takes
    assert caught.value.diagnostic.actual == bad
    with pytest.raises(SxError):
        knobs.require_sound()


def test_values_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXPGPU_DUMP", "there")
    monkeypatch.setenv("SEXPGPU_THREADS", "2")
    monkeypatch.setenv("SEXPGPU_VERIFY", "1")
    monkeypatch.setenv("NO_COLOR", "0")
    assert knobs.DUMP.get() == Path("there")
    assert knobs.THREADS.get() == 2
    assert knobs.VERIFY.get() is True
    assert knobs.NO_COLOR.get() is True  # that convention asks only whether it is set


def test_misspelt_variables_are_found() -> None:
    found = knobs.unknown(["SEXPGPU_DEVISE", "SEXPGPU_THREADS", "PATH", "SEXPGPU_XYZZY"])
    assert found == [("SEXPGPU_DEVISE", "SEXPGPU_DEVICE"), ("SEXPGPU_XYZZY", None)]


def test_nothing_else_reads_the_environment() -> None:
    files = [path for folder in ("sexpgpu", "dialects", "passes") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 20
    readers = [path.name for path in files if re.search(r"os\.environ|getenv", path.read_text(encoding="utf-8"))]
    assert set(readers) == {"knobs.py"}


def test_what_an_error_shows_of_a_long_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXPGPU_THREADS", "7" * 5000)
    with pytest.raises(SxError) as caught:
        knobs.THREADS.read()
    assert caught.value.diagnostic.actual == "7" * 60 + "... (5000 characters)"
    assert caught.value.diagnostic.expected == "a count from 1 to 4096"
