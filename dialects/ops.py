"""The table: every operation of the dialect by its name."""

from __future__ import annotations

from sexpgpu.dialects import elementwise, movement
from sexpgpu.dialects.opdef import OpDef

OPS: dict[str, OpDef] = {
    op.name: op for module in (elementwise, movement) for op in module.OPERATIONS
}
