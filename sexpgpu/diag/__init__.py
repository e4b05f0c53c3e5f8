"""Diagnostics: what the compiler and the loop say to a user, as plain data.

A user's fault is a `Diagnostic` (never a traceback): raise `SxError(diagnostic)` where going on makes
no sense, or report it to a `Diagnostics` collection and go on. A fault of ours is any other exception.
"""

from sexpgpu.diag.fix import apply_edits
from sexpgpu.diag.record import (
    CallSite,
    Culprit,
    Diagnostic,
    Diagnostics,
    Edit,
    Note,
    Severity,
    Span,
    SxError,
    error,
    inside_note,
    nearest,
    warning,
)
from sexpgpu.diag.render import Sources, render, to_json

__all__ = [
    "CallSite",
    "Culprit",
    "Diagnostic",
    "Diagnostics",
    "Edit",
    "Note",
    "Severity",
    "Sources",
    "Span",
    "SxError",
    "apply_edits",
    "error",
    "inside_note",
    "nearest",
    "render",
    "to_json",
    "warning",
]
