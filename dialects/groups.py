"""Fused groups: calls of private functions that a device runs as one kernel.

    func.func private @row_1(%x, %scale) -> %y attributes {sx.group = "row"} { ... ordinary operations ... }
    %y = func.call @row_1(%x, %scale)

A group is a convex set of operations of one function. What it reads from outside are its operands in order of first
use; what is read outside are its results. The meaning of the call is the body's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Literal, cast, get_args

from attrs import define, field, frozen
from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.loops import CALL, callee
from sexpgpu.dialects.opdef import Composite, Index
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import type_of

Family = Literal["pointwise", "row", "column", "product", "update", "index", "order", "scan", "window", "attention"]
FAMILIES: tuple[str, ...] = get_args(Family)

GROUP, TILE, TILED, FOLD = "sx.group", "sx.tile", "sx.tiled", "sx.fold"
FOLDS = frozenset({"add", "mul", "max", "min", "or", "and"})
"""How a result that no tile holds alone is put together."""

REASON = "sx.fell_back"
"""On an operation or a call: why a family that matched was left to the generic lowering."""


@frozen
class Group:
    """What a device may take as one kernel: its family and the function that says what it computes."""

    family: Family
    symbol: str


def group_of(op: Any, symbols: ir.SymbolTable | None = None) -> tuple[Group, Any] | None:
    """The group that an operation calls and its function, None for any other operation; `symbols` as for `callee`."""
    if op.operation.name != CALL:
        return None
    func = callee(op, symbols)
    group = read_group(func)
    return None if group is None else (group, func)


def read_group(func: Any) -> Group | None:
    """The group that a function is, None for any other function."""
    if GROUP not in func.attributes:
        return None
    return Group(cast(Family, ir.StringAttr(func.attributes[GROUP]).value), _symbol(func))


def check_group(op: Any) -> str | None:
    """What is wrong with a group by what its function says of itself, or None."""
    found = group_of(op)
    if found is None:
        return None
    group, func = found
    if group.family not in FAMILIES:
        return f"{group.symbol} is a group of no family: {group.family}"
    if TILE not in func.attributes:
        return None
    tile = tuple(ir.DenseI64ArrayAttr(func.attributes[TILE]))
    flags = tuple(ir.DenseI64ArrayAttr(func.attributes[TILED])) if TILED in func.attributes else ()
    folds = [ir.StringAttr(fold).value for fold in func.attributes[FOLD]] if FOLD in func.attributes else []
    values = [*op.operands, *op.results]
    if len(flags) != len(values):
        return f"{group.symbol} does not say of each operand and result whether it is cut"
    leading = {type_of(v).shape[: len(tile)] for v, cut in zip(values, flags, strict=True) if cut}
    if len(leading) > 1 or any(len(axes) < len(tile) for axes in leading):
        return f"{group.symbol} cuts tensors that share no leading axes"
    whole = [not cut for cut in flags[len(op.operands) :]]
    if tile and [fold in FOLDS for fold in folds or [""] * len(whole)] != whole:
        return f"{group.symbol} does not say how the results that it does not cut are put together"
    return None


@define(eq=False)
class Outliner:
    """Moves operations of a module into groups; made once a pass, since it knows which names are taken."""

    module: Any
    context: Context
    _taken: set[str] = field(init=False)
    _made: Counter[str] = field(factory=Counter, init=False)

    def __attrs_post_init__(self) -> None:
        names = (op.operation.attributes["sym_name"] for op in self.module.body.operations)
        self._taken = {ir.StringAttr(name).value for name in names}

    def outline(
        self,
        family: Family,
        ops: Sequence[Any],
        at: Any,
        *,
        copied: Collection[int],
        operands: Sequence[Any],
        results: Sequence[Any],
    ) -> tuple[Any, Any]:
        """Move `ops`, in order, into a function of their own: the call in their place, before `at`, and the function.

        `at` is not one of them: every operand made outside stands before it, every reader outside is it or behind it,
        or will be moved there. Those of `ops` whose numbers are `copied` stay where they are as well. `operands` are
        the values that the rest reads from outside, in order of first use, `results` those that are read outside. The
        call carries the location of the first of `ops` that takes indices, by which an index outside its axis is told,
        else that of the last.
        """
        location = next((op.location for op in ops if _takes_indices(op)), ops[-1].location)
        block = self._body(family, [v.type for v in operands], [v.type for v in results])
        func = block.owner.operation
        call = ir.Operation.create(
            CALL,
            results=[v.type for v in results],
            operands=list(operands),
            attributes={"callee": ir.FlatSymbolRefAttr.get(_symbol(func), context=self.context.mlir)},
            loc=location,
            ip=ir.InsertionPoint(at),
        )
        for value, result in zip(results, call.results, strict=True):
            value.replace_all_uses_with(result)
        end = ir.Operation.create("func.return", operands=results, loc=location, ip=ir.InsertionPoint(block))
        inner = dict(zip(operands, block.arguments, strict=True))
        inner.update(zip(call.results, results, strict=True))
        for number, op in enumerate(ops):
            if number in copied:
                own = op.clone(ir.InsertionPoint(end))
                inner.update(zip(op.results, own.results, strict=True))
            else:
                own = op
                op.move_before(end)
            for i, value in enumerate(own.operands):
                if value in inner:
                    own.operands[i] = inner[value]
        return call, func

    def _body(self, family: Family, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """The empty block of a new private function."""
        mlir = self.context.mlir
        symbol = self._free(family)
        nowhere = self.context.location(None)
        func = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(symbol, context=mlir),
                "sym_visibility": ir.StringAttr.get("private", context=mlir),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(operands, results, context=mlir), context=mlir),
                GROUP: ir.StringAttr.get(family, context=mlir),
            },
            regions=1,
            loc=nowhere,
            ip=ir.InsertionPoint(self.module.body),
        )
        return func.regions[0].blocks.append(*operands, arg_locs=[nowhere] * len(operands))

    def _free(self, family: Family) -> str:
        while True:
            self._made[family] += 1
            symbol = f"{family}_{self._made[family]}"
            if symbol not in self._taken:
                return symbol


def _takes_indices(op: Any) -> bool:
    record = definition_of(op)
    match record.kind if record is not None else None:
        case Index() | Composite(family="cross_entropy"):
            return True
        case _:
            return False


def _symbol(func: Any) -> str:
    symbol: str = ir.StringAttr(func.operation.attributes["sym_name"]).value
    return symbol
