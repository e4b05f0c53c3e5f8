"""`sexpgpu fmt`: what it writes, what it says, and what it leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_bad_input import refused, sexpgpu

UGLY = "(def a 1)\n\n\n(defun  f (x)\n      (+ x a))   ; c\n"
NEAT = "(def a 1)\n\n(defun f (x)\n  (+ x a))" + " " * 45 + "; c\n"


def test_it_writes_what_changes_and_names_it(tmp_path: Path) -> None:
    ugly, neat = tmp_path / "ugly.sx", tmp_path / "neat.sx"
    ugly.write_text(UGLY)
    neat.write_text(NEAT)
    ugly.chmod(0o640)
    before = neat.stat().st_mtime_ns
    done = sexpgpu("fmt", ugly, neat)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{ugly}: laid out\n", "")
    assert ugly.read_text() == NEAT
    assert ugly.stat().st_mode & 0o777 == 0o640
    assert neat.stat().st_mtime_ns == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["neat.sx", "ugly.sx"]


def test_check_writes_nothing_and_names_the_first_line(tmp_path: Path) -> None:
    ugly, neat = tmp_path / "ugly.sx", tmp_path / "neat.sx"
    ugly.write_text(UGLY)
    neat.write_text(NEAT)
    done = sexpgpu("fmt", ugly, neat, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (1, f"{ugly}:3: not in the layout\n", "")
    assert ugly.read_text() == UGLY
    assert sexpgpu("fmt", neat, "--check").returncode == 0
    document = json.loads(sexpgpu("fmt", ugly, neat, "--check", "--json").stdout)
    assert (document["schema"], document["verb"], document["ok"]) == (1, "fmt", False)
    assert [(f["file"], f["changed"], f["first_line"]) for f in document["files"]] == [
        (str(ugly), True, 3),
        (str(neat), False, None),
    ]


def test_line_ends_and_a_last_line_without_one(tmp_path: Path) -> None:
    file = tmp_path / "dos.sx"
    file.write_bytes(b'\xef\xbb\xbf(def a "x\r\ny")\r\n(def b 2)')
    assert sexpgpu("fmt", file).returncode == 0
    assert file.read_bytes() == b'(def a "x\ny")\n(def b 2)\n'


def test_a_file_that_does_not_read_is_left_alone_and_the_others_are_done(tmp_path: Path) -> None:
    torn, ugly = tmp_path / "torn.sx", tmp_path / "ugly.sx"
    torn.write_text("(def   a (f 1)\n(def b 2)\n")
    ugly.write_text(UGLY)
    done = sexpgpu("fmt", torn, ugly)
    assert done.returncode == 1
    assert done.stdout == f"{ugly}: laid out\n"
    assert f"{torn}:1:1: error[E-READ-001]" in done.stderr
    assert torn.read_text() == "(def   a (f 1)\n(def b 2)\n"
    assert ugly.read_text() == NEAT


def test_what_is_no_file(tmp_path: Path) -> None:
    refused(sexpgpu("fmt", tmp_path), "E-IO-102")
    refused(sexpgpu("fmt", tmp_path / "none.sx"), "E-IO-101")
    noise = tmp_path / "noise.sx"
    noise.write_bytes(b"\xff\xfe(")
    refused(sexpgpu("fmt", noise), "E-IO-103")
    assert sexpgpu("fmt").returncode == 2


def test_a_file_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sexpgpu.diag import SxError
    from sexpgpu.driver import entry

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "ugly.sx"
    file.write_text(UGLY)
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(SxError, match="E-IO-106"):
        entry.write_whole(file, NEAT)
    assert [p.name for p in tmp_path.iterdir()] == ["ugly.sx"]
    assert file.read_text() == UGLY
    with pytest.raises(SxError, match="E-IO-107"):
        entry.write_whole(file, NEAT, new=True)
    assert file.read_text() == UGLY
    with pytest.raises(SxError, match="E-IO-106"):
        entry.write_whole(tmp_path / "none" / "new.sx", NEAT, new=True)
