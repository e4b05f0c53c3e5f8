"""Every promised name exists, is documented, and is used by a test that would fail if it were wrong."""

from __future__ import annotations

import re

import pytest

from sexpgpu.diag import Diagnostics
from sexpgpu.diag.catalogue import ENTRIES
from sexpgpu.driver.compile import new_session
from sexpgpu.lang.forms import NIL
from sexpgpu.lang.session import Session
from sexpgpu.trace.builtins.meanings import MEANINGS
from sexpgpu.trace.tensor import GENERIC
from tests.docs.blocks import ROOT
from tests.golden.test_nn import cases as layer_cases
from tests.golden.test_ops import GOLDENS
from tests.optim.test_schedules import FORMULAS as SCHEDULE_FORMULAS
from tests.optim.test_steps import FORMS as OPTIMIZER_FORMS
from tests.trace.surface import (
    CHAPTERS,
    LABELS,
    MODULES,
    NAMED_SOURCE,
    STATED,
    USED_IN,
    VALUES_IN,
    documentation,
    module_documentation,
    paragraphs,
)

NAMES = [name for names in CHAPTERS.values() for name in names]
DOCUMENTED = documentation()
_CODE = re.compile(r"\b[EW]-[A-Z]+-\d{3}\b")

each_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def session() -> Session:
    return new_session(Diagnostics())


def calls(name: str, text: str) -> bool:
    """Whether `text` calls the function, or names it as one."""
    return re.search(rf"(\(|#'){re.escape(name)}(?=[\s)])", text) is not None


def test_a_name_is_promised_once() -> None:
    assert len(NAMES) == len(set(NAMES))


@each_name
def test_it_exists(name: str, session: Session) -> None:
    (result,) = session.evaluate_text(f"(or (fboundp '{name}) (macro-function '{name}))", "surface.sx")
    assert session.diagnostics.errors == []
    assert result.values
    assert name in DOCUMENTED


@each_name
def test_it_is_documented(name: str) -> None:
    text, labelled = paragraphs(DOCUMENTED[name].doc)
    assert text.endswith(".")
    assert tuple(labelled) == LABELS
    assert all(said.endswith(".") and len(said) > 3 for said in labelled.values()), labelled
    assert set(_CODE.findall(labelled["Errors"])) <= ENTRIES.keys()
    assert _CODE.search(labelled["Errors"])


@each_name
def test_it_is_used_by_a_test_of_values(name: str) -> None:
    elsewhere = USED_IN.get(name)
    if elsewhere is not None:
        assert calls(name, (ROOT / elsewhere).read_text("utf-8"))
    else:
        assert any(calls(name, golden.case.form) for golden in GOLDENS.values())


MODULE_NAMES = [(chapter, name) for chapter, names in MODULES.items() for name in names]
MODULE_DOCUMENTED = module_documentation()
GOLDEN_FORMS: dict[str, list[str]] = {
    "Layers": [case.form for case in layer_cases().values()],
    "Optimizers": list(OPTIMIZER_FORMS.values()),
    "Schedules": list(SCHEDULE_FORMULAS),
}
"""Forms whose values are compared with a reference, by chapter."""

each_of_a_module = pytest.mark.parametrize(("chapter", "name"), MODULE_NAMES)


def test_a_name_of_a_module_is_promised_once() -> None:
    names = [*NAMES, *(name for _, name in MODULE_NAMES)]
    assert len(names) == len(set(names))


@each_of_a_module
def test_a_module_has_it(chapter: str, name: str, session: Session) -> None:
    required = '(require "sexpgpu/nn") (require "sexpgpu/optim")'
    *_, result = session.evaluate_text(f"{required} (or (fboundp '{name}) (macro-function '{name}))", "surface.sx")
    assert session.diagnostics.errors == []
    assert result.values
    assert result.values[0] is not NIL


@each_of_a_module
def test_a_module_documents_it(chapter: str, name: str) -> None:
    text, labelled = paragraphs(MODULE_DOCUMENTED[name].doc)
    assert text.endswith(".")
    facts = STATED[chapter] | labelled
    if "Source" not in facts:
        assert re.search(NAMED_SOURCE, text), text
        facts["Source"] = text
    assert set(facts) == set(LABELS)
    assert set(_CODE.findall(facts["Errors"])) <= ENTRIES.keys()
    assert _CODE.search(facts["Errors"])


@each_of_a_module
def test_a_test_of_values_uses_it(chapter: str, name: str) -> None:
    if chapter in GOLDEN_FORMS:
        assert any(calls(name, form) for form in GOLDEN_FORMS[chapter])
    else:
        assert calls(name, (ROOT / VALUES_IN[name]).read_text("utf-8"))


def test_what_common_lisp_names_has_a_meaning_for_tensors() -> None:
    assert MEANINGS.keys() == GENERIC.keys()
