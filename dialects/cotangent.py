"""What derivative rules ask of a cotangent."""

from __future__ import annotations

from typing import Any

from sexpgpu.dialects.attributes import decode


def is_zero(g: Any) -> bool:
    """Whether a value is the constant 0: nothing flows back to that result, and terms with it need not be built."""
    op = getattr(g.value.owner, "operation", None)
    if op is None or op.name != "sx.constant":
        return False
    value = decode("tensor", op.attributes["value"])
    return bool(value.is_splat and value.data == 0)
