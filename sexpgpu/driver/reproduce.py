"""What an internal error of a pass leaves: the module before it in a file whose first line repeats the failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sexpgpu import knobs
from sexpgpu.passes.base import Pass

BROKEN = frozenset({"E-IR-002", "E-IR-020"})
"""What the verifier says. After a pass that is the pass's fault, not the file's."""


class PassFailed(Exception):
    """A pass raised what it should not, or left a module that does not verify."""


def reproduce(module: Any, failed: list[Pass], cause: Exception, *, write: bool = True) -> PassFailed:
    """Write `module`, as it was before `failed`, with the command that repeats the failure; the error to raise.

    The file is `sexpgpu-reproducer-<digest>.mlir` in SEXPGPU_DUMP, or in the working directory without it; the same
    failure gives the same file. Without `write` there is no file.
    """
    said = f"{failed[0]} failed: {type(cause).__name__}: {cause}"
    if not write:
        return PassFailed(said)
    import hashlib  # no compilation that ends well needs it here

    text = str(module.operation.get_asm(enable_debug_info=True))
    flags = " ".join(f"--{each}" for each in failed)
    digest = hashlib.sha256(f"{flags}\n{text}".encode()).hexdigest()[:12]
    name = f"sexpgpu-reproducer-{digest}.mlir"
    path = (knobs.DUMP.get() or Path()) / name
    command = f"sexpgpu-opt {path} {flags}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"// RUN: {command}\n{text}", "utf-8")
    except OSError as fault:
        return PassFailed(f"{said}\n  no reproducer: {path} cannot be written ({fault.strerror})")
    return PassFailed(f"{said}\n  the module before it is in {path}; this repeats the failure:\n  {command}")
