"""Every example trains at smoke size, ends with a finite loss, and stays within its length."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.smoke import EXAMPLES, ROOT, link_data, losses_of, smoke_text, train

LONGEST = 120
STEPS = {"ddpm": 1, "gpt2": 1}
"""Fewer steps than three where one takes long."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the data of the examples lies, MNIST's made up."""
    folder = tmp_path_factory.mktemp("examples")
    link_data(folder)
    return folder


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_an_example_trains_at_smoke_size(file: Path, folder: Path) -> None:
    steps = STEPS.get(file.stem, 3)
    result, events = train(smoke_text(file), folder / file.name, steps)
    assert result.error is None, result.error
    losses = losses_of(events)
    assert result.step == steps
    assert losses
    assert all(isinstance(loss, float) and math.isfinite(loss) for loss in losses)


@pytest.mark.parametrize("file", [*EXAMPLES, *(ROOT / "examples" / "lib").glob("*.sx")], ids=lambda f: f.stem)
def test_an_example_is_short(file: Path) -> None:
    lines = file.read_text("utf-8").splitlines()
    assert len(lines) < LONGEST
    assert "(defvariant smoke" in "\n".join(lines) or file.parent.name == "lib"
