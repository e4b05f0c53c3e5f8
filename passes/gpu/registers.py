"""Values of a kernel while it is written: registers, pointers, turns of loops; and the module that kernels go to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from mlir import ir

from sexpgpu.dialects.context import Context

WARP = 32
BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "i8": 1, "i1": 1}
"""Bytes of a scalar in memory; an i1 is only ever in a register."""
FLOATS = frozenset({"f64", "f32", "bf16"})


@frozen(eq=False)
class Reg:
    """A value in registers: one scalar of `type` (`lanes` 0) or a vector of `lanes` of them."""

    value: Any
    type: str
    lanes: int = 0


@frozen(eq=False)
class Pointer:
    """Where elements of `type` begin; `space` 1 is global memory, 3 shared. Aligned to `align` bytes."""

    value: Any
    type: str
    space: int = 1
    align: int = 16
    constant: bool = False  # nothing writes there while the kernel runs


Index = int | Reg
Writer = Callable[[], Reg]


@define(eq=False)
class Loop:
    """A turn of a loop while its body is written, and the loop's results behind it."""

    index: Reg
    carried: list[Reg]
    given: list[Reg] = field(factory=list, init=False)
    results: list[Reg] = field(factory=list, init=False)

    def next(self, *values: Reg) -> None:
        """What the next turn carries."""
        self.given = list(values)


@define(eq=False)
class KernelModule:
    """A `gpu.module` being filled, for a chip: its block, and the MLIR types that its kernels share."""

    context: Context
    block: Any
    chip: str
    _types: dict[tuple[str, int], Any] = field(factory=dict, init=False)

    def type(self, name: str, lanes: int = 0) -> Any:
        """The MLIR type of a scalar, or of a vector of them."""
        found = self._types.get((name, lanes))
        if found is None:
            text = f"vector<{lanes}x{name}>" if lanes else name
            found = self._types[name, lanes] = ir.Type.parse(text, self.context.mlir)
        return found
