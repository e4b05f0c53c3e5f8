"""Streams that fail: a full standard output is said in one line, not with a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_bad_input import refused, sexpgpu
from tests.trace.experiments import write

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("verb", ["check", "explain", "ir"])
def test_a_full_standard_output(verb: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sexpgpu", verb, str(write(tmp_path))]
    with FULL.open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


def test_a_reader_that_leaves_early(tmp_path: Path) -> None:
    command = f"{sys.executable} -m sexpgpu ir {write(tmp_path)} | head -c 10"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout) == 10


def test_an_output_file_that_cannot_be_written(tmp_path: Path) -> None:
    refused(sexpgpu("ir", write(tmp_path), "-o", tmp_path / "no" / "such" / "folder"), "E-IO-106", 4)
