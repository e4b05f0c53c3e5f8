"""verify: every operation's types are the ones its record infers, and every function's signature is what it returns.

Upstream verification knows the structure (operands, attributes, dominance); shape and dtype relations are ours, because
IRDL cannot state them. Reports all faults of a module as one E-IR-020 error per operation, at the operation's location.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.groups import check_group
from sexpgpu.dialects.locations import span_of
from sexpgpu.dialects.loops import check_loop
from sexpgpu.dialects.read import check_op
from sexpgpu.passes.base import Pass, functions


@dataclass(frozen=True)
class Verify(Pass):
    """Raises the first fault found; `faults` gives all of them."""

    name: ClassVar[str] = "verify"

    def run(self, module: Any, context: Context) -> None:
        context.verify(module)
        for fault in faults(module):
            raise SxError(fault)


def faults(module: Any) -> list[Diagnostic]:
    """Every operation whose types disagree with its record, every loop and group that does not fit its function."""
    found = []
    for func in functions(module):
        for block in func.regions[0].blocks:
            for op in block.operations:
                text = check_op(op.operation) or check_loop(op.operation) or check_group(op.operation)
                if text is not None:
                    found.append(Diagnostic("E-IR-020", text, span_of(op.location)))
    return found
