"""Definitions of the library that are read at their first call: nothing but the time tells."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.diag import Diagnostics
from sexpgpu.driver.compile import LIBRARY, new_session
from sexpgpu.lang.active import activated
from sexpgpu.lang.forms import Source
from sexpgpu.lang.functions import info_of_function
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.module import Module
from sexpgpu.lang.modules import LIBRARY as STANDARD
from sexpgpu.lang.outline import outline
from sexpgpu.lang.reader import read_text
from sexpgpu.lang.session import Session
from sexpgpu.lang.standard import PRELUDE, standard_session

FILES = (PRELUDE, *sorted(LIBRARY.glob("*.sx")), *sorted((LIBRARY / "nn").glob("*.sx")))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_outline_of_a_file_is_what_the_reader_finds(file: Path) -> None:
    source = Source(str(file), file.read_text("utf-8"))
    parts = outline(source.text)
    assert parts is not None
    forms = read_text(source, lambda diagnostic: pytest.fail(diagnostic.message))
    assert [(part.start, part.end) for part in parts] == [(form.start, form.end) for form in forms]
    named = [(part.head, part.name) for part in parts if part.head]
    plain = [list(form.datum)[:2] for form in forms if not isinstance(form.datum.cdr.car, str)]
    assert named == [(head.name, name.name) for head, name in plain]


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ('(a "(\n(")\n\n(b #\\( #\\)) ; (\n(c\n ; )\n)\n', ['(a "(\n(")', "(b #\\( #\\))", "(c\n ; )\n)"]),
        ("(a) (b)\n", None),
        ("(a\n(b))", None),
        ("(a))", None),
        ("(a", None),
        ('(a "b)', None),
        ("a\n(b)", None),
        ("(b)\na", None),
        ("#+x (a)", None),
        ("(a |b|)", None),
        ("(a #| ( |#)", None),
        ("(a #.(b))", None),
    ],
)
def test_a_text_has_an_outline_where_each_form_is_one_list_from_the_first_column(
    text: str, forms: list[str] | None
) -> None:
    parts = outline(text)
    assert (None if parts is None else [text[part.start : part.end] for part in parts]) == forms


def facts(session: Session, module: Module) -> dict[Any, Any]:
    """All that is known of the functions and macros of a module, by their names."""
    found: dict[Any, Any] = {}
    for name, cell in module.functions.items():
        info = info_of_function(cell.ref[0]) if cell.builtin is None and cell.defined else None
        if info is not None:
            lambda_list = re.sub(r"(GIVEN)\d+", r"\1", repr(info.parameters))  # the numbers of generated names
            found[name.name] = (info.name, lambda_list, info.span, info.doc, cell.span, cell.redefined)
    for name, macro in module.macros.items():
        found["macro", name.name] = (macro.shape, macro.span, macro.quiet)
    return found


def loaded() -> tuple[dict[Any, Any], Diagnostics]:
    diagnostics = Diagnostics()
    session = new_session(diagnostics)
    session.evaluate_text('(require "sexpgpu/nn") (require "sexpgpu/optim")')
    with activated(session):
        found: dict[Any, Any] = {module.name: facts(session, module.module) for module in session.modules.loaded}
        found["library"] = facts(session, session.base)
    found["heads"] = [module.module.heads for module in session.modules.loaded]
    found["names"] = sorted(session.module.names())
    return found, diagnostics


def test_what_is_known_of_the_library_is_what_reading_it_whole_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    lazily, diagnostics = run_deep(loaded)
    monkeypatch.setattr("sexpgpu.lang.unread.outline", lambda text: None)
    eagerly, same = run_deep(loaded)
    assert lazily == eagerly
    assert lazily["sexpgpu/nn/dense"]["linear"][3].startswith("x W^T + b")
    assert not diagnostics.records
    assert not same.records


def test_nothing_of_a_standard_module_is_read_before_its_first_call() -> None:
    session = new_session(Diagnostics())
    session.evaluate_text('(require "sexpgpu/optim")')
    assert not [d for d in session.deferred.values() if d.module is session.modules.loaded[0].module and d.info]


def run_with(folder: Path, module: str, text: str, overlay: bool = False) -> tuple[list[str], list[tuple[str, str]]]:
    """Results and reports of a text that requires `sexpgpu/own`."""
    file = folder / "own.sx"
    file.write_text(module, "utf-8")
    diagnostics = Diagnostics()
    session = standard_session(diagnostics, standard_modules=folder)
    if overlay:
        session.modules.overlay[str(file)] = module
    results = run_deep(lambda: session.evaluate_text(text))
    return [r.line for r in results], [(d.code, Path(d.span.file).name if d.span else "") for d in diagnostics.records]


FAULTY = "(defun good (x) (* 2 x))\n\n(defun bad (x) (list 1 x . 2 3))\n"


def test_a_mistake_in_a_definition_of_the_library_is_told_when_it_is_called(tmp_path: Path) -> None:
    assert run_with(tmp_path, FAULTY, '(require "sexpgpu/own") (good 3)') == (["nil", "6"], [])
    results, told = run_with(tmp_path, FAULTY, '(require "sexpgpu/own") (bad 3)')
    assert (results, told) == (["nil"], [("E-READ-005", "own.sx")])


def test_what_an_editor_holds_of_the_library_is_read_whole(tmp_path: Path) -> None:
    results, told = run_with(tmp_path, FAULTY, '(require "sexpgpu/own") (good 3)', overlay=True)
    assert (results, told) == (["nil", "6"], [("E-READ-005", "own.sx")])


def test_a_file_of_the_library_that_has_no_outline_is_read_whole(tmp_path: Path) -> None:
    module = "(defun good (x) (* 2 x)) (defun more (x) (good x))\n"
    assert run_with(tmp_path, module, '(require "sexpgpu/own") (more 3)') == (["nil", "6"], [])


def test_a_macro_of_the_library_has_its_shape(tmp_path: Path) -> None:
    assert STANDARD == LIBRARY
    session = new_session(Diagnostics())
    macro = session.base.macros[next(name for name in session.base.macros if name.name == "defmodel")]
    assert macro.shape == "(defmodel name lambda-list &body forms)"
