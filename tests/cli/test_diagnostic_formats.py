"""Diagnostics for programs: `--json` as its published schema says, `--sarif` as SARIF 2.1.0 demands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import jsonschema
import pytest

import sexpgpu as package
from sexpgpu.diag.catalogue import ENTRIES
from tests.cli.test_bad_input import sexpgpu
from tests.trace.experiments import write

SCHEMA = json.loads((Path(package.__file__).parent / "diag" / "diagnostics.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

FAULTY = {
    "model": "(defmacro wrong (x) `(matmul ,x (zeros '(7 7))))\n(defmodel net () (defsub out (linear width 2))"
    " (forward (x) (wrong x) (out x)))",
    "objective": "(defun objective (logits labels) (mean (expp logits)))",
    "optimizer": "(def optimizer (sgd :lrr 0.1))",
    "knobs": "(defknobs (width 3) (unused 1))",
}


def faulty(folder: Path) -> Path:
    return write(folder, **FAULTY)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    right = {
        "code": "E-NAME-001", "severity": "error", "message": "m", "span": None, "expected": None, "actual": None,
        "help": None, "fix": [], "notes": [{"text": "t", "span": None}], "trail": [], "rendered": "r",
    }  # fmt: skip
    assert VALIDATOR.is_valid([right])
    for member, wrong in (("code", "E-1"), ("severity", "fatal"), ("span", {"file": "a"}), ("notes", None), ("x", 1)):
        assert not VALIDATOR.is_valid([{**right, member: wrong}]), member
        assert member == "x" or not VALIDATOR.is_valid([{k: v for k, v in right.items() if k != member}])


@pytest.mark.parametrize(
    "arguments",
    [("check",), ("explain",), ("eval",), ("variants",), ("run", "--quiet"), ("new", "copy.sx", "--from"), ("fmt",)],
    ids=lambda a: a[0],
)
def test_what_verbs_print_validates(arguments: tuple[str, ...], tmp_path: Path) -> None:
    file = faulty(tmp_path)
    if arguments[0] == "fmt":
        file.write_text("(def a (f)\n(def b)\n")
    done = sexpgpu(*arguments, file, "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    diagnostics = document["files"][0]["diagnostics"] if arguments[0] == "fmt" else document["diagnostics"]
    assert diagnostics
    VALIDATOR.validate(diagnostics)


def logged(file: Path | str, *arguments: str, code: int = 1, cwd: Path | None = None) -> Any:
    done = sexpgpu("check", file, "--sarif", *arguments, cwd=cwd)
    assert (done.returncode, done.stderr) == (code, "")
    return json.loads(done.stdout)


def uris(log: Any) -> list[str]:
    return [w["uri"] for r in log["runs"][0]["results"] for w in places(r, "artifactLocation")]


def places(result: Any, member: str) -> list[Any]:
    """A member of each physical location of a result, where it is there."""
    locations = [*result["locations"], *result.get("relatedLocations", [])]
    return [w["physicalLocation"][member] for w in locations if member in w["physicalLocation"]]


def test_a_sarif_log_has_the_structure_of_the_standard(tmp_path: Path) -> None:
    """§3.13 sarifLog, §3.14 run, §3.19 toolComponent, §3.49 descriptor, §3.27 result, §3.29-3.30 places, §3.55 fix."""
    log = logged(faulty(tmp_path))
    assert log.keys() == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("/sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    assert run.keys() == {"tool", "columnKind", "results"}
    assert run["columnKind"] in {"utf16CodeUnits", "unicodeCodePoints"}
    driver = run["tool"]["driver"]
    assert driver.keys() == {"name", "version", "rules"}
    assert (driver["name"], driver["version"]) == ("sexpgpu", package.__version__)
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids)) > 2
    for rule in driver["rules"]:
        assert rule.keys() - {"help"} == {"id", "shortDescription", "fullDescription", "defaultConfiguration"}
        assert rule["shortDescription"] == {"text": ENTRIES[rule["id"]].title}
        assert rule["defaultConfiguration"]["level"] == ("warning" if rule["id"][0] == "W" else "error")
    for result in run["results"]:
        assert result.keys() - {"relatedLocations", "fixes"} == {"ruleId", "ruleIndex", "level", "message", "locations"}
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in {"none", "note", "warning", "error"}
        assert isinstance(result["message"]["text"], str)
        assert len(result["locations"]) == 1
        for region in places(result, "region"):
            assert region.keys() == {"startLine", "startColumn", "endLine", "endColumn"}
            assert region["startLine"] >= 1
            assert region["startColumn"] >= 1
            assert (region["endLine"], region["endColumn"]) > (region["startLine"], region["startColumn"])
        for related in result.get("relatedLocations", []):
            assert related["message"]["text"]
        for fix in result.get("fixes", []):
            for change in fix["artifactChanges"]:
                assert change.keys() == {"artifactLocation", "replacements"}
                for replacement in change["replacements"]:
                    assert replacement.keys() == {"deletedRegion", "insertedContent"}
                    assert isinstance(replacement["insertedContent"]["text"], str)
    assert any("fixes" in result for result in run["results"])
    for uri in uris(log):
        assert re.fullmatch(r"[\w./:%~-]+", uri)
    assert {result["level"] for result in run["results"]} == {"error", "warning"}


def test_sarif_says_what_json_says(tmp_path: Path) -> None:
    file = faulty(tmp_path)
    results = logged(file)["runs"][0]["results"]
    diagnostics = json.loads(sexpgpu("check", file, "--json").stdout)["diagnostics"]
    assert len(results) == len(diagnostics)
    for result, told in zip(results, diagnostics, strict=True):
        assert (result["ruleId"], result["level"]) == (told["code"], told["severity"])
        assert result["message"]["text"].startswith(told["message"])
        assert told["help"] is None or f"help: {told['help']}" in result["message"]["text"]
        region, span = result["locations"][0]["physicalLocation"].get("region"), told["span"]
        assert (region is None) == (span is None)
        if span is not None:
            assert list(region.values()) == [span["line"], span["col"], span["end_line"], span["end_col"]]
        assert len(result.get("relatedLocations", [])) == sum(
            n["span"] is not None for n in told["notes"] + told["trail"]
        )
    trailed = [
        r for r in results if any("expansion of (wrong" in w["message"]["text"] for w in r.get("relatedLocations", []))
    ]
    assert [r["ruleId"] for r in trailed] == ["E-SHAPE-013"]


def test_places_are_uris_of_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "a folder ü"
    folder.mkdir()
    file = faulty(folder)
    absolute = [uri for uri in uris(logged(file)) if "experiment" in uri]
    assert {unquote(urlparse(uri).path) for uri in absolute} == {str(file)}
    assert all(uri.startswith("file:///") for uri in absolute)
    relative = uris(logged("a folder ü/experiment.sx", cwd=tmp_path))
    assert "a%20folder%20%C3%BC/experiment.sx" in relative


def test_a_fault_without_a_place_is_shown_at_the_file(tmp_path: Path) -> None:
    (result,) = logged("none.sx", cwd=tmp_path)["runs"][0]["results"]
    assert result["ruleId"] == "E-IO-101"
    assert result["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "none.sx"}}}]


def test_nothing_wrong_is_an_empty_log(tmp_path: Path) -> None:
    log = logged(write(tmp_path), code=0)
    assert log["runs"][0]["results"] == []
    assert log["runs"][0]["tool"]["driver"]["rules"] == []
    assert sexpgpu("check", write(tmp_path), "--sarif", "--json").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "verb"),
    [
        (("check", "--bogus"), "check"),
        (("run", "x.sx", "--steps", "many"), "run"),
        (("diff", "one.sx"), "diff"),
        (("explain-code", "E-GONE-001"), "explain-code"),
        (("chek", "x.sx"), None),
    ],
    ids=lambda a: a[0] if isinstance(a, tuple) else "",
)
def test_wrong_usage_is_a_document_too(arguments: tuple[str, ...], verb: str | None, tmp_path: Path) -> None:
    done = sexpgpu(*arguments, "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (done.returncode, document["verb"], document["ok"]) == (2, verb, False)
    assert [d["code"] for d in document["diagnostics"]] == ["E-USE-001"]
    VALIDATOR.validate(document["diagnostics"])
    assert document["diagnostics"][0]["message"] in done.stderr
