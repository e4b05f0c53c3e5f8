"""The matcher can fail: a page that shows something else than what happened is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks_of, commands_of
from tests.docs.console import environment, faults_of, matches, rewritten, run_block


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("", ""),
        ("a\nb", "a\nb"),
        ("a", "a  "),
        ("a\n...\nz", "a\nz"),
        ("a\n...\nz", "a\nb\nc\nz"),
        ("...", "a\nb"),
        ("  ...", "a\nb"),
        ("step 3  [..]/s", "step 3  81.2 records/s"),
        ("[..]: ok", ": ok"),
        ("(a . b)*", "(a . b)*"),
    ],
)
def test_what_a_page_may_show(shown: str, printed: str) -> None:
    assert matches(shown.splitlines(), printed.splitlines())


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a", "b"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("", "a"),
        ("  a", "a"),
        ("a\n...\nz", "a\nb"),
        ("a [..] c", "a b\nc"),
        ("step 3  [..]/s", "step 4  81.2 records/s"),
        ("a.c", "abc"),
    ],
)
def test_what_a_page_may_not_show(shown: str, printed: str) -> None:
    assert not matches(shown.splitlines(), printed.splitlines())


def console(tmp_path: Path, text: str) -> Block:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n```console\n{text}```\n", encoding="utf-8")
    (block,) = blocks_of(page)
    return block


def faults(tmp_path: Path, text: str) -> list[str]:
    block = console(tmp_path, text)
    return faults_of(block, run_block(block, tmp_path, environment(tmp_path / "tools")))


def test_a_page_that_shows_what_happens(tmp_path: Path) -> None:
    assert faults(tmp_path, "$ echo one; echo two >&2\none\ntwo\n$ printf '%s\\n' \\\n>   three\nthree\n") == []


def test_a_wrong_line_is_named_with_its_place(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "$ true\n$ echo one\ntwo\n")
    assert fault.startswith("page.md:5: $ echo one\n")
    assert "-two" in fault
    assert "+one" in fault


def test_a_command_must_succeed(tmp_path: Path) -> None:
    assert len(faults(tmp_path, "$ false\n")) == 1


def test_or_the_page_shows_its_exit_code(tmp_path: Path) -> None:
    assert faults(tmp_path, "$ (exit 3)\n$ echo $?\n3\n") == []


def test_a_block_that_leaves_early_is_a_fault(tmp_path: Path) -> None:
    assert any("did not run" in fault for fault in faults(tmp_path, "$ exit 0\n$ echo one\none\n"))


def test_a_block_starts_with_a_prompt(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="starts with a prompt"):
        commands_of(console(tmp_path, "one\n"))


def test_rewriting_keeps_what_matches(tmp_path: Path) -> None:
    block = console(tmp_path, "$ echo one 1\none [..]\n$ echo two; echo four 4\nthree\nfour [..]\n")
    results = run_block(block, tmp_path, environment(tmp_path / "tools"))
    assert rewritten(block, results) == "$ echo one 1\none [..]\n$ echo two; echo four 4\ntwo\nfour [..]\n"


def test_the_marks_of_a_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n\n```lisp file=a.sx broken\n(a)\n```\n\n```\nplain\n```\n", encoding="utf-8")
    first, second = blocks_of(page)
    assert (first.language, first.file, first.marks[1], first.line) == ("lisp", "a.sx", "broken", 4)
    assert (second.language, second.file, second.text) == ("", None, "plain\n")
