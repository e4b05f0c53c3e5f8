"""Every promised name exists, is documented, and is used by a test that would fail if it were wrong."""

from __future__ import annotations

import re

import pytest

from sexpgpu.diag import Diagnostics
from sexpgpu.diag.catalogue import ENTRIES
from sexpgpu.driver.compile import new_session
from sexpgpu.lang.session import Session
from sexpgpu.trace.builtins.meanings import MEANINGS
from sexpgpu.trace.tensor import GENERIC
from tests.docs.blocks import ROOT
from tests.golden.test_ops import GOLDENS
from tests.trace.surface import CHAPTERS, LABELS, USED_IN, documentation, paragraphs

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


def test_what_common_lisp_names_has_a_meaning_for_tensors() -> None:
    assert MEANINGS.keys() == GENERIC.keys()
