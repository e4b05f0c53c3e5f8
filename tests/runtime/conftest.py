"""What the tests of the loop share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.line_fit import write_data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the data of a line."""
    write_data(tmp_path)
    return tmp_path
