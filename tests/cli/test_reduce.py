"""`reduce`: the smallest file that still fails in the same way, the same one each time, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sexpgpu.driver.reduce import reduce_text
from tests.cli.test_bad_input import refused, sexpgpu
from tests.trace.experiments import text_of, write


def silent(tried: int, best: str) -> None:
    assert best
    assert tried


def test_what_a_text_needs_is_what_is_left() -> None:
    text = text_of()
    seen: list[str] = []

    def needs(candidate: str) -> bool:
        seen.append(candidate)
        return re.search(r"\(linear\s+width\b", candidate) is not None

    done = reduce_text(text, needs, 60, silent)
    assert done.text.strip() == "(linear width)"
    assert done.complete
    assert done.tried == len(seen) == len(set(seen))
    again: list[str] = []
    first, seen = seen, again
    assert reduce_text(text, needs, 60, silent) == done
    assert again == first


def test_numbers_are_lowered_and_arguments_stand_for_forms() -> None:
    done = reduce_text("(f (g 128 0.125))\n", lambda t: bool(re.search(r"[1-9]", t)), 60, silent)
    assert done.text == "1.0\n"
    nested = reduce_text("(a (b (c (keep))))\n", lambda t: "(keep)" in t, 60, silent)
    assert nested.text == "(keep)\n"


def test_comments_strings_and_quotes_are_forms_like_others() -> None:
    text = ";; one\n(def a '(1 . 2)) ; two\n#| three |# (def b \"x ; y\" #'car)\n"
    done = reduce_text(text, lambda t: '"x ; y"' in t, 60, silent)
    assert done.text == '"x ; y"\n'


def test_a_text_that_does_not_read_is_reduced_by_lines_and_words() -> None:
    done = reduce_text("(def a 1)\n(def b (car c)\n(def d 2)\n", lambda t: t.count("(") > t.count(")"), 60, silent)
    assert done.text.strip() in ("(def", "(car")


def test_the_time_bounds_the_search() -> None:
    done = reduce_text(text_of(), lambda _: True, 0, silent)
    assert not done.complete
    assert done.tried <= 1  # the layout of what there is


def test_a_code_is_kept(tmp_path: Path) -> None:
    file = write(tmp_path, data='(def xs (npy "x.npy")) (def ys (npy "y.npy" :shpe 3))')
    small = tmp_path / "small.sx"
    done = sexpgpu("reduce", file, "--code", "E-ARG-002", "-o", small)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert re.search(r"\d+ -> \d+ characters, \d+ tried in [\d.]+ s; nothing smaller was found", done.stderr)
    assert len(small.read_text("utf-8")) < 30
    checked = sexpgpu("check", small)
    assert "[E-ARG-002]" in checked.stderr


def test_what_is_told_as_json(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text('(require "sexpgpu/nn")\n(def a (car 5))\n', "utf-8")
    done = sexpgpu("reduce", file, "--code", "E-TYPE-001", "--json")
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert (document["verb"], document["ok"], document["complete"]) == ("reduce", True, True)
    assert document["text"] == "(car 0)\n"
    assert document["characters"] == {"before": 39, "after": 8}


@pytest.mark.slow
def test_an_internal_error_is_kept(tmp_path: Path) -> None:
    """A pass that fails on every graph with a softmax: what is left has one, and leaves no reproducers."""
    file = write(tmp_path, model=SOFTMAX)
    command = [sys.executable, "-c", FAILING, "reduce", str(file), "--internal", "--quiet", "--seconds", "300"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "softmax" in done.stdout
    assert len(done.stdout) < len(file.read_text("utf-8")) * 0.8
    assert not list(tmp_path.glob("sexpgpu-reproducer-*"))
    small = tmp_path / "small.sx"
    small.write_text(done.stdout, "utf-8")
    command = [sys.executable, "-c", FAILING, "explain", str(small)]
    again = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert again.returncode == 70
    assert "KeyError" in again.stderr


SOFTMAX = "(defmodel net () (defsub out (linear width 2)) (forward (x) (softmax (out (relu (tanh x))))))"
FAILING = """
from sexpgpu.passes.step_sums import StepSums

def run(self, module, context):
    if "sx.softmax" in str(module):
        raise KeyError("softmax")

StepSums.run = run
from sexpgpu.__main__ import main
main()
"""


def test_that_a_command_succeeds_is_kept(tmp_path: Path) -> None:
    file = write(tmp_path)
    done = sexpgpu("reduce", file, "--command", "grep -q cross-entropy {} && grep -q metric {}", "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() in (["(cross-entropy", "metric)"], ["(metric", "cross-entropy)"])
    assert not list(tmp_path.glob(".*"))
    without = sexpgpu("reduce", file, "--command", "test -s", "--quiet", "--seconds", "30")
    assert len(without.stdout.strip()) <= 2


def test_a_command_that_does_not_end_has_failed(tmp_path: Path) -> None:
    if shutil.which("sleep") is None:
        pytest.skip("needs sleep")
    done = sexpgpu("reduce", write(tmp_path), "--command", "sleep 60; true", "--each", "0.2", "--quiet")
    refused(done, "E-REDUCE-002")


def test_what_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path)
    done = sexpgpu("reduce", file, "--code", "E-SHPE-010")
    refused(done, "E-REDUCE-001")
    assert "`E-SHAPE-010`" in done.stderr
    refused(sexpgpu("reduce", file, "--code", "E-SHAPE-010"), "E-REDUCE-002")
    refused(sexpgpu("reduce", file, "--internal"), "E-REDUCE-002")
    refused(sexpgpu("reduce", file, "--command", "false"), "E-REDUCE-002")
    refused(sexpgpu("reduce", tmp_path / "gone.sx", "--internal"), "E-IO-101")
    for flags in ([], ["--internal", "--code", "E-SHAPE-010"]):
        assert sexpgpu("reduce", file, *flags).returncode == 2
