"""precision: which values are bf16, decided for each primitive operation of the forward graphs.

    %h = sx.matmul %x, %w : f32                      %a = sx.cast %x : bf16
    %r = sx.relu %h       : f32                =>    %b = sx.cast %w : bf16
    %s = sx.sum %r        : f32                      %h = sx.matmul %a, %b : bf16
                                                     %r = sx.relu %h : bf16
                                                     %c = sx.cast %r : f32
                                                     %s = sx.sum %c : f32

Under bf16 the operands of products and what they give are bf16 (accumulated in f32); sums, exponentials, norms and
the like are islands of f32 (`wide`); what lies between follows. An operation that has an operand from an island, or
whose one reader is an island, belongs to it, so that a composite and its spelling in primitives are rounded at the same
places. Parameters, batches and constants are f32 and are rounded where they are read. Runs before autodiff: a gradient
has the dtype of its value, and the derivative of an island is one. A loop's body keeps the dtypes of its arguments and
results. `(with-numerics ...)` marks operations with a policy of their own (`sx.numerics`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from mlir import ir

from sexpgpu.diag import error
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.loops import CALL, loop_of
from sexpgpu.dialects.opdef import Constant, Contract, Index, Move, Order, Pointwise, Random, Window
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.signature import input_roles, output_roles, type_of
from sexpgpu.passes.base import Pass, graphs

MARK = "sx.numerics"
ADDED = "sx.policy"

Class = Literal["product", "island", "between", "given"]
"""What an operation asks of its float operands; `given` is one that has none: it is f32 and rounded by its readers."""


@dataclass(frozen=True)
class Precision(Pass):
    """Applies `policy` (f32 or bf16; `module`: what the module says) to every graph that reads a batch."""

    name: ClassVar[str] = "precision"
    policy: str = "module"

    def run(self, module: Any, context: Context) -> None:
        if self.policy not in ("module", "f32", "bf16"):
            raise error("E-IR-011", f"`sx-precision` knows no policy `{self.policy}`", expected="f32, bf16 or module")
        attributes = module.operation.attributes
        policy = self.policy
        if policy == "module":
            policy = ir.StringAttr(attributes["sx.precision"]).value if "sx.precision" in attributes else "f32"
        done: set[str] = set()
        for func in graphs(module):
            roles = {*output_roles(func), *input_roles(func)}
            if roles & {"loss", "metric", "field", "sample"} and not roles & {"grad"}:
                _apply(func, policy, context, done)


def _apply(func: Any, policy: str, context: Context, done: set[str]) -> None:
    block = func.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    policies = {op: _policy(op, policy) for op in ops}
    for op in ops[:-1]:
        if (found := loop_of(op)) is not None and found[0].body not in done:
            done.add(found[0].body)
            _apply(found[1], policies[op], context, done)
    if "bf16" in policies.values():
        _Rewrite(context, policies).run(ops)


def _policy(op: Any, policy: str) -> str:
    return ir.StringAttr(op.attributes[MARK]).value if MARK in op.attributes else policy


def _class_of(op: Any, policy: str) -> Class:
    if op.name == CALL or policy != "bf16":
        return "island"
    kind = OPS[op_name(op)].kind
    match kind:
        case Constant() | Random():
            return "given"
        case Contract() | Window(combine="dot"):
            return "product"
        case Pointwise(scalar="cast"):
            return "given" if not type_of(op.operands[0]).is_float else "island"
        case Pointwise():
            return "island" if kind.wide else "between"
        case Move() | Order() | Index(access="read") | Window(combine="max"):
            return "between"
        case _:
            return "island"


class _Rewrite:
    """The rewriting of one function."""

    def __init__(self, context: Context, policies: dict[Any, str]) -> None:
        self.context = context
        self.policies = policies
        self.classes: dict[Any, Class] = {}
        self.casts: dict[tuple[Any, str], Val] = {}

    def run(self, ops: list[Any]) -> None:
        body, terminator = ops[:-1], ops[-1]
        for op in body:
            self.classes[op] = _class_of(op, self.policies[op])
        self._spread(body)
        for op in body:
            self._retype(op)
        self._cast_operands(terminator, "f32")

    def _spread(self, body: list[Any]) -> None:
        """Islands take in what has an operand from one, and what only one of them reads."""
        changed = True
        while changed:
            changed = False
            for op in body:
                if self.classes[op] == "between" and any(self._wide(v) for v in op.operands):
                    self.classes[op] = "island"
                    changed = True
            for op in reversed(body):
                if self.classes[op] == "between" and self._one_island_reads(op):
                    self.classes[op] = "island"
                    changed = True

    def _wide(self, value: Any) -> bool:
        owner = value.owner
        if isinstance(owner, ir.Block) or not type_of(value).is_float:
            return False
        return self.classes[owner.operation] == "island" and owner.operation.name != CALL

    def _one_island_reads(self, op: Any) -> bool:
        if len(op.results) != 1 or not type_of(op.results[0]).is_float:
            return False
        readers = [use.owner.operation for use in op.results[0].uses]
        return len(readers) == 1 and self.classes.get(readers[0]) == "island" and readers[0].name != CALL

    def _retype(self, op: Any) -> None:
        match self.classes[op]:
            case "product":
                self._become(op, "bf16")
            case "island":
                if op.name == CALL or op_name(op) != "cast":
                    self._cast_operands(op, "f32")
            case "between":
                dtypes = {type_of(v).dtype for v in op.operands if type_of(v).is_float}
                if "bf16" in dtypes:
                    self._become(op, "bf16")
            case "given":
                pass

    def _become(self, op: Any, dtype: str) -> None:
        """Give the operation operands of `dtype`, and the results that follow from them."""
        self._cast_operands(op, dtype)
        record = OPS[op_name(op)]
        inferred = record.infer(*[type_of(v) for v in op.operands], **attrs_of(op))
        types = inferred if isinstance(inferred, tuple) else (inferred,)
        for result, type in zip(op.results, types, strict=True):
            result.set_type(self.context.type(type))

    def _cast_operands(self, op: Any, dtype: str) -> None:
        for i, value in enumerate(op.operands):
            type = type_of(value)
            if type.dtype in ("f32", "bf16") and type.dtype != dtype:
                op.operands[i] = self._cast(op, value, dtype).value

    def _cast(self, reader: Any, value: Any, dtype: str) -> Val:
        key = (value, dtype)
        if key not in self.casts:
            builder = Builder(self.context, ir.InsertionPoint(reader), reader.location)
            made = builder("cast", Val(builder, value, type_of(value)), dtype=dtype)
            made.value.owner.attributes[ADDED] = ir.UnitAttr.get(context=self.context.mlir)
            self.casts[key] = made
        return self.casts[key]
