"""The language server over its protocol, in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.editor.client import Client
from tests.trace.experiments import text_of, write_data

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GPT2 = EXAMPLES / "gpt2.sx"
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


def codes(diagnostics: list[dict[str, Any]]) -> list[str]:
    return [d["code"] for d in diagnostics]


def test_what_the_server_can(client: Client) -> None:
    can = client.capabilities["capabilities"]
    assert can["hoverProvider"]
    assert can["definitionProvider"]
    assert can["documentFormattingProvider"]
    assert ":" in can["completionProvider"]["triggerCharacters"]


def test_diagnostics_of_unsaved_text(client: Client, tmp_path: Path) -> None:
    write_data(tmp_path)
    file = tmp_path / "never-saved.sx"
    assert client.open(file, text_of()) == []
    text = text_of(
        objective='(defun objective (logits labels) ; \U0001d54f\n  "\U0001d54f" (mean (matmul logits logits)))'
    )
    (wrong,) = client.change(file, whole(text))
    assert wrong["code"] == "E-SHAPE-013"
    assert wrong["severity"] == 1
    start = wrong["range"]["start"]
    assert (start["line"], start["character"]) == (8, 13)  # the letter outside the first plane counts as two
    assert "help: " in wrong["message"]
    assert wrong["relatedInformation"]
    line = {"line": 8, "character": 0}
    end = {"line": 8, "character": 100}
    assert (
        client.change(file, [{"range": {"start": line, "end": end}, "text": "  (cross-entropy logits labels))"}]) == []
    )
    assert not file.exists()


def test_a_text_that_does_not_read(client: Client, tmp_path: Path) -> None:
    write_data(tmp_path)
    file = tmp_path / "torn.sx"
    assert client.open(file, text_of()) == []
    found = client.change(file, whole(text_of(instance="(def model (net)")))
    assert "E-READ-001" in codes(found)
    assert client.change(file, whole(text_of())) == []


def test_hover(client: Client) -> None:
    text = GPT2.read_text()
    assert client.open(GPT2, text) == []

    def over(mark: str, further: int = 0) -> str:
        return markdown(client.at("hover", GPT2, text, mark, further))

    assert "f32[1, 1024, 768]" in over("x (attn (norm1 x))")
    assert "f32[1, 1024, 768]" in over("attn (norm1 x)")
    assert "(defsub attn" in over("attn (norm1 x)")
    assert "f32[1, 1024, 50304]" in over("(matmul (norm x)")
    assert "(matmul x y)" in over("matmul (norm x)").replace("a b", "x y")
    assert "Mean 0 and variance 1" in over("layer-norm width))\n  (defsub attn")
    assert "(defmodel layer-norm (width &key" in over("layer-norm width))\n  (defsub attn")
    assert "knob `heads` = 12 (default)" in over("heads :init")
    assert "(heads 12)" in over("heads :init")
    assert "(defmodel gpt-block ()" in over("gpt-block)))")
    assert "f32[1, 1024, 768]" not in over("layers (gpt-block)")
    assert over(";;; A model") == ""


def test_definitions(client: Client) -> None:
    text = GPT2.read_text()
    client.open(GPT2, text)

    def go(mark: str) -> tuple[str, str]:
        found = client.at("definition", GPT2, text, mark)
        if found is None:
            return "", ""
        path = Path(found["uri"].removeprefix("file://"))
        return path.name, path.read_text().splitlines()[found["range"]["start"]["line"]]

    assert go("gpt-block)))") == ("gpt2.sx", "(defmodel gpt-block ()")
    assert go("layer-norm width))\n  (defsub attn") == (
        "dense.sx",
        "(defmodel layer-norm (width &key ((:bias bias-p) t) (eps 1e-5) init)",
    )
    assert go("cross-entropy logits targets))\n(defun evaluate")[0] == "losses.sx"
    assert go("defmodel gpt2")[1].startswith("(defmacro defmodel")
    assert go("heads :init")[1].startswith("  (layers 12) (heads 12)")
    assert go("norm1 x)")[1] == "  (defsub norm1 (layer-norm width))"
    assert go("768 wide") == ("", "")


def test_completion(client: Client, tmp_path: Path) -> None:
    write_data(tmp_path)
    file = tmp_path / "typed.sx"
    text = text_of()
    client.open(file, text)
    typed = text.replace("(sgd :lr 0.1)", "(sgd :m")
    client.change(file, whole(typed))

    def labels(text: str, mark: str) -> dict[str, Any]:
        found = client.at("completion", file, text, mark, len(mark))
        return {item["label"]: item for item in found["items"]}

    assert ":momentum" in labels(typed, "(sgd :m")
    typed = text.replace("(cross-entropy logits labels))\n(defun evaluate", "(cross-e\n(defun evaluate")
    client.change(file, whole(typed))
    offered = labels(typed, "(cross-e")
    assert offered["cross-entropy"]["detail"] == (
        "(logits labels &key (label-smoothing 0.0) (z-loss 0.0) ignore-index weights)"
    )
    assert offered["cross-entropy"]["textEdit"]["range"]["start"]["character"] == len(
        "(defun objective (logits labels) ("
    )
    typed = text.replace("(linear width 2)", "(linear wi")
    client.change(file, whole(typed))
    assert labels(typed, "(linear wi")["width"]["detail"] == "3 (default)"
    typed = text.replace("(net)", "(n")
    client.change(file, whole(typed))
    assert labels(typed, "(def model (n")["net"]["detail"] == "()"


def test_modules(client: Client, tmp_path: Path) -> None:
    write_data(tmp_path)
    module, entry = tmp_path / "blocks.sx", tmp_path / "experiment.sx"
    module.write_text(MODULE)
    entry.write_text(text_of(**USING))
    assert client.open(entry, entry.read_text()) == []
    assert client.open(module, MODULE) == []
    client.change(module, whole(MODULE.replace("linear in", "linear 4")))
    client.drain(3)
    both = client.diagnostics[module.as_uri()] + client.diagnostics[entry.as_uri()]
    assert "E-SHAPE-013" in codes(both)
    client.change(module, whole(MODULE))
    client.drain(3)
    assert client.diagnostics[module.as_uri()] == client.diagnostics[entry.as_uri()] == []
    assert "A layer." in markdown(client.at("hover", entry, entry.read_text(), "layer width"))
    found = client.at("definition", entry, entry.read_text(), "layer width")
    assert found["uri"] == module.as_uri()
    assert found["range"]["start"]["line"] == 1


def test_a_required_file_that_changes_on_disk(client: Client, tmp_path: Path) -> None:
    write_data(tmp_path)
    module, entry = tmp_path / "blocks.sx", tmp_path / "experiment.sx"
    module.write_text(MODULE)
    assert client.open(entry, text_of(**USING)) == []
    assert client.registered == ["workspace/didChangeWatchedFiles"]
    module.write_text(MODULE.replace("linear in", "linear 4"))
    client.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": module.as_uri(), "type": 2}]})
    client.drain(3)
    assert "E-SHAPE-013" in codes([d for uri in (module, entry) for d in client.diagnostics.get(uri.as_uri(), [])])


def test_formatting(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "untidy.sx"
    client.open(file, "(defun f (x)\n        (+ x\n 1))\n")
    (edit,) = client.ask(
        "textDocument/formatting",
        {"textDocument": {"uri": file.as_uri()}, "options": {"tabSize": 2, "insertSpaces": True}},
    )
    assert edit["newText"] == "(defun f (x)\n  (+ x\n     1))\n"


def test_closing_takes_the_diagnostics_away(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "closed.sx"
    assert codes(client.open(file, "(car 1)\n")) == ["E-TYPE-001"]
    client.tell("textDocument/didClose", {"textDocument": {"uri": file.as_uri()}})
    client.drain(0.5)
    assert client.diagnostics[file.as_uri()] == []


@pytest.mark.slow
def test_diagnostics_come_at_once(client: Client) -> None:
    """0.3 s from a change of the 12-layer example to its diagnostics; what else runs here may spoil some tries."""
    text = GPT2.read_text()
    client.open(GPT2, text)
    client.drain(1.5)
    times = []
    for number in range(30):
        found = client.change(GPT2, whole(text + "\n" * number))
        started = time.perf_counter()
        found = client.change(GPT2, whole(text.replace("(lr 6e-4)", f"(lr {number + 1}e-4)")))
        times.append(time.perf_counter() - started)
        assert found == []
        if times[-1] < 0.3:
            break
    assert min(times) < 0.3, times
