"""The standard modules, read as a user's own file: everything in them is analysed, called or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostics
from sexpgpu.driver.compile import LIBRARY, new_session
from sexpgpu.lang.limits import run_deep

MODULES = sorted(
    [*LIBRARY.glob("nn.sx"), *LIBRARY.glob("optim*.sx"), *LIBRARY.glob("nn/*.sx"), *LIBRARY.glob("optim/*.sx")]
)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(LIBRARY).with_suffix("").as_posix())
def test_a_standard_module_has_no_mistake(path: Path) -> None:
    diagnostics = Diagnostics()
    copy = str(path.with_name(f"copy of {path.name}"))  # beside it, where what it requires is
    run_deep(lambda: new_session(diagnostics).evaluate_text(path.read_text("utf-8"), copy))
    assert list(diagnostics) == []
