"""A file with a mistake in almost every definition: one run reports each at its place, and nothing else.

In the files a comment behind a line says what is wrong in it: the code, and the text that the place begins with.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.diag import Diagnostic
from sexpgpu.lang.limits import run_deep
from tests.trace.experiments import compiled, write_data

FILES = Path(__file__).with_name("all_at_once")
MARK = re.compile(r"; ([EW]-[A-Z]+-\d+) (.+)$")


def expected(text: str) -> list[tuple[str, int, str]]:
    """Code, line and first words of each mistake that the comments announce."""
    return [(found[1], n, found[2]) for n, row in enumerate(text.split("\n"), 1) if (found := MARK.search(row))]


def told(folder: Path, text: str) -> list[Diagnostic]:
    """All that the compiler says of a file."""
    write_data(folder)
    np.save(folder / "tokens.npy", np.zeros((64, 4), np.int64))
    file = folder / "experiment.sx"
    file.write_text(text, encoding="utf-8")

    def look() -> list[Diagnostic]:
        with compiled(file) as done:
            return list(done.diagnostics)

    return run_deep(look)


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.sx")))
def test_every_mistake_is_told_once_and_nothing_else(name: str, tmp_path: Path) -> None:
    text = (FILES / name).read_text("utf-8")
    rows = text.split("\n")
    wanted = expected(text)
    assert len(wanted) >= 20
    found = []
    for diagnostic in told(tmp_path, text):
        span = diagnostic.span
        assert span is not None, diagnostic
        words = rows[span.line - 1][span.col - 1 :]
        close = [w for c, n, w in wanted if (c, n) == (diagnostic.code, span.line) and words.startswith(w)]
        found.append((diagnostic.code, span.line, close[0] if close else words))
    assert found == wanted
