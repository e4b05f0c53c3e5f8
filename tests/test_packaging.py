"""The wheel holds the whole program, whether it is built from the tree or from the source archive."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from sexpgpu import __version__

FOLDERS = {"sexpgpu": "sexpgpu", "dialects": "sexpgpu/dialects", "passes": "sexpgpu/passes"}


def build(source: Path, out: Path, kind: str) -> Path:
    """Builds with the environment's own backend: nothing is fetched."""
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        f"--{kind}",
        "--outdir",
        str(out),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.iterdir()
    return built


def wanted(root: Path) -> set[str]:
    """The program's files under their names in an installation, collected from the real folders."""
    files: set[str] = set()
    for folder, package in FOLDERS.items():
        for path in (root / folder).rglob("*"):
            inside = path.relative_to(root / folder)
            linked = folder == "sexpgpu" and inside.parts[0] in {"dialects", "passes"}
            if path.is_file() and not linked and "__pycache__" not in path.parts:
                files.add(f"{package}/{inside.as_posix()}")
    return files


def holds(wheel: Path) -> list[str]:
    names = zipfile.ZipFile(wheel).namelist()
    return [name for name in names if not name.startswith(f"sexpgpu-{__version__}.dist-info/")]


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(root, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def unpacked(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, unpacked."""
    archive = build(root, tmp_path_factory.mktemp("sdist"), "sdist")
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / f"sexpgpu-{__version__}"


def test_the_wheel_from_the_tree_is_whole(root: Path, wheel: Path) -> None:
    names = holds(wheel)
    assert len(names) == len(set(names)), "a file is in the wheel twice"
    assert set(names) == wanted(root)
    assert {"sexpgpu/dialects/__init__.py", "sexpgpu/passes/__init__.py", "sexpgpu/py.typed"} <= set(names)


def test_the_wheel_from_the_source_archive_is_the_same(wheel: Path, unpacked: Path, tmp_path: Path) -> None:
    assert sorted(holds(build(unpacked, tmp_path, "wheel"))) == sorted(holds(wheel))


def test_the_wheel_carries_licence_and_commands(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = f"sexpgpu-{__version__}.dist-info"
    metadata = archive.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert f"{info}/licenses/LICENSE" in archive.namelist()
    commands = archive.read(f"{info}/entry_points.txt").decode()
    assert "sexpgpu = sexpgpu.__main__:main" in commands
    assert "sexpgpu-opt = sexpgpu.__main__:opt" in commands
    assert "sexpgpu-sim = sexpgpu.__main__:sim" in commands
