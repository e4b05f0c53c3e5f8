"""`eval --where`: every kind of definition is shown with its place, its call and its own text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sexpgpu.cli import cli

ROOT = Path(__file__).resolve().parents[2]
MODULE = '(provide area)\n(defun %half (x) "half of x" (/ x 2))\n(defun area (w h) (* 2 (%half (* w h))))\n'
FILE = """(require "./shapes.sx" :as s)
(require "sexpgpu/nn")
(defknobs (width 4 :doc "how wide") (depth 2))
(defvariant big (width 9))
(defsweep widths (width 1 2))
(defconstant k 3 "k's own text")
(defvar *v* 3)
(defstruct point x (y 2))
(define-condition bad (error) ((what :initarg :what :reader bad-what)))
(deftype small () '(integer 0 3))
(defmacro twice (x) "x and x again" `(* 2 ,x))
(defmacro define-two (a) `(progn (defun ,a (x) x) (def z 3)))
(define-two g)
(defun f (a &optional
          (b 2))
  "adds"
  (+ a b))
(defmodel net () "A net." (defparam w (width)) (forward (x) (* x w)))
(def f 17)
(def broken (car 5))
"""


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["eval", *arguments], standalone_mode=False)


def answer(*arguments: str) -> dict[str, Any]:
    result = ask(*arguments, "--json")
    assert result.exception is None, result.exception
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["ok"] == (result.return_value == 0) == bool(document["definitions"])
    return document


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("where")
    (folder / "shapes.sx").write_text(MODULE)
    (folder / "entry.sx").write_text(FILE)
    return str(folder / "entry.sx")


@pytest.mark.parametrize(
    ("name", "kind", "call", "doc", "begins"),
    [
        ("width", "knob", "", "how wide", "(width 4"),
        ("big", "variant", "", "", "(defvariant big"),
        ("widths", "sweep", "", "", "(defsweep widths"),
        ("k", "constant", "", "k's own text", "(defconstant k"),
        ("*v*", "special variable", "", "", "(defvar *v* 3)"),
        ("point", "structure", "", "", "(defstruct point"),
        ("make-point", "function", "(make-point &key (x nil) (y 2))", "", "(defstruct point"),
        ("(setf point-y)", "function", "(setf (point-y structure) new)", "", "(defstruct point"),
        ("bad", "condition type", "", "", "(define-condition bad"),
        ("bad-what", "function", "", "", "(define-condition bad"),
        ("small", "type", "(small)", "", "(deftype small"),
        ("twice", "macro", "(twice x)", "x and x again", "(defmacro twice"),
        ("g", "function", "(g x)", "", "(define-two g)"),
        ("z", "variable", "", "", "(define-two g)"),
        ("net", "model", "(net)", "A net.", "(defmodel net"),
        ("NET", "model", "(net)", "A net.", "(defmodel net"),
    ],
)
def test_definitions_of_a_file(file: str, name: str, kind: str, call: str, doc: str, begins: str) -> None:
    (found,) = answer("--where", name, file)["definitions"]
    assert (found["kind"], found["call"], found["doc"]) == (kind, call, doc)
    place = found["place"]
    assert place["file"] == file
    line = FILE.splitlines()[place["line"] - 1]
    assert line[place["col"] - 1 :].startswith(begins)
    assert found["text"].startswith(begins)


def test_what_another_form_wrote_names_it(file: str) -> None:
    assert answer("--where", "make-point", file)["definitions"][0]["written_by"] == "(defstruct point x (y 2))"
    assert answer("--where", "f", file)["definitions"][0]["written_by"] == ""


def test_a_name_with_two_meanings(file: str) -> None:
    function, variable = answer("--where", "f", file)["definitions"]
    assert (function["kind"], variable["kind"]) == ("function", "variable")
    assert function["call"] == "(f a &optional (b 2))"
    assert function["text"] == '(defun f (a &optional\n          (b 2))\n  "adds"\n  (+ a b))'
    assert variable["text"] == "(def f 17)"


def test_definitions_of_modules(file: str) -> None:
    (area,) = answer("--where", "s:area", file)["definitions"]
    assert (Path(area["place"]["file"]).name, area["place"]["line"], area["call"]) == ("shapes.sx", 3, "(s:area w h)")
    (hidden,) = answer("--where", "%half", file)["definitions"]
    assert (hidden["kind"], hidden["doc"], hidden["place"]["line"]) == ("function", "half of x", 2)
    (layer,) = answer("--where", "layer-norm", file)["definitions"]
    assert (layer["kind"], layer["module"]) == ("model", "sexpgpu/nn")
    assert layer["text"] in Path(layer["place"]["file"]).read_text()


@pytest.mark.parametrize(
    ("name", "kind", "module", "source"),
    [
        ("adam", "optimizer", "sexpgpu/optim", "library/optim.sx"),
        ("cosine-schedule", "function", "sexpgpu/optim", "library/optim.sx"),
        ("defmodel", "macro", "the prelude", "library/forms.sx"),
        ("with-gensyms", "macro", "the prelude", "lang/prelude.sx"),
        ("infinity", "variable", "the prelude", "library/forms.sx"),
        ("sexpgpu/nn", "module", "", "library/nn.sx"),
    ],
)
def test_the_library_without_a_file(name: str, kind: str, module: str, source: str) -> None:
    (found,) = answer("--where", name)["definitions"]
    assert (found["kind"], found["module"]) == (kind, module)
    place = found["place"]
    path = Path(place["file"])
    assert path == ROOT / "sexpgpu" / source
    assert found["text"] == "" or path.read_text().splitlines()[place["line"] - 1].startswith(found["text"][:20])


@pytest.mark.parametrize(
    ("name", "kind", "call", "python"),
    [
        ("car", "function", "(car list)", "def car("),
        ("matmul", "function", "(matmul x y)", '@library.builtin("matmul"'),
        ("loop", "macro", "(loop clause...) or (loop form...)", '@library.macro("loop"'),
        ("if", "special form", "(if test then [else])", "@special("),
        ("require", "special form", '(require "sexpgpu/name" | "./file.sx" [:as alias] [:import (name...)])', "def "),
    ],
)
def test_what_is_built_in(name: str, kind: str, call: str, python: str) -> None:
    (found,) = answer("--where", name)["definitions"]
    assert (found["kind"], found["call"], found["place"]) == (kind, call, None)
    where = found["python"]
    around = Path(where["file"]).read_text().splitlines()[where["line"] - 1 : where["line"] + 1]
    assert any(python in line for line in around), around


@pytest.mark.parametrize(("name", "op"), [("matmul", "sx.matmul"), ("+", "sx.add"), ("exp", "sx.exp"), ("<=", "sx.le")])
def test_the_operation_that_a_function_traces_to(name: str, op: str) -> None:
    (found,) = answer("--where", name)["definitions"]
    record = found["operation"]
    assert record["name"] == op
    lines = Path(record["file"]).read_text().splitlines()
    assert f'"{op.removeprefix("sx.")}"' in "".join(lines[record["line"] - 1 : record["line"] + 1])


def test_every_operation_of_a_function_has_a_place() -> None:
    from sexpgpu.dialects.ops import OPS
    from sexpgpu.driver.where import GENERIC_OPS, operation_of

    assert set(GENERIC_OPS.values()) <= OPS.keys()
    assert [name for name in OPS if operation_of(name) is None] == []


def test_as_text(file: str) -> None:
    assert ask("--where", "twice", file).stdout == (
        f"{file}:11:1: macro `twice`\n(twice x)\nx and x again\n\n{FILE.splitlines()[10]}\n"
    )
    assert ask("--where", "car").stdout.startswith(
        "built in: function `car`\n(car list)\nThe first of a list; of nil, nil.\nwritten in Python: "
    )


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--where", "layer-nrom"], "E-NAME-006", "did you mean `layer-norm`?"),
        (["--where", "wdith", "FILE"], "E-NAME-006", "did you mean `width`?"),
        (["--where", "", "FILE"], "E-NAME-006", "`` is defined nowhere"),
        (["--where", "broken", "FILE"], "E-TYPE-001", "(def broken (car 5))"),
        (["--where", "linear", "missing.sx"], "E-IO-101", "there is no file missing.sx"),
        (["--where", "linear", "FILE", "--variant", "small"], "E-KNOB-002", "the file has no variant `small`"),
    ],
)
def test_what_is_not_there(file: str, arguments: list[str], code: str, says: str) -> None:
    arguments = [file if word == "FILE" else word for word in arguments]
    result = ask(*arguments)
    assert (result.return_value, result.stdout) == (1, "")
    assert f"[{code}]" in result.stderr
    assert says in result.stderr
    (told,) = answer(*arguments)["diagnostics"]
    assert told["code"] == code


def test_a_file_or_a_name() -> None:
    from click import UsageError

    assert isinstance(ask().exception, UsageError)
