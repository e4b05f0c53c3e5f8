"""What is told of whatever ends a run."""

from __future__ import annotations

from pathlib import Path

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.runtime.arrays import NoMemory
from sexpgpu.runtime.room import not_given


def told(fault: SxError | OSError | MemoryError | NoMemory, directory: Path) -> Diagnostic:
    """The diagnostic of a fault that is the user's, or his machine's."""
    match fault:
        case NoMemory():
            return not_given(fault)
        case SxError():
            return fault.diagnostic
        case OSError():
            return _not_written(directory, fault)
    help = "a smaller model or batch, or more :microbatches"
    return Diagnostic("E-MEM-002", "there is not enough memory for this run", actual=str(fault) or None, help=help)


def internal(fault: Exception) -> Diagnostic:
    """A fault of ours, for the record of the run: it goes on to whoever called."""
    return Diagnostic("E-INT-001", f"a fault of sexpgpu: {type(fault).__name__}: {fault}")


def _not_written(directory: Path, fault: OSError) -> Diagnostic:
    where = f" ({fault.filename})" if fault.filename else ""
    reason = f"{fault.strerror or fault}{where}"
    return Diagnostic("E-IO-001", f"{directory} cannot be written", actual=reason)
