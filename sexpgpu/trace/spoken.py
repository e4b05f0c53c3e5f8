"""What operations say of themselves, in the words of the language."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from sexpgpu.diag import Diagnostic

SPOKEN: Final = {"neg": "-", "broadcast": "broadcast-to", "ceil": "ceiling"}
"""What the language calls operations whose names differ by more than hyphens."""


def spoken(op: str, diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic of an operation, by the name of the function that it is in the language."""
    said, colon, rest = diagnostic.message.partition(": ")
    if said != op or not colon:
        return diagnostic
    name = SPOKEN.get(op, op.replace("_", "-"))
    return evolve(diagnostic, message=f"`{name}`: {rest.replace(f'that {op} does not take', 'that it does not take')}")
