"""Building operations: values with operators, and the one function that adds an operation to a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.opdef import Array, Dense, OpDef
from sexpgpu.dialects.ops import OPS
from sexpgpu.tensortype import TensorType

Number = int | float


class Val:
    """A value of a graph. Operators take a value of the same type or a number, which fills that type."""

    __slots__ = ("builder", "type", "value")

    def __init__(self, builder: Builder, value: ir.Value, type: TensorType) -> None:
        self.builder = builder
        self.value = value
        self.type = type

    def __repr__(self) -> str:
        return f"Val({self.type})"

    def _operand(self, other: Val | Number) -> Val:
        return other if isinstance(other, Val) else self.builder.constant(other, self.type)

    def __add__(self, other: Val | Number) -> Val:
        return self.builder("add", self, self._operand(other))

    def __radd__(self, other: Number) -> Val:
        return self.builder("add", self._operand(other), self)

    def __sub__(self, other: Val | Number) -> Val:
        return self.builder("sub", self, self._operand(other))

    def __rsub__(self, other: Number) -> Val:
        return self.builder("sub", self._operand(other), self)

    def __mul__(self, other: Val | Number) -> Val:
        return self.builder("mul", self, self._operand(other))

    def __rmul__(self, other: Number) -> Val:
        return self.builder("mul", self._operand(other), self)

    def __truediv__(self, other: Val | Number) -> Val:
        return self.builder("div", self, self._operand(other))

    def __rtruediv__(self, other: Number) -> Val:
        return self.builder("div", self._operand(other), self)

    def __neg__(self) -> Val:
        return self.builder("neg", self)


class Builder:
    """Adds operations at an insertion point, each with the current location."""

    __slots__ = ("context", "ip", "location")

    def __init__(self, context: Context, ip: ir.InsertionPoint, location: ir.Location | None = None) -> None:
        self.context = context
        self.ip = ip
        self.location = location if location is not None else context.location(None)

    def __call__(self, op: str, *operands: Val, **attrs: Any) -> Val:
        """Adds an operation of one result. Raises the user's error of its `infer`, which has no span."""
        definition = OPS[op]
        type: TensorType = definition.infer(*[operand.type for operand in operands], **attrs)
        return Val(self, self._create(definition, operands, (type,), attrs).result, type)

    def several(self, op: str, *operands: Val, **attrs: Any) -> tuple[Val, ...]:
        """Adds an operation of several results."""
        definition = OPS[op]
        types: tuple[TensorType, ...] = definition.infer(*[operand.type for operand in operands], **attrs)
        created = self._create(definition, operands, types, attrs)
        return tuple(Val(self, value, type) for value, type in zip(created.results, types, strict=True))

    def constant(self, value: bool | Number | Array, type: TensorType) -> Val:
        """A constant of the type: a number fills it, an array must have its shape."""
        return self("constant", value=Dense(type, value))

    @contextmanager
    def at(self, ip: ir.InsertionPoint) -> Iterator[None]:
        """Within the block, operations are added at `ip`."""
        before, self.ip = self.ip, ip
        try:
            yield
        finally:
            self.ip = before

    def _create(
        self, op: OpDef, operands: tuple[Val, ...], types: tuple[TensorType, ...], attrs: dict[str, Any]
    ) -> ir.Operation:
        context = self.context
        return ir.Operation.create(
            "sx." + op.name,
            results=[context.type(type) for type in types],
            operands=[operand.value for operand in operands],
            attributes={a.name: context.attribute(a.type, attrs[a.name]) for a in op.attrs},
            loc=self.location,
            ip=self.ip,
        )
