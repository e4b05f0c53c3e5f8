"""`sexpgpu variants`: what a file declares, also by macros, and what a selection makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.test_bad_input import refused, sexpgpu

FILE = """\
(defknobs
  (width 8) (act :relu :choices (:relu :gelu)) (name "x" :doc "of the run") (twice (* 2 width)) (any nil)
  (share 0.5 :type (real 0 1)))
(defvariant wide (width 64) (act :gelu))
(defmacro ablations (&rest names)
  `(progn ,@(loop for n in names collect `(defvariant ,(intern (format nil "no-~a" n)) (,n 0)))))
(ablations width share)
(defsweep grid (width 1 2) (:zip (act :relu :gelu) (share 0.1 0.2)))
(list width act name twice any share)
"""


def listed(file: Path, *arguments: str) -> Any:
    document = json.loads(sexpgpu("variants", file, "--json", *arguments).stdout)
    assert (document["schema"], document["verb"], document["file"]) == (1, "variants", str(file))
    return document


def test_declarations(tmp_path: Path) -> None:
    file = tmp_path / "a.sx"
    file.write_text(FILE)
    document = listed(file)
    knobs = {knob["name"]: knob for knob in document["knobs"]}
    assert list(knobs) == ["width", "act", "name", "twice", "any", "share"]
    assert {n: k["default"] for n, k in knobs.items()} == {
        "width": "8", "act": ":relu", "name": '"x"', "twice": "16", "any": "nil", "share": "0.5",
    }  # fmt: skip
    assert [knobs[n]["type"] for n in ("width", "act", "name", "any", "share")] == [
        "integer", None, "string", None, "(real 0 1)",
    ]  # fmt: skip
    assert knobs["act"]["choices"] == [":relu", ":gelu"]
    assert knobs["name"]["doc"] == "of the run"
    assert {v["name"]: v["changes"] for v in document["variants"]} == {
        "wide": {"width": "64", "act": ":gelu"},
        "no-width": {"width": "0"},
        "no-share": {"share": "0"},
    }
    (grid,) = document["sweeps"]
    assert grid["points"] == [
        {"width": w, "act": a, "share": s} for w in ("1", "2") for a, s in ((":relu", "0.1"), (":gelu", "0.2"))
    ]
    assert document["ok"] is True


def test_a_selection_shows_its_values(tmp_path: Path) -> None:
    file = tmp_path / "a.sx"
    file.write_text(FILE)
    knobs = {
        k["name"]: (k["value"], k["source"]) for k in listed(file, "--variant", "wide", "--set", "name=y")["knobs"]
    }
    assert knobs["width"] == ("64", "variant")
    assert knobs["twice"] == ("128", "default")
    assert knobs["name"] == ('"y"', "set")
    done = sexpgpu("variants", file, "--variant", "no-width")
    assert "  width  8 -> 0 (variant)  integer\n" in done.stdout
    assert "  grid  4 points\n    0  width 1  act :relu  share 0.1\n" in done.stdout
    refused(sexpgpu("variants", file, "--variant", "wid"), "E-KNOB-002")


def test_a_file_without_any(tmp_path: Path) -> None:
    file = tmp_path / "a.sx"
    file.write_text("(+ 1 2)\n")
    assert sexpgpu("variants", file).stdout == "no knobs, variants or sweeps\n"


def test_a_file_with_mistakes_lists_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "a.sx"
    file.write_text("(defknobs (a 1))\n(defvariant v (b 2))\n(defvariant w (a 2))\n(print a)\n")
    done = sexpgpu("variants", file)
    assert done.returncode == 1
    assert f"{file}:2:16: error[E-KNOB-001]" in done.stderr
    assert "  w  a 1 -> 2\n" in done.stdout
    assert " v " not in done.stdout


def test_a_sweep_too_large_to_be_meant(tmp_path: Path) -> None:
    file = tmp_path / "a.sx"
    axes = " ".join(f"(k{i} {' '.join(map(str, range(10)))})" for i in range(9))
    file.write_text(f"(defknobs {' '.join(f'(k{i} 0)' for i in range(9))})\n(defsweep all {axes})\n")
    done = sexpgpu("variants", file)
    assert done.returncode == 1
    assert "[E-LIMIT-003]" in done.stderr
