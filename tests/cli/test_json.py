"""`--json` of every verb is JSON that every reader takes, whatever the numbers are."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click
import pytest
from attrs import evolve

from sexpgpu.cli import VERBS, cli
from sexpgpu.diag.strict import json_text
from sexpgpu.driver.document import document_text
from tests.cli.test_bad_input import sexpgpu
from tests.cli.test_watch import watching
from tests.trace.experiments import compiled, text_of, write

BROKEN = text_of(objective="(defun objective (logits labels) logits)")
DIVERGING = {"optimizer": "(def optimizer (sgd :lr 1e300))", "run": "(defrun :steps 9 :seed 1)"}
ARGUMENTS: dict[str, list[str]] = {
    "check": ["experiment.sx"],
    "diff": ["experiment.sx", "experiment.sx", "--set", "width=4"],
    "doctor": [],
    "eval": ["experiment.sx"],
    "explain": ["experiment.sx", "--device", "cpu"],
    "explain-code": ["E-MEM-001"],
    "fmt": ["experiment.sx"],
    "generate": ["run"],
    "ir": ["experiment.sx"],
    "new": ["other.sx", "--from", "experiment.sx"],
    "passes": ["experiment.sx"],
    "reduce": ["broken.sx", "--code", "E-SHAPE-020", "--seconds", "1"],
    "run": ["experiment.sx", "--out", "run"],
    "variants": ["experiment.sx"],
}
"""Verbs that answer once. What `run` meets here has no finite loss."""


def strictly(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("json")
    write(found, **DIVERGING)
    (found / "broken.sx").write_text(BROKEN, "utf-8")
    return found


def test_the_list_has_every_verb_with_the_option() -> None:
    context = click.Context(cli)
    found = set()
    for verb in VERBS:
        command = cli.get_command(context, verb)
        assert command is not None
        if any("--json" in option.opts for option in command.params):
            found.add(verb)
    assert found == {*ARGUMENTS, "watch"}


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_a_verb_prints_strict_json(verb: str, folder: Path) -> None:
    done = sexpgpu(verb, *ARGUMENTS[verb], "--json", cwd=folder)
    assert "Traceback" not in done.stderr
    assert strictly(done.stdout)["schema"] == 1


def test_what_a_run_diverged_to_is_in_it(folder: Path) -> None:
    done = sexpgpu("run", "experiment.sx", "--out", "diverged", "--json", cwd=folder)
    told = strictly(done.stdout)["diagnostics"]
    assert "E-NUM-001" in [each["code"] for each in told]


def test_watch_prints_strict_json(folder: Path) -> None:
    with watching("experiment.sx", "--json", cwd=folder) as watch:
        assert strictly(watch.verdict())["verb"] == "watch"


def test_sarif_is_strict_json(folder: Path) -> None:
    assert strictly(sexpgpu("check", "broken.sx", "--sarif", cwd=folder).stdout)["version"] == "2.1.0"


def test_the_document_has_strings_for_what_is_not_finite(tmp_path: Path) -> None:
    with compiled(write(tmp_path)) as done:
        assert done.experiment is not None
        groups = (evolve(done.experiment.groups[0], constants=(math.inf, -math.inf, math.nan)),)
        done.experiment = evolve(done.experiment, groups=groups)
        document = strictly(document_text(done))
    assert document["groups"][0]["constants"] == ["Infinity", "-Infinity", "NaN"]


def test_numbers_that_are_not_finite_are_strings_at_any_depth() -> None:
    text = json_text({"a": [math.nan, {"b": (math.inf,)}], "c": 1.5}, indent=1)
    assert strictly(text) == {"a": ["NaN", {"b": ["Infinity"]}], "c": 1.5}
