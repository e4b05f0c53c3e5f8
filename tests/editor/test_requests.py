"""What an editor asks about a place in a text: local names, modules, calls, fixes, the outline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.editor.client import Client
from tests.trace.experiments import text_of, write_data

MODULE = (
    '(require "sexpgpu/nn")\n'
    '(defmodel layer (in &key (out 2)) "A layer." (defsub inner (linear in out)) (forward (x) (inner x)))\n'
)
USING = {
    "require": '(require "./blocks.sx") (require "sexpgpu/optim")',
    "model": "",
    "instance": "(def model (layer width))",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    made = Client(tmp_path_factory.mktemp("workspace"))
    yield made
    assert made.close() == 0


def whole(text: str) -> list[dict[str, Any]]:
    return [{"text": text}]


def markdown(answer: Any) -> str:
    return "" if answer is None else str(answer["contents"]["value"])


def test_what_the_server_can(client: Client) -> None:
    can = client.capabilities["capabilities"]
    assert can["codeActionProvider"]["codeActionKinds"] == ["quickfix"]
    assert can["documentSymbolProvider"]
    assert can["signatureHelpProvider"]["triggerCharacters"] == [" "]


def test_definitions_of_local_names(client: Client, tmp_path: Path) -> None:
    write_data(tmp_path)
    file = tmp_path / "local.sx"
    text = text_of(
        objective="(defmacro twice (form) `(* 2 ,form))\n"
        "(defun objective (logits labels)\n"
        "  (let ((whole (cross-entropy logits labels)))\n"
        "    (flet ((half (y) (/ y 2.0)))\n"
        "      (half (twice whole)))))"
    )
    assert client.open(file, text) == []

    def go(mark: str, further: int = 0) -> str:
        found = client.at("definition", file, text, mark, further)
        start = found["range"]["start"]
        return str(text.splitlines()[start["line"]][start["character"] :])

    assert go("whole)))))").startswith("whole (cross-entropy")
    assert go("half (twice").startswith("half (y)")
    assert go("y 2.0").startswith("y) (/ y")
    assert go("twice whole").startswith("(defmacro twice")
    assert go("logits labels)))").startswith("logits labels)")
    assert "f32[]" in markdown(client.at("hover", file, text, "y 2.0"))
    assert "(let ((whole" not in markdown(client.at("hover", file, text, "logits labels)))"))


def test_a_required_module_is_a_link(client: Client, tmp_path: Path) -> None:
    write_data(tmp_path)
    entry = tmp_path / "experiment.sx"
    (tmp_path / "blocks.sx").write_text(MODULE)
    text = text_of(**USING)
    client.open(entry, text)
    found = client.at("definition", entry, text, '"./blocks.sx"', 3)
    assert found["uri"] == (tmp_path / "blocks.sx").as_uri()
    found = client.at("definition", entry, text, '"sexpgpu/optim"', 3)
    assert Path(found["uri"].removeprefix("file://")).name == "optim.sx"
    assert client.at("definition", entry, text, '"x.npy"', 2) is None


def test_types_in_a_required_module(client: Client, tmp_path: Path) -> None:
    """A module's forms have types where an open experiment that requires it was traced, opened before or after it."""
    write_data(tmp_path)
    module, entry = tmp_path / "blocks.sx", tmp_path / "experiment.sx"
    module.write_text(MODULE)
    assert client.open(entry, text_of(**USING)) == []
    client.drain(1.0)  # a process that holds the module, compiled without an observer, may stand ready now
    assert client.open(module, MODULE) == []
    client.change(entry, whole(text_of(**USING) + "\n"))
    assert markdown(client.at("hover", module, MODULE, "inner x")).startswith("```text\nf32[4, 2]")
    assert markdown(client.at("hover", module, MODULE, "x)))")).startswith("```text\nf32[4, 3]")
    changed = MODULE.replace("(inner x)", "(+ 1.0 (inner x))")
    client.change(module, whole(changed))
    client.drain(1.5)
    assert markdown(client.at("hover", module, changed, "+ 1.0")).startswith("```text\nf32[4, 2]")


def test_signature_help(client: Client, tmp_path: Path) -> None:
    write_data(tmp_path)
    file = tmp_path / "calls.sx"
    text = text_of()
    client.open(file, text)
    typed = text.replace("(sgd :lr 0.1)", "(sgd :momentum 0.9 :lr ")
    client.change(file, whole(typed))

    def active(mark: str) -> str:
        found = client.at("signatureHelp", file, typed, mark, len(mark))
        (shown,) = found["signatures"]
        start, end = shown["parameters"][found["activeParameter"]]["label"]
        return str(shown["label"][start:end])

    assert active("(sgd :momentum 0.9 :lr ") == "(lr 0.1)"
    assert active("(sgd :momentum ") == "(momentum 0.0)"
    assert active("(linear ") == "in"
    assert active("(linear width ") == "out"
    assert active("(linear wi") == "in"
    assert active("(cross-entropy logits ") == "labels"
    special = client.at("signatureHelp", file, typed, "(def model ", len("(def model "))
    assert special["signatures"][0]["label"].startswith("(def name value")
    assert client.at("signatureHelp", file, typed, "(require") is None


def test_a_quick_fix_makes_the_file_check(client: Client, tmp_path: Path) -> None:
    write_data(tmp_path)
    file = tmp_path / "misspelt.sx"
    text = text_of(objective="(defun objective (logits labels) (cros-entropy logits labels))")
    (wrong,) = client.open(file, text)
    assert wrong["code"] == "E-NAME-002"
    (action,) = client.ask(
        "textDocument/codeAction",
        {"textDocument": {"uri": file.as_uri()}, "range": wrong["range"], "context": {"diagnostics": [wrong]}},
    )
    assert action["kind"] == "quickfix"
    assert action["title"].startswith("did you mean")
    assert [d["code"] for d in action["diagnostics"]] == ["E-NAME-002"]
    ((uri, edits),) = action["edit"]["changes"].items()
    assert uri == file.as_uri()
    assert client.change(file, [{"range": edit["range"], "text": edit["newText"]} for edit in edits]) == []
    elsewhere = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
    asked = {"textDocument": {"uri": file.as_uri()}, "range": elsewhere, "context": {"diagnostics": []}}
    assert client.ask("textDocument/codeAction", asked) == []


def test_the_outline(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "outline.sx"
    text = "(defknobs (width 4)\n  (depth 2))\n(defmodel net () 1)\n(defstruct (box) x)\n(print 3)\n(def torn"
    client.open(file, text)
    symbols = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": file.as_uri()}})
    assert [(s["name"], s.get("detail")) for s in symbols][:3] == [
        ("defknobs", None),
        ("net", "defmodel"),
        ("box", "defstruct"),
    ]
    assert [(s["name"], s["range"]["start"]["line"]) for s in symbols[0]["children"]] == [("width", 0), ("depth", 1)]
    assert symbols[1]["selectionRange"]["start"] == {"line": 2, "character": 10}
