"""simplify: the same values from fewer operations.

    %a = sx.mul %x, 1.0         =>  %x
    %b = sx.exp %x  (twice)     =>  one sx.exp
    %c = sx.reshape (reshape x) =>  sx.reshape x
    %d = sx.add 2.0, 3.0        =>  sx.constant 5.0

One forward sweep applies the rule table, folds constants and merges equal operations; one backward sweep removes what
nobody uses. Every rule keeps the value bit for bit, but for the sign of a zero that `x + 0` would clear, for NaN
payloads, and for two rules that add the same terms in another order (a transposed product, a scatter onto a sum).
Constants over 4 KiB are never made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from mlir import ir

from sexpgpu.diag import SxError
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.locations import span_of
from sexpgpu.dialects.loops import CALL
from sexpgpu.dialects.opdef import Array, Constant, Dense, Move, OpDef, Random
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.signature import type_of
from sexpgpu.passes.base import Pass, functions
from sexpgpu.passes.recomputing.marks import CLONE
from sexpgpu.passes.unused import has_private, prune_loops, remove_uncalled

FOLD_LIMIT = 4096
"""Bytes of the largest constant that folding may make."""


@dataclass(frozen=True)
class Simplify(Pass):
    """Identities, constant folding, common subexpressions and dead code, in every function."""

    name: ClassVar[str] = "simplify"

    def run(self, module: Any, context: Context) -> None:
        for func in functions(module):
            _simplify(func, context)
        pending = functions(module) if has_private(module) else []  # a loop needs one: its body
        while pending:
            grown = [func for func in pending if prune_loops(func, module.operation, context)]
            pending = [f for f in functions(module) if "sym_visibility" in f.attributes] if grown else []
            for func in [*grown, *pending]:
                _simplify(func, context)
        remove_uncalled(module)


def _simplify(func: Any, context: Context) -> None:
    block = func.regions[0].blocks[0]
    if len(block.arguments):  # a closed graph runs once: an initializer costs less than looking at it
        _forward(block, context)
        remove_dead(block)


class Site:
    """An operation being looked at: its record, operands and attributes, and what is known of the operands."""

    __slots__ = ("_attrs", "_context", "_known", "_made", "op", "operands", "record")

    def __init__(
        self, op: Any, record: OpDef, context: Context, known: dict[Any, Dense], made: dict[Any, Site]
    ) -> None:
        self.op = op
        self.record = record
        self.operands = list(op.operands)
        self._attrs: dict[str, Any] | None = None
        self._context = context
        self._known = known
        self._made = made

    @property
    def attrs(self) -> dict[str, Any]:
        if self._attrs is None:
            self._attrs = attrs_of(self.op)
        return self._attrs

    @property
    def builder(self) -> Builder:
        """Builds before the operation, at its place."""
        return Builder(self._context, ir.InsertionPoint(self.op), self.op.location)

    def known(self, i: int) -> Dense | None:
        """The constant that operand i is, if it is one."""
        return self._known.get(self.operands[i])

    def constants(self) -> list[Dense]:
        """The constants that the operands are; none unless every operand is one."""
        found = []
        for operand in self.operands:
            constant = self._known.get(operand)
            if constant is None:
                return []
            found.append(constant)
        return found

    def splat(self, i: int) -> float | None:
        """The number that fills operand i, where it is a constant with one."""
        dense = self.known(i)
        return float(dense.data) if dense is not None and dense.is_splat else None

    def maker(self, i: int, name: str) -> Site | None:
        """The operation that made operand i, if it is a `name`."""
        found = self._made.get(self.operands[i])
        return found if found is not None and found.record.name == name else None

    def val(self, value: Any) -> Val:
        return Val(self.builder, value, type_of(value))

    @property
    def result_type(self) -> Any:
        return type_of(self.op.results[0])


Rule = Callable[[Site], Any]
"""A rule gives the value that replaces the operation's result, or None where it does not match."""


def _neutral(number: float, *, either_side: bool) -> Rule:
    """x op number => x, and number op x => x where the operation commutes."""

    def rule(site: Site) -> Any:
        if site.splat(1) == number:
            return site.operands[0]
        if either_side and site.splat(0) == number:
            return site.operands[1]
        return None

    return rule


def _unchanged(site: Site) -> Any:
    """A movement or a cast to the type that the operand has => the operand."""
    same = type_of(site.operands[0]) == site.result_type
    return site.operands[0] if same else None


def _identity_order(site: Site) -> Any:
    """transpose by (0 1 2 ...) => the operand."""
    perm = site.attrs["perm"]
    return site.operands[0] if tuple(perm) == tuple(range(len(perm))) else None


def _twice(name: str) -> Rule:
    """op(op(x)) => x for an operation that undoes itself."""

    def rule(site: Site) -> Any:
        inner = site.maker(0, name)
        return inner.operands[0] if inner is not None and inner.attrs == site.attrs else None

    return rule


def _merge_shapes(name: str) -> Rule:
    """reshape(reshape(x)) => reshape(x), broadcast(broadcast(x)) => broadcast(x)."""

    def rule(site: Site) -> Any:
        inner = site.maker(0, name)
        if inner is None:
            return None
        return site.builder(name, site.val(inner.operands[0]), shape=site.attrs["shape"]).value

    return rule


def _merge_orders(site: Site) -> Any:
    """transpose(transpose(x)) => transpose(x) in the composed order."""
    inner = site.maker(0, "transpose")
    if inner is None:
        return None
    perm = tuple(inner.attrs["perm"][p] for p in site.attrs["perm"])
    return site.builder("transpose", site.val(inner.operands[0]), perm=perm).value


def _no_axes(site: Site) -> Any:
    """A reduction over no axes => the operand."""
    return site.operands[0] if not site.attrs["axes"] and type_of(site.operands[0]) == site.result_type else None


def _power_of_two_divisor(site: Site) -> Any:
    """x / 2^k => x * 2^-k: exact, and a product is cheaper."""
    by = site.splat(1)
    if by is None or by == 0 or not np.isfinite(by) or abs(np.frexp(by)[0]) != 0.5 or not 1e-30 < abs(by) < 1e30:
        return None
    x = site.val(site.operands[0])
    return (x * (1.0 / by)).value


def _constant_test(site: Site) -> Any:
    """where(true, x, y) => x, where(false, x, y) => y."""
    test = site.splat(0)
    return None if test is None else site.operands[1 if test else 2]


def _transposed_product(site: Site) -> Any:
    """transpose(matmul(a, b)) of the last two axes => matmul(transpose(b), transpose(a)): views, and no copy."""
    perm = tuple(site.attrs["perm"])
    rank = len(perm)
    swap = (*range(rank - 2), rank - 1, rank - 2)
    inner = site.maker(0, "matmul") or site.maker(0, "matmul_wide")
    if inner is None or perm != swap or not _read_once(site.operands[0]):
        return None
    a, b = (site.val(v) for v in inner.operands)
    if not a.type.rank == b.type.rank == rank:
        return None
    build = site.builder
    return build(inner.record.name, build("transpose", b, perm=swap), build("transpose", a, perm=swap)).value


def _scattered_onto(side: int) -> Rule:
    """add(x, scatter_add(0, places, updates)) => scatter_add(x, places, updates): no second tensor of x's size."""

    def rule(site: Site) -> Any:
        inner = site.maker(side, "scatter_add")
        if inner is None or inner.splat(0) != 0 or not _read_once(site.operands[side]):
            return None
        x, places, updates = (site.val(v) for v in (site.operands[1 - side], *inner.operands[1:]))
        return site.builder("scatter_add", x, places, updates, **inner.attrs).value

    return rule


def _read_once(value: Any) -> bool:
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


RULES: dict[str, tuple[Rule, ...]] = {
    "add": (_neutral(0.0, either_side=True), _scattered_onto(0), _scattered_onto(1)),
    "sub": (_neutral(0.0, either_side=False),),
    "mul": (_neutral(1.0, either_side=True),),
    "div": (_neutral(1.0, either_side=False), _power_of_two_divisor),
    "pow": (_neutral(1.0, either_side=False),),
    "neg": (_twice("neg"),),
    "logical_not": (_twice("logical_not"),),
    "flip": (_twice("flip"),),
    "cast": (_unchanged,),
    "reshape": (_unchanged, _merge_shapes("reshape")),
    "broadcast": (_unchanged, _merge_shapes("broadcast")),
    "transpose": (_identity_order, _merge_orders, _transposed_product),
    "slice": (_unchanged,),
    "pad": (_unchanged,),
    "sum": (_no_axes,),
    "amax": (_no_axes,),
    "amin": (_no_axes,),
    "where": (_constant_test,),
}


def _forward(block: Any, context: Context) -> None:
    known: dict[Any, Dense] = {}
    made: dict[Any, Site] = {}
    seen: dict[Any, Any] = {}
    pending = [op.operation for op in block.operations][:-1]
    pending.reverse()
    while pending:
        op = pending.pop()
        name = op_name(op)
        if name == CALL:
            continue
        site = Site(op, OPS[name], context, known, made)
        value = _rewrite(site, RULES.get(name, ()))
        if value is not None:
            op.results[0].replace_all_uses_with(value)
            op.erase()
            pending += reversed(_unseen(value, made))
            continue
        attributes = op.attributes
        own = [attributes[a.name] for a in site.record.attrs]
        if CLONE in attributes:  # a clone stands apart from what it repeats
            own.append(attributes[CLONE])
        key = (name, *site.operands, *own)
        same = seen.setdefault(key, op)
        if same is not op:
            for old, new in zip(op.results, same.results, strict=True):
                old.replace_all_uses_with(new)
            op.erase()
            continue
        results = list(op.results)
        if isinstance(site.record.kind, Constant) and "value" in site.attrs:
            known[results[0]] = site.attrs["value"]
        made.update(dict.fromkeys(results, site))


def _rewrite(site: Site, rules: tuple[Rule, ...]) -> Any:
    for rule in rules:
        value = rule(site)
        if value is not None:
            return value
    constants = site.constants()
    return _fold(site, constants) if constants else None


def _fold(site: Site, constants: list[Dense]) -> Any:
    """An operation on constants => its value, where that is small; a splat that moves stays a splat."""
    kind = site.record.kind
    if site.record.results != 1 or isinstance(kind, Random):
        return None
    result = site.result_type
    first = constants[0]
    if isinstance(kind, Move) and len(constants) == 1 and first.is_splat and result.size and kind.views:
        return site.builder.constant(first.data, result).value
    if max(result.nbytes, *(c.type.nbytes for c in constants)) > FOLD_LIMIT or result.size == 0:
        return None
    with np.errstate(all="ignore"):
        try:
            array = site.record.numpy(*(c.array() for c in constants), **site.attrs)
        except SxError as fault:  # an index outside its axis, known before the graph runs
            raise SxError(fault.diagnostic.at(span_of(site.op.location))) from None
    if result.dtype == "bf16":
        array = round_bf16(array)
    return site.builder.constant(array.flat[0].item() if _is_one_number(array) else np.array(array), result).value


def _is_one_number(array: Array) -> bool:
    """Whether every element is the first one; zeros of both signs are equal, but they are two numbers."""
    first = array.flat[0]
    return bool((array == first).all() and (first != 0 or (np.signbit(array) == np.signbit(first)).all()))


def _unseen(value: Any, made: dict[Any, Site]) -> list[Any]:
    """Operations a rule has just made for `value`, operands first."""
    if value in made or not isinstance(value, ir.OpResult):
        return []
    op = value.owner
    return [before for v in op.operands for before in _unseen(v, made)] + [op]


def remove_dead(block: Any) -> None:
    """Erase the operations of `block` that nobody uses."""
    for op in reversed([op.operation for op in block.operations][:-1]):
        for result in op.results:
            if next(iter(result.uses), None) is not None:
                break
        else:
            op.erase()
