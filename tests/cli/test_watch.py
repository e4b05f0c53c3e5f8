"""`sexpgpu watch` in a process of its own: every way an editor saves, and how it ends."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.test_bad_input import refused
from tests.trace.experiments import text_of, write

SECONDS = 30.0
WRONG = text_of(objective="(defun objective (logits labels) logits)")


class Watching:
    """A running `watch` and the lines it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self.lines.put(line.rstrip("\n"))

    def verdict(self) -> str:
        """The next line."""
        return self.lines.get(timeout=SECONDS)

    def document(self) -> Any:
        return json.loads(self.verdict())

    def quiet(self, seconds: float = 0.7) -> bool:
        """Whether nothing is printed for some time."""
        time.sleep(seconds)
        return self.lines.empty()


@contextmanager
def watching(*arguments: str | Path, cwd: Path | None = None) -> Iterator[Watching]:
    command = [sys.executable, "-m", "sexpgpu", "watch", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd) as process:
        try:
            yield Watching(process)
        finally:
            process.kill()


def replace(file: Path, text: str) -> None:
    """Save as many editors do: another file, renamed."""
    other = file.with_name(f".{file.name}.swp")
    other.write_text(text)
    os.replace(other, file)


def test_saves_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path)
    with watching(file) as watch:
        assert watch.verdict().startswith(f"{file}: ok, 2 parameters, 8 elements, 6 graphs (")
        file.write_text(WRONG)
        assert watch.verdict().startswith(f"{file}: 1 error (")
        replace(file, text_of())
        assert ": ok, " in watch.verdict()
        replace(file, WRONG)
        assert ": 1 error (" in watch.verdict()
        file.unlink()
        assert ": 1 error (" in watch.verdict()
        file.write_text(text_of())
        assert ": ok, " in watch.verdict()
        (tmp_path / "other.sx").write_text("(")
        os.utime(tmp_path / "x.npy")
        assert watch.quiet()
        watch.process.send_signal(signal.SIGINT)
        assert watch.process.wait(timeout=SECONDS) == 130
        assert watch.process.stderr is not None
        told = watch.process.stderr.read()
    assert told.count("[E-SHAPE-020]") == 2
    assert told.count("[E-IO-101]") == 1
    assert "Traceback" not in told


def test_sigint_while_it_checks(tmp_path: Path) -> None:
    file = write(tmp_path)
    with watching(file) as watch:
        watch.verdict()
        file.write_text(WRONG)
        time.sleep(0.05)
        watch.process.send_signal(signal.SIGINT)
        assert watch.process.wait(timeout=SECONDS) == 130
        assert watch.process.stderr is not None
        assert "Traceback" not in watch.process.stderr.read()


def test_rapid_saves_are_one(tmp_path: Path) -> None:
    file = write(tmp_path)
    with watching(file, "--json") as watch:
        assert watch.document()["ok"] is True
        for number in range(5):
            file.write_text(WRONG + f"; {number}\n")
            time.sleep(0.005)
        replace(file, text_of(run="(defrun :steps 3 :seed 1)"))
        document = watch.document()
        assert (document["schema"], document["verb"], document["ok"]) == (1, "watch", True)
        assert document["graphs"] == sorted(document["graphs"])
        assert watch.quiet()


def test_required_files_count(tmp_path: Path) -> None:
    file = write(tmp_path, require='(require "./parts/blocks.sx") (require "sexpgpu/optim")', model="")
    module = tmp_path / "parts" / "blocks.sx"
    text = '(require "sexpgpu/nn")\n(defmodel net () (defsub out (linear 3 2)) (forward (x) (out x)))\n'
    with watching(file.name, "--json", cwd=tmp_path) as watch:
        assert "E-MOD-001" in {d["code"] for d in watch.document()["diagnostics"]}
        module.parent.mkdir()
        module.write_text(text)
        assert watch.document()["ok"] is True
        module.write_text(text.replace("linear 3", "linear 4"))
        wrong = watch.document()
        assert [d["code"] for d in wrong["diagnostics"] if d["severity"] == "error"] == ["E-SHAPE-013"]
        module.write_text(text)
        assert watch.document()["ok"] is True


def test_a_selection(tmp_path: Path) -> None:
    with watching(write(tmp_path), "--set", "width=4", "--json") as watch:
        assert {d["code"] for d in watch.document()["diagnostics"]} == {"E-SHAPE-013"}


@pytest.mark.parametrize(("verb", "package"), [("watch", "watchdog"), ("lsp", "pygls")])
def test_a_missing_package(verb: str, package: str, tmp_path: Path) -> None:
    arguments = [verb, str(write(tmp_path))] if verb == "watch" else [verb]
    script = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv = ['sexpgpu', *{arguments!r}]\n"
        "from sexpgpu.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    refused(done, "E-DEV-010", 3)
    assert f"pip install 'sexpgpu[{verb}]'" in done.stderr
