"""Streams that fail, which is said in one line, not with a traceback; and text that they have no bytes for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sexpgpu.cli import guarded
from tests.cli.test_bad_input import refused, sexpgpu
from tests.trace.experiments import write

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("verb", ["check", "explain", "ir"])
def test_a_full_standard_output(verb: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sexpgpu", verb, str(write(tmp_path))]
    with FULL.open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert done.stderr == ("error[E-IO-106]: standard output cannot be written\n  actual:   No space left on device\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="the system refuses root no folder")
def test_a_folder_that_takes_no_trial_of_reduce(tmp_path: Path) -> None:
    file = write(tmp_path)
    tmp_path.chmod(0o500)
    try:
        done = sexpgpu("reduce", file, "--command", "true")
    finally:
        tmp_path.chmod(0o700)
    refused(done, "E-IO-106", 4)
    assert str(tmp_path) in done.stderr


def test_a_failed_write_names_the_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def failing() -> None:
        raise PermissionError(13, "Permission denied", "folder/trial.sx")

    monkeypatch.setattr("sys.argv", ["sexpgpu"])
    assert guarded(failing, "sexpgpu") == 4
    told = "error[E-IO-106]: folder/trial.sx cannot be written\n  actual:   Permission denied\n"
    assert capsys.readouterr().err == told


def test_a_reader_that_leaves_early(tmp_path: Path) -> None:
    command = f"{sys.executable} -m sexpgpu ir {write(tmp_path)} | head -c 10"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout) == 10


def test_an_output_file_that_cannot_be_written(tmp_path: Path) -> None:
    refused(sexpgpu("ir", write(tmp_path), "-o", tmp_path / "no" / "such" / "folder"), "E-IO-106", 4)


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("verb", ["check", "eval", "run"])
def test_closed_streams_swallow_what_is_written(verb: str, closed: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.sx"
    file.write_text("(car 3)\n", "utf-8")
    command = f"{sys.executable} -m sexpgpu {verb} {file} {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_value_without_end_is_one_error_among_the_others(tmp_path: Path) -> None:
    file = tmp_path / "circular.sx"
    file.write_text("(car 3)\n(let ((v (vector 1))) (setf (aref v 0) v) v)\n(+ 2 3)\n(cdr 4)\n", "utf-8")
    done = sexpgpu("eval", file, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["values"]) == (1, ["5"])
    places = [(d["code"], d["span"]["line"]) for d in document["diagnostics"]]
    assert sorted(places) == [("E-LIMIT-004", 2), ("E-TYPE-001", 1), ("E-TYPE-001", 4)]


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", '"\u03bb"'), ("latin-1", r'"\u03bb"')])
def test_what_the_encoding_lacks_is_printed_as_its_escape(encoding: str, shown: str, tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"\xff.sx")
    file.write_text('"\u03bb"\n(gone)\n', "utf-8")
    command = [sys.executable, "-m", "sexpgpu", "eval", str(file)]
    done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert done.stdout.decode(encoding).splitlines()[0] == shown
    assert (done.returncode, rb"\udcff.sx:2:2: error[E-NAME-002]" in done.stderr) == (1, True)


def test_a_value_of_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "a.sx"
    file.write_text('(defknobs (name "x"))\nname\n(code-char 55296)\n', "utf-8")
    assert sexpgpu("eval", file).stdout == 'defknobs\n"x"\nnil\n'
    for value in ("\udcff", '"\udcff"'):
        done = sexpgpu("eval", file, "--set", f"name={value}")
        assert (done.returncode, "E-KNOB-003" in done.stderr, "Traceback" in done.stderr) == (1, True, False)


@pytest.mark.parametrize(
    "verb",
    [
        "check --json",
        "run --steps 2",
        "explain --json",
        "passes --json",
        "ir --json",
        "check --sarif",
        "variants --json",
    ],
)
def test_a_file_whose_name_is_not_utf_8(verb: str, tmp_path: Path) -> None:
    """Its place goes through MLIR and into the run's records and comes back as it was."""
    file = tmp_path / os.fsdecode(b"digits\xff.sx")
    file.write_text((EXAMPLES / "digits.sx").read_text("utf-8").replace('"data/', f'"{EXAMPLES}/data/'), "utf-8")
    done = sexpgpu(*verb.split(), file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if verb.startswith("run"):
        (status,) = tmp_path.glob("runs/*/status.json")
        assert json.loads(status.read_text("utf-8"))["state"] == "finished"
    else:
        assert json.loads(done.stdout)
