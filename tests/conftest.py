"""Fixtures for every test: golden files with one update flag, and the read-only data beside the checkout."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # speed is measured in bench/, never in a test
settings.load_profile("untimed")

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing with them"
    )


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test finds what another run of the tests has kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEXPGPU_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared(root: Path) -> Path:
    """The folder of larger reference data beside the checkout; a test that needs it is skipped without it."""
    folder = root.parent / "shared"
    if not (folder / "data").is_dir():
        pytest.skip("needs ../shared/data, which is not part of the checkout")
    return folder


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compares a text with the file named after the test; its first line says how to rewrite it.

    A test has one golden file. A missing file fails; `--update-golden` writes it.
    """

    def compare(text: str) -> None:
        path = golden_path(request.node.nodeid)
        header = f"# pytest '{request.node.nodeid}' --update-golden\n"
        wanted = header + text.rstrip("\n") + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
            return
        assert path.exists(), f"no golden file; write it with {header[2:].strip()}"
        assert wanted == path.read_text(encoding="utf-8")

    return compare


def golden_path(nodeid: str) -> Path:
    """tests/a/test_b.py::test_c[d] -> tests/golden/a/test_b/test_c-d.txt"""
    file, _, test = nodeid.partition("::")
    parts = Path(file).with_suffix("").parts
    folder = Path(*parts[1:]) if parts[0] == "tests" else Path(*parts)
    return GOLDEN / folder / (re.sub(r"[^A-Za-z0-9_.]+", "-", test).strip("-") + ".txt")
