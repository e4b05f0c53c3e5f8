"""Functions that need the evaluator itself: calls, symbols as names, conditions, and what analysed code uses."""

from __future__ import annotations

from sexpgpu.lang.builtin import Library


def standard_core() -> tuple[Library, ...]:
    """Every library of this package."""
    from sexpgpu.lang.core import access, destructuring, evaluation, quasi, signalling

    return (
        access.library,
        access.properties,
        destructuring.destructuring,
        evaluation.library,
        quasi.quasi,
        signalling.library,
    )
