"""Blocks of forms with their values: each form is evaluated and compared with the comments behind it.

    (floor 17 5)            ; => 3, 2
    (car 5)
    ; error[E-TYPE-001]: car needs a list, got 5

A comment behind a form shows its values, or an error or warning with its code. A form without one only has to be
free of both. The blocks of a page are evaluated one after the other in one session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attrs import frozen

from sexpgpu.diag import Diagnostics
from sexpgpu.driver.compile import new_session
from sexpgpu.lang.forms import Source
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.reader import read_text
from sexpgpu.lang.session import Session
from sexpgpu.lang.toplevel import FormResult
from tests.docs.blocks import Block

_SHOWN = re.compile(r";[ ](?:=>|error\[|warning\[)[^\n]*")


@frozen
class Evaluated:
    """A form of a block: its text, what stands behind it, the comments that should be there and those that are."""

    line: int
    text: str
    behind: str
    printed: tuple[str, ...]
    shown: tuple[str, ...]

    @property
    def right(self) -> tuple[str, ...]:
        """What the page should show: what was reported, and the values where it shows some or nothing else."""
        reported = tuple(text for text in self.printed if not text.startswith("; =>"))
        with_values = any(text.startswith("; =>") for text in self.shown) or (self.shown and not reported)
        return self.printed if with_values else reported

    @property
    def agrees(self) -> bool:
        return self.shown == self.right


def evaluated(blocks: list[Block], folder: Path) -> Iterator[tuple[Block, list[Evaluated]]]:
    """The blocks of one page, each with its forms evaluated."""
    diagnostics = Diagnostics()
    session = new_session(diagnostics)
    file = str(folder / "page.sx")
    for block in blocks:
        yield block, run_deep(partial(_all_forms, block, session, file))


def _all_forms(block: Block, session: Session, file: str) -> list[Evaluated]:
    return list(_forms(block, session, file))


def _forms(block: Block, session: Session, file: str) -> Iterator[Evaluated]:
    """A form at a time: the text from where it starts to its end, and from there to the next one."""
    starts = [found.start() for found in re.finditer(r"(?m)^(?=[^\s;])", block.text)]
    for start, following in zip(starts, [*starts[1:], len(block.text)], strict=True):
        piece = block.text[start:following]
        form = next(iter(read_text(Source(file, piece), lambda _: None)), None)
        end = form.end if form is not None and form.fault is None else piece.find("\n")
        before = len(session.diagnostics.records)
        results = session.evaluate_text(piece[:end], file)
        found = session.diagnostics.records[before:]
        printed = [f"; {d.severity}[{d.code}]: {d.message}" for d in found]
        printed += [f"; => {_values(result)}".rstrip() for result in results]
        yield Evaluated(
            block.line + block.text.count("\n", 0, start),
            piece[:end],
            piece[end:],
            tuple(printed),
            tuple(text.rstrip() for text in _SHOWN.findall(piece[end:])),
        )


def _values(result: FormResult) -> str:
    return ", ".join(print_form(value) for value in result.values) or "no values"


def with_values(block: Block, forms: list[Evaluated]) -> str:
    """The text of a block with what its forms gave."""
    parts = [block.text[: len(block.text) - sum(len(f.text) + len(f.behind) for f in forms)]]
    for form in forms:
        parts += [form.text, form.behind if form.agrees else _corrected(form)]
    return "".join(parts)


def _corrected(form: Evaluated) -> str:
    """What should stand behind a form; one comment keeps its column, several stand in lines of their own."""
    found = list(_SHOWN.finditer(form.behind))
    lead = form.behind[: found[0].start()] if found else "\n"
    rest = form.behind[found[-1].end() :] if found else form.behind
    if not form.right:
        return rest
    return ("\n" if len(form.right) > 1 else lead) + "\n".join(form.right) + rest
