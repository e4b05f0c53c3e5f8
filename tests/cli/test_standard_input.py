"""`-` as a file, and files that are none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sexpgpu.cli import cli
from tests.trace.experiments import text_of, write_data


def ask(*arguments: str, given: str | bytes = "") -> Result:
    return CliRunner().invoke(cli, list(arguments), input=given, standalone_mode=False)


def test_eval_and_check_and_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask("eval", "-", given="(+ 1 2)\n(list 'é)\n").stdout == "3\n(é)\n"
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)  # paths in the text count from where one is
    assert ask("check", "-", given=text_of()).stdout.startswith("-: ok, 2 parameters")
    wrong = ask("check", "-", given=text_of(instance="(def model (nte))"))
    assert "-:" in wrong.stderr
    assert "(def model (nte))" in wrong.stderr
    assert "width" in ask("variants", "-", given=text_of()).stdout
    assert ask("eval", "--where", "twice", "-", given="(defun twice (x) (* 2 x))").stdout.startswith("-:1:1: function")


def test_fmt() -> None:
    done = ask("fmt", "-", given="(def   x 1)\r\n; é\r\n")
    assert (done.stdout, done.return_value) == ("(def x 1)\n; é\n", 0)
    assert ask("fmt", "-", given="(def x 1)\n").stdout == "(def x 1)\n"
    checked = ask("fmt", "--check", "-", given="(def   x 1)\n")
    assert (checked.stdout, checked.return_value) == ("-:1: not in the layout\n", 1)
    torn = ask("fmt", "-", given="(def x")
    assert (torn.stdout, torn.return_value) == ("", 1)
    assert "[E-READ-001]" in torn.stderr
    (record,) = json.loads(ask("fmt", "-", "--json", given="(def   x 1)\n").stdout)["files"]
    assert (record["changed"], record["text"]) == (True, "(def x 1)\n")


def test_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = ask("new", "-", "--from", "-", "--set", "width=7", given=text_of())
    assert (done.stdout, done.return_value) == (text_of().replace("(width 3)", "(width 7)"), 0)
    assert ask("new", "-", "--template", "mlp").stdout.startswith(";;;")
    assert os.listdir(tmp_path) == [p.name for p in tmp_path.iterdir() if p.suffix == ".npy"]
    document = json.loads(ask("new", "-", "--template", "mlp", "--json").stdout)
    assert document["text"].startswith(";;;")


def test_watch_takes_none() -> None:
    assert "not standard input" in str(ask("watch", "-").exception)


@pytest.mark.parametrize("verb", [["fmt"], ["eval"], ["check"], ["new", "-", "--from"]])
def test_what_is_not_text(verb: list[str]) -> None:
    done = ask(*verb, "-", given=b"(def x \xff)")
    assert done.return_value == 1
    assert "is not UTF-8 text" in done.stderr


@pytest.mark.parametrize("verb", [["fmt"], ["eval"], ["check"], ["variants"], ["new", "-", "--from"]])
def test_what_is_no_file(verb: list[str], tmp_path: Path) -> None:
    """A pipe that nobody writes to would be waited for without end."""
    os.mkfifo(tmp_path / "pipe.sx")
    (tmp_path / "torn.sx").symlink_to("gone.sx")
    (tmp_path / "round.sx").symlink_to("round.sx")
    (tmp_path / "there.sx").write_text("(def x 1)\n")
    for name, code, says in (
        ("pipe.sx", "E-IO-102", "is no regular file"),
        ("torn.sx", "E-IO-101", "is a link to a file that is not there"),
        ("round.sx", "E-IO-104", "cannot be read"),
        ("their.sx", "E-IO-101", f"did you mean {tmp_path}/there.sx?"),
        ("zzz.sx", "E-IO-101", "there are there.sx"),
    ):
        done = ask(*verb, str(tmp_path / name))
        assert done.return_value == 1
        assert f"[{code}]" in done.stderr
        assert says in done.stderr


def test_fmt_keeps_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "file.sx", tmp_path / "link.sx"
    file.write_text("(def   x 1)\n")
    link.symlink_to("file.sx")
    assert ask("fmt", str(link), str(file)).stdout == f"{link}: laid out\n"
    assert link.is_symlink()
    assert file.read_text() == "(def x 1)\n"


def test_a_value_refused_is_not_shown_as_set(tmp_path: Path) -> None:
    file = tmp_path / "knobs.sx"
    file.write_text("(defknobs (width 3))\n(def twice (* 2 width))\n")
    done = ask("variants", str(file), "--set", "width=x")
    assert "[E-KNOB-003]" in done.stderr
    assert done.stdout == "knobs:\n  width  3  integer\n"
