"""The standard modules, read as a user's own file: everything in them is analysed, called or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostics
from sexpgpu.driver.compile import LIBRARY, new_session
from sexpgpu.lang.limits import run_deep

MODULES = sorted(path for path in LIBRARY.glob("*.sx") if path.stem != "forms")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_a_standard_module_has_no_mistake(path: Path) -> None:
    diagnostics = Diagnostics()
    run_deep(lambda: new_session(diagnostics).evaluate_text(path.read_text("utf-8"), f"copy of {path.name}"))
    assert list(diagnostics) == []
