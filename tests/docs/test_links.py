"""The pages hang together: each is listed, links lead somewhere, and what they name exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sexpgpu import knobs
from sexpgpu.cli import VERBS, cli
from sexpgpu.cli.opt import command as opt
from sexpgpu.cli.sim import command as sim
from sexpgpu.diag.catalogue import ENTRIES
from sexpgpu.passes import PASSES
from tests.docs.blocks import PAGES, ROOT
from tests.docs.generated import PART

DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
LLMS = DOCS / "llms.txt"
WITHIN = [page for page in PAGES if page.parent == DOCS]

_CODE = re.compile(r"\b[EW]-[A-Z]+-\d{3}\b")
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_VARIABLE = re.compile(r"\bSEXPGPU_[A-Z]+\b")

# Flags of other programs that the pages use and of a pass that a page adds, and what a page misspells to show that it
# is found out.
FOREIGN = {"--version", "--help", "--update-golden", "--editable", "--strict", "--preserve-status", "--check-prefix"}
FOREIGN |= {"--sx-squares"}
MISSPELT = {"SEXPGPU_THREDS", "E-SHPE-010"}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    """The page without its blocks."""
    return re.sub(r"(?ms)^```.*?^```$", "", text(page))


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"(?m)^#+ (.+)$", prose(page))}


def options() -> Iterator[str]:
    for command in [opt, sim, *(cli.get_command(click.Context(cli), verb) for verb in VERBS)]:
        assert command is not None
        for parameter in command.params:
            yield from parameter.opts
    yield from (f"--sx-{name}" for name in PASSES)


@each_page
def test_a_page_has_one_title_and_comes_to_it_at_once(page: Path) -> None:
    assert text(page).startswith("# ")
    assert len(re.findall(r"(?m)^# ", prose(page))) == 1


@each_page
def test_links_resolve(page: Path) -> None:
    broken = []
    for target in _LINK.findall(prose(page)):
        if re.match(r"https?:", target):
            continue
        file, _, anchor = target.partition("#")
        where = (page.parent / file).resolve() if file else page
        if not where.exists() or (anchor and anchor not in anchors(where)):
            broken.append(target)
    assert broken == []


@each_page
def test_codes_exist(page: Path) -> None:
    assert sorted(set(_CODE.findall(text(page))) - set(ENTRIES) - MISSPELT) == []


@each_page
def test_flags_exist(page: Path) -> None:
    """What is written from the program's tables apart: an example of an error misspells on purpose."""
    assert sorted(set(_FLAG.findall(PART.sub("", text(page)))) - set(options()) - FOREIGN) == []


@each_page
def test_variables_exist(page: Path) -> None:
    assert sorted(set(_VARIABLE.findall(text(page))) - {knob.name for knob in knobs.KNOBS} - MISSPELT) == []


def test_the_index_lists_every_page() -> None:
    listed = [target for target in _LINK.findall(text(INDEX)) if target.endswith(".md")]
    assert sorted(listed) == sorted({p.name for p in WITHIN} - {INDEX.name})


def test_llms_lists_every_page_once_with_what_it_answers() -> None:
    listed = re.findall(r"(?m)^- \[([^\]]+)\]\(([^)]+)\): \S", text(LLMS))
    assert sorted(target for _, target in listed) == sorted(p.name for p in WITHIN)
    for title, target in listed:
        assert text(DOCS / target).startswith(f"# {title}\n"), target


@pytest.mark.parametrize("page", [p for p in WITHIN if p != INDEX], ids=lambda p: p.stem)
def test_a_page_leads_on(page: Path) -> None:
    """Nobody lands in a dead end: each page links to another."""
    assert [t for t in _LINK.findall(prose(page)) if t.partition("#")[0] != page.name]


def test_every_verb_has_a_page() -> None:
    said = " ".join(text(page) for page in WITHIN)
    assert [verb for verb in VERBS if f"sexpgpu {verb}" not in said] == []


def test_every_variable_is_documented() -> None:
    said = " ".join(text(page) for page in WITHIN)
    assert [knob.name for knob in knobs.KNOBS if knob.name not in said] == []
