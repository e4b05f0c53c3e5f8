"""Which events are a save of a file that is waited for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sexpgpu.driver.saves import Saves

SECONDS = 20.0


@pytest.fixture
def saves() -> Iterator[Saves]:
    made = Saves()
    yield made
    made.close()


def noticed(saves: Saves, file: Path, change: Callable[[], object]) -> bool:
    """Whether a change that happens while the file is waited for ends the waiting."""
    saves.watch([file], {str(file): file.read_text()} if file.exists() else {})
    found: list[list[Path]] = []
    waiting = threading.Thread(target=lambda: found.append(saves.wait()), daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    change()
    waiting.join(SECONDS)
    return found == [[file]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "experiment.sx"
    made.write_text("1\n")
    return made


def test_written(saves: Saves, file: Path) -> None:
    assert noticed(saves, file, lambda: file.write_text("22\n"))


def test_replaced_by_renaming(saves: Saves, file: Path) -> None:
    other = file.with_name("other")
    other.write_text("2\n")
    assert noticed(saves, file, lambda: os.replace(other, file))


def test_removed(saves: Saves, file: Path) -> None:
    assert noticed(saves, file, file.unlink)


def test_made_with_its_folder(saves: Saves, tmp_path: Path) -> None:
    later = tmp_path / "not-yet" / "experiment.sx"

    def make() -> None:
        later.parent.mkdir()
        later.write_text("1\n")

    assert noticed(saves, later, make)


def test_the_target_of_a_link(saves: Saves, file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    link = folder / "link.sx"
    link.symlink_to(file)
    assert noticed(saves, link, lambda: file.write_text("22\n"))


def test_a_link_that_names_another_file(saves: Saves, file: Path, tmp_path: Path) -> None:
    folder, other = tmp_path / "links", tmp_path / "other.sx"
    folder.mkdir()
    other.write_text("333\n")
    link, fresh = folder / "link.sx", folder / "fresh"
    link.symlink_to(file)
    fresh.symlink_to(other)
    assert noticed(saves, link, lambda: os.replace(fresh, link))
