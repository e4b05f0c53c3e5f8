"""Instructions on registers: numbers, comparisons, vectors. Every operation of a kernel is added here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.passes.gpu.registers import FLOATS, KernelModule, Reg


@define(eq=False)
class Instructions:
    """A kernel as a place to add operations at: `at`. Scalars and vectors take the same ones."""

    module: KernelModule
    name: str
    block: int
    wide: bool = False
    at: Any = field(init=False, default=None)
    location: Any = field(init=False)

    @property
    def context(self) -> Context:
        return self.module.context

    @property
    def index(self) -> str:
        """The type of indices."""
        return "i64" if self.wide else "i32"

    # Numbers

    def const(self, value: bool | int | float, type: str, lanes: int = 0) -> Reg:
        scalar = self.type(type)
        if type in FLOATS:
            attribute = ir.FloatAttr.get(scalar, float(value), loc=self.location)
        else:
            attribute = ir.IntegerAttr.get(scalar, _wrapped(int(value), type))
        if lanes:
            attribute = ir.DenseElementsAttr.get_splat(self.type(type, lanes), attribute)
        return Reg(self.emit("arith.constant", [self.type(type, lanes)], [], {"value": attribute}), type, lanes)

    def op(self, name: str, *operands: Reg, type: str | None = None, **attributes: Any) -> Reg:
        """An operation whose result is like its first operand, or of another scalar `type`."""
        first = operands[0]
        kind = type if type is not None else first.type
        value = self.emit(name, [self.type(kind, first.lanes)], [o.value for o in operands], attributes)
        return Reg(value, kind, first.lanes)

    def compare(self, how: str, a: Reg, b: Reg) -> Reg:
        """`how` is `eq ne lt le gt ge`, ordered but for `ne`; integers are signed."""
        if a.type in ("f32", "f64"):
            predicate = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5, "ne": 13}[how]
            return self.op("arith.cmpf", a, b, type="i1", predicate=self._i64(predicate))
        predicate = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}[how]
        return self.op("arith.cmpi", a, b, type="i1", predicate=self._i64(predicate))

    def select(self, condition: Reg, a: Reg, b: Reg) -> Reg:
        value = self.emit("arith.select", [self.type(a.type, a.lanes)], [condition.value, a.value, b.value])
        return Reg(value, a.type, a.lanes)

    def wide_product(self, a: Reg, b: int) -> tuple[Reg, Reg]:
        """The low and the high half of an unsigned product of 32-bit numbers."""
        type = self.type("i32", a.lanes)
        factor = self.const(b, "i32", a.lanes)
        op = self._create("arith.mului_extended", [type, type], [a.value, factor.value], {})
        low, high = op.results
        return Reg(low, "i32", a.lanes), Reg(high, "i32", a.lanes)

    # Vectors

    def splat(self, a: Reg, lanes: int) -> Reg:
        if not lanes or a.lanes:
            return a
        return Reg(self.emit("vector.broadcast", [self.type(a.type, lanes)], [a.value]), a.type, lanes)

    def lane(self, a: Reg, number: int) -> Reg:
        """One element of a vector; a scalar is the same in every lane."""
        if not a.lanes:
            return a
        where = {"static_position": ir.DenseI64ArrayAttr.get([number], context=self.context.mlir)}
        return Reg(self.emit("vector.extract", [self.type(a.type)], [a.value], where), a.type)

    def pack(self, elements: Sequence[Reg]) -> Reg:
        """A vector of scalars."""
        type = elements[0].type
        value = self.emit("vector.from_elements", [self.type(type, len(elements))], [e.value for e in elements])
        return Reg(value, type, len(elements))

    def counting(self, lanes: int, type: str = "") -> Reg:
        """The vector 0, 1, 2, ..."""
        type = type or self.index
        whole = self.type(type, lanes)
        each = ", ".join(map(str, range(lanes)))
        value = ir.Attribute.parse(f"dense<[{each}]> : {whole}", self.context.mlir)
        return Reg(self.emit("arith.constant", [whole], [], {"value": value}), type, lanes)

    def joined(self, vectors: Sequence[Reg]) -> Reg:
        """One vector behind another."""
        return self.pack([self.lane(v, i) for v in vectors for i in range(v.lanes)])

    # MLIR

    def type(self, name: str, lanes: int = 0) -> Any:
        return self.module.type(name, lanes)

    def emit(
        self, name: str, results: Sequence[Any], operands: Sequence[Any], attributes: dict[str, Any] | None = None
    ) -> Any:
        """Any operation of MLIR; its only result, or None."""
        made = self._create(name, results, operands, attributes or {})
        return made.results[0] if results else None

    def _create(
        self, name: str, results: Sequence[Any], operands: Sequence[Any], attributes: dict[str, Any], regions: int = 0
    ) -> Any:
        return ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=attributes,
            regions=regions,
            loc=self.location,
            ip=self.at,
        )

    def _i64(self, value: int) -> Any:
        return ir.IntegerAttr.get(self.type("i64"), value)


def _wrapped(value: int, type: str) -> int:
    """The number that the bits of an integer type make of `value`, as a signed one."""
    bits = int(type[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value
