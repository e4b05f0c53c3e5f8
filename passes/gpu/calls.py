"""The groups that calls name, each looked up and read once: for whoever goes through many calls and changes none."""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen
from mlir import ir

from sexpgpu.dialects.groups import Group, read_group
from sexpgpu.dialects.loops import CALL, module_of
from sexpgpu.passes.flow import operations_of
from sexpgpu.passes.gpu.annotation import read_launches
from sexpgpu.plan.records import Launches


@frozen(eq=False)
class Called:
    """A group as its function says it: the operations `inside`, and what runs in their stead, if anything does."""

    group: Group
    func: Any
    inside: list[Any]
    launches: Launches | None


@define(eq=False)
class Groups:
    """The groups of the module around an operation, as long as the module stays as it is."""

    around: Any
    _symbols: ir.SymbolTable = field(init=False)
    _read: dict[str, Called | None] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._symbols = ir.SymbolTable(module_of(self.around))

    def called(self, op: Any) -> Called | None:
        """The group that an operation calls, None for any other operation."""
        if op.operation.name != CALL:
            return None
        symbol = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        if symbol not in self._read:
            func = self._symbols[symbol].operation
            group = read_group(func)
            made = None if group is None else Called(group, func, operations_of(func)[:-1], read_launches(func))
            self._read[symbol] = made
        return self._read[symbol]
