"""SIGINT while a verb is being loaded: the process ends with 130 and a line that says so."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INTERRUPTED = "sexpgpu: interrupted\n"
CHILD = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {signal})

sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = {arguments!r}
from sexpgpu.__main__ import {program}
{program}()
"""


def interrupted(module: str, arguments: list[str], program: str = "main") -> subprocess.CompletedProcess[str]:
    """A process that gets SIGINT at the moment at which it begins to import `module`."""
    text = CHILD.format(module=module, signal=int(signal.SIGINT), arguments=arguments, program=program)
    return subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["sexpgpu.cli", "click", "attrs", "numpy", "mlir.ir", "sexpgpu.lang.session"])
def test_while_check_is_loaded(module: str) -> None:
    done = interrupted(module, ["check", "examples/moons.sx", "--variant", "smoke"])
    assert (done.returncode, done.stdout, done.stderr) == (130, "", INTERRUPTED)


@pytest.mark.parametrize(
    ("verb", "module"),
    [
        (["eval", "examples/moons.sx"], "numpy"),
        (["explain-code"], "sexpgpu.diag.catalogue"),
        (["fmt", "--check", "examples/moons.sx"], "sexpgpu.lang.reader"),
        (["lsp"], "pygls"),
        (["new", "never-written.sx", "--template", "gpt"], "sexpgpu.lang.selection"),
        (["run", "examples/moons.sx", "--out", "never-made"], "sexpgpu.runtime.run"),
        (["variants", "examples/moons.sx"], "sexpgpu.lang.session"),
        (["watch", "examples/moons.sx"], "watchdog"),
    ],
)
def test_while_a_verb_is_loaded(verb: list[str], module: str) -> None:
    done = interrupted(module, verb)
    assert (done.returncode, done.stderr) == (130, INTERRUPTED)
    assert not (ROOT / "never-written.sx").exists()
    assert not (ROOT / "never-made").exists()


def test_while_the_tool_is_loaded() -> None:
    done = interrupted("mlir", ["-", "--sx-simplify"], "opt")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", INTERRUPTED)
