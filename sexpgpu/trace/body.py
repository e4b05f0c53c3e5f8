"""A function that a loop iterates, traced inside another graph, whose tensors it reads by taking them as arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from sexpgpu.diag import Span
from sexpgpu.dialects.builder import Val
from sexpgpu.dialects.loops import close_body
from sexpgpu.experiment import InputRole
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.tensor import Tensor


class BodyTrace(GraphTrace):
    """The body of a loop in `parent` with `turns` turns.

    Arguments are made in the order that a loop passes them: states and items by `argument`, then whatever of `parent`
    the body reaches for, in order of first use: `reached` are those tensors of `parent`.
    """

    def __init__(self, parent: GraphTrace, turns: int) -> None:
        super().__init__(
            parent.tracer,
            f"{parent.name} body",
            training=parent.training,
            rows=parent.rows,
            stream=parent.stream,
            prefix=parent.prefix,
        )
        self.parent = parent
        self.turns = turns
        self.path = parent.path
        self.made = parent.made
        self.frozen = parent.frozen
        self.thawed = parent.thawed
        self.within = [*parent.within, "scan"]
        self.reached: list[Tensor] = []
        self._turn: Tensor | None = None
        self._here: dict[Any, Tensor] = {}
        self._sites = parent._sites
        self.scope = parent.scope
        self.func.attributes["sym_visibility"] = ir.StringAttr.get("private", context=self.context.mlir)
        del self.func.attributes["sx.graph"]

    @property
    def symbol(self) -> str:
        name: str = ir.StringAttr(self.func.attributes["sym_name"]).value
        return name

    def argument(self, type: TensorType, span: Span | None, source: str) -> Tensor:
        """The next argument of the body."""
        value = self.block.add_argument(self.context.type(type), self.location(span))
        return Tensor(self, Val(self.builder, value, type), span, source)

    def turn_argument(self) -> None:
        """Make the next argument the number of the turn, an i32 scalar, for `random_counter`."""
        self._turn = self.argument(TensorType((), "i32"), None, "the turn of the loop")

    def reach(self, tensor: Tensor) -> Tensor:
        """A tensor of the graphs around as one of this; E-FLOW-002 for a tensor of any other."""
        if tensor.graph is self:
            return tensor
        outer = tensor if tensor.graph is self.parent else self.parent.reach(tensor)
        if outer.val.value not in self._here:
            self.reached.append(outer)
            self._here[outer.val.value] = self.argument(outer.type, outer.span, outer.source)
        return self._here[outer.val.value]

    def input(
        self,
        role: InputRole,
        name: str,
        type: TensorType,
        *,
        frozen: bool = False,
        span: Span | None = None,
        source: str | None = None,
    ) -> Tensor:
        """An argument of the graph that the loops are in."""
        return self.reach(self.parent.input(role, name, type, frozen=frozen, span=span, source=source))

    def random_counter(self) -> Tensor:
        """The counters of the graph around, with the turn as a further digit of the trip."""
        assert self._turn is not None
        if self._counter is None:
            around = self.reach(self.parent.random_counter())
            place = self.constant(np.array([0, 0, self.turns - 1], np.int32), TensorType((3,), "i32"))
            one = self.constant(np.array([0, 0, 1], np.int32), TensorType((3,), "i32"))
            scaled = self.emit("add", around, self.emit("mul", around, place))
            turn = self.emit("broadcast", self._turn, shape=(3,))
            self._counter = self.emit("add", scaled, self.emit("mul", turn, one))
        return self._counter

    def close(self, results: list[Tensor]) -> bool:
        """End the body with what it gives; whether it takes the number of its turn, whose argument goes if not."""
        close_body(self.block, [t.val.value for t in results], self.context.location(None))
        assert self._turn is not None
        turn = self._turn.val.value
        if next(iter(turn.uses), None) is not None:
            return True
        self.block.erase_argument(turn.arg_number)
        close_type(self.func)
        return False


def close_type(func: Any) -> None:
    """Set the function's type again from its block."""
    block = func.regions[0].blocks[0]
    returned = list(block.operations)[-1].operands
    type = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in returned], context=func.context)
    func.attributes["function_type"] = ir.TypeAttr.get(type, context=func.context)
