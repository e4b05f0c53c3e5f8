"""raise: composites are recognised however they are written, and become one operation.

    %m = sx.amax %x                      keepdims
    %s = sx.sub %x, (broadcast %m)
    %e = sx.exp %s                                          =>    %p = sx.softmax %x {axis = 1}
    %t = sx.sum %e                       keepdims
    %p = sx.div %e, (broadcast %t)

The patterns are in `patterns/`, one file a family, tried in the order of `FAMILIES`: a later one may build on what an
earlier one has raised. A region is raised where nothing outside reads a value inside of it, and the casts that
`precision` made are part of the patterns: a composite rounds where its spelling did. Runs before autodiff, so that a
gradient uses what its composite saved. A composite says how it was written (`sx.as`); the last operation of a region
that was recognised but left says why (`sx.fell_back`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.passes.base import Pass, functions
from sexpgpu.passes.patterns import activation, attention, cross_entropy, norm, softmax
from sexpgpu.passes.patterns.matching import Match, Node, View, outside
from sexpgpu.passes.recomputing.marks import REGION

AS, FELL_BACK = "sx.as", "sx.fell_back"

FAMILIES: tuple[Callable[[View], Iterator[Match]], ...] = (
    softmax.matches,
    activation.matches,
    norm.matches,
    cross_entropy.matches,
    attention.matches,
)
"""Each gives matches one by one, and meets the function as those before have left it."""


@dataclass(frozen=True)
class Raise(Pass):
    """Raises every composite in every function that takes arguments."""

    name: ClassVar[str] = "raise"

    def run(self, module: Any, context: Context) -> str:
        raised: Counter[str] = Counter()
        for func in functions(module):
            block = func.regions[0].blocks[0]
            if len(block.arguments):
                raised += _raise(View(block), context)
        return ", ".join(f"{count} {op.replace('_', ' ')}" for op, count in raised.most_common())


def _raise(view: View, context: Context) -> Counter[str]:
    raised: Counter[str] = Counter()
    for family in FAMILIES:
        for match in family(view):
            reason = match.fell_back
            if not reason and (read := outside(match)) is not None:
                reason = f"another operation reads the {read.name} inside"
            if reason:
                match.root.op.attributes[FELL_BACK] = ir.StringAttr.get(f"{match.op}: {reason}", context.mlir)
            else:
                _apply(view, match, context)
                raised[match.op] += 1
    return raised


def _apply(view: View, match: Match, context: Context) -> None:
    op = match.root.op
    builder = Builder(context, ir.InsertionPoint(op), op.location)
    assert match.build is not None
    value = match.build(builder, lambda node: _val(builder, node)).value
    marked = REGION in op.attributes
    for made in view.adopt(value):
        if marked:
            made.op.attributes[REGION] = op.attributes[REGION]
        if made.name == match.op and match.form:
            made.op.attributes[AS] = ir.StringAttr.get(match.form, context.mlir)
    view.replace(match.root, value)


def _val(builder: Builder, node: Node) -> Val:
    return Val(builder, node.value, node.type)
