"""A function of the module as a list of NumPy calls over numbered slots.

`load` walks the function once; running it never touches MLIR. A value's array is dropped after its last use, and its
memory goes to later values of the call: what an operation writes into is chosen when it runs, from what has been
freed, so the peak is the graph's live set and large pages are touched once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.diag import Span, SxError, error
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.locations import span_of
from sexpgpu.dialects.loops import loop_of
from sexpgpu.dialects.opdef import (
    Array,
    Constant,
    Contract,
    Dense,
    Index,
    Kind,
    Move,
    Order,
    Pointwise,
    Row,
    Window,
    numpy_dtype,
)
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.signature import read_graph, type_of
from sexpgpu.experiment import Graph
from sexpgpu.interp.loops import Iteration
from sexpgpu.tensortype import TensorType

POOLED_BYTES = 16 * 1024
"""Arrays below this size are left to NumPy's own allocator."""


@frozen
class Instruction:
    """One operation: `run(*slots[ins])` gives the values of `outs`; slots in `dead` are not read again.

    `released` are the owners of memory that nothing reads any more, `recycled` those of them that this function
    owns. `out` is the type of a result that may be written into recycled memory; `in_place` the operand whose memory
    it may take over.
    """

    op: str
    run: Callable[..., Any]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    dead: tuple[int, ...]
    released: tuple[int, ...]
    recycled: tuple[int, ...]
    out: TensorType | None
    in_place: int | None
    inner: int  # bytes that running it takes beside its operands and results
    rounds: bool  # the result is bf16, whose values are rounded where they are made
    view: bool  # the result shares the memory of its operand
    span: Span | None


class Program:
    """A callable graph: `program(arrays)` takes the inputs of `spec` in order and gives its outputs in order.

    Arrays are of exactly the declared shapes and NumPy dtypes; bf16 is float32 holding rounded values. Inputs are
    never written to; outputs are arrays of their own, which the caller may change.
    """

    def __init__(
        self,
        spec: Graph,
        instructions: Sequence[Instruction],
        constants: dict[int, Array],
        results: Sequence[tuple[int, bool]],
        types: Sequence[TensorType],
    ) -> None:
        self.spec = spec
        self.instructions = tuple(instructions)
        self.constants = constants
        self.results = tuple(results)
        self.types = tuple(types)

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        slots: list[Any] = [None] * len(self.types)
        slots[: len(inputs)] = inputs
        for slot, array in self.constants.items():
            slots[slot] = array
        free: dict[tuple[int, Any], list[Array]] = {}
        step = None
        try:
            with np.errstate(all="ignore"):
                for step in self.instructions:
                    _execute(step, slots, free)
        except SxError as fault:
            assert step is not None
            raise SxError(fault.diagnostic.at(step.span)) from None
        except MemoryError:
            assert step is not None
            sizes = " and ".join(str(self.types[slot]) for slot in step.outs)
            raise error(
                "E-MEM-002",
                f"there is not enough memory for {sizes}, the result of {step.op} in graph `{self.spec.name}`",
                step.span,
                help="a smaller batch, or more :microbatches",
            ) from None
        return [np.array(slots[i]) if shared else slots[i] for i, shared in self.results]

    def origin_not_finite(self, inputs: Sequence[Array]) -> tuple[str, Span | None] | None:
        """What first is not finite in a call with these inputs: one of them, or the result of an operation.

        An operation counts that makes NaN of what has none, or infinities of finite numbers; passing on the
        -inf of a mask does not. None when there is no such.
        """
        for slot, array in zip(self.spec.inputs, inputs, strict=True):
            if _badness(array):
                return f"the {slot.role} {slot.name}", None
        slots: list[Any] = [None] * len(self.types)
        slots[: len(inputs)] = inputs
        for number, array in self.constants.items():
            slots[number] = array
        found = [_badness(array) for array in slots]
        with np.errstate(all="ignore"):
            for step in self.instructions:
                _execute(step, slots, {})
                for number in step.outs:
                    found[number] = _badness(slots[number])
                if max(found[o] for o in step.outs) > max((found[i] for i in step.ins), default=0):
                    return f"the result of {step.op}", step.span
        return None

    def peak_bytes(self) -> int:
        """The most memory that values made by the graph take at once: an upper bound, inputs and constants apart."""
        live = peak = 0
        sizes = [t.size * numpy_dtype(t.dtype).itemsize for t in self.types]
        held: dict[int, int] = {}
        for step in self.instructions:
            if step.in_place is not None:
                live -= held.pop(step.in_place, 0)
            for slot in step.outs:
                if not step.view:
                    held[slot] = sizes[slot]
                    live += sizes[slot]
            peak = max(peak, live + step.inner)
            for slot in step.released:
                live -= held.pop(slot, 0)
        return peak


def _badness(array: Array | None) -> int:
    """2 where there is a NaN, 1 where there is an infinity, else 0."""
    if array is None or array.dtype.kind != "f" or np.isfinite(array).all():
        return 0
    return 2 if np.isnan(array).any() else 1


def _execute(step: Instruction, slots: list[Any], free: dict[tuple[int, Any], list[Array]]) -> None:
    """Run one operation, then forget what it was the last to read."""
    ins = [slots[i] for i in step.ins]
    value = step.run(*ins) if step.out is None else step.run(*ins, out=_memory(step, slots, free))
    if step.rounds:
        value = round_bf16(value)
    if len(step.outs) == 1:
        slots[step.outs[0]] = value
    else:
        for slot, part in zip(step.outs, value, strict=True):
            slots[slot] = part
    for slot in step.recycled:
        array = slots[slot]
        if array is not None and array.nbytes >= POOLED_BYTES:
            free.setdefault((array.nbytes, array.dtype), []).append(array)
    for slot in step.dead:
        slots[slot] = None


def _memory(step: Instruction, slots: list[Any], free: dict[tuple[int, Any], list[Array]]) -> Array | None:
    """Where the result of `step` may be written: a dying operand, else recycled memory, else nowhere yet."""
    wanted = step.out
    assert wanted is not None
    if step.in_place is not None:
        taken: Array = slots[step.in_place]
        slots[step.in_place] = None
        return taken
    dtype = numpy_dtype(wanted.dtype)
    stock = free.get((wanted.size * dtype.itemsize, dtype))
    return stock.pop().reshape(wanted.shape) if stock else None


@frozen
class _Step:
    """An operation of a function being loaded: what runs it, and what its slots are."""

    name: str
    run: Callable[..., Any]
    kind: Kind | None  # None for a loop
    inplace: bool
    inner: int
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    op: Any


def load(func: Any) -> Program:
    """The program of a `func.func` whose body is `sx` operations and loops."""
    block = func.regions[0].blocks[0]
    numbers: dict[Any, int] = {argument: i for i, argument in enumerate(block.arguments)}
    operations = [op.operation for op in block.operations]
    terminator = operations.pop()
    types = [type_of(argument) for argument in block.arguments]
    constants: dict[int, Array] = {}
    shares = list(range(len(numbers)))  # the slot whose memory a slot's value lives in
    steps: list[_Step] = []
    for op in operations:
        ins = tuple(numbers[v] for v in op.operands)
        outs = tuple(range(len(numbers), len(numbers) + len(op.results)))
        step = _step(op, ins, outs)
        for slot, result in zip(outs, op.results, strict=True):
            numbers[result] = slot
            types.append(type_of(result))
            viewing = isinstance(step.kind, Move) and step.kind.views and ins
            shares.append(shares[ins[0]] if viewing else slot)
        if isinstance(step.kind, Constant) and not ins:
            constants[outs[0]] = _constant(op)
        else:
            steps.append(step)
    results = [numbers[v] for v in terminator.operands]
    given = len(block.arguments)
    owned = {slot for step in steps if _owns(step) for slot in step.outs}
    dying = _last_uses([(step.ins, step.outs) for step in steps], shares, results)
    instructions = []
    for step, (dead, released) in zip(steps, dying, strict=True):
        recycled = tuple(s for s in released if s in owned and s >= given)
        type = types[step.outs[0]] if step.outs else None
        out = type if type is not None and _pooled(step, type) else None
        in_place = None
        if out is not None and step.inplace:
            in_place = next((s for s in step.ins if s in recycled and _alone(s, step, shares, types)), None)
        instructions.append(
            Instruction(
                step.name,
                step.run,
                step.ins,
                step.outs,
                dead,
                released,
                tuple(s for s in recycled if s != in_place),
                out,
                in_place,
                step.inner,
                type is not None and type.dtype == "bf16" and _computes(step.kind),
                bool(step.outs) and shares[step.outs[0]] != step.outs[0],
                span_of(step.op.location),
            )
        )
    owners = [shares[s] for s in results]
    shared = [s not in owned or owners.count(s) > 1 for s in owners]
    return Program(read_graph(func), instructions, constants, list(zip(results, shared, strict=True)), types)


def _computes(kind: Kind | None) -> bool:
    """Whether results may be values that no operand has, which bf16 has to round; a loop's body has rounded its own."""
    match kind:
        case None | Move() | Order() | Index(access="read") | Window(combine="max"):
            return False
        case _:
            return True


def _step(op: Any, ins: tuple[int, ...], outs: tuple[int, ...]) -> _Step:
    if (found := loop_of(op)) is not None:
        loop, body = found
        operands = [type_of(v) for v in op.operands]
        run = Iteration(loop, load(body), tuple(type_of(r) for r in op.results), loop.turns(operands))
        return _Step("scan", run, None, False, run.peak_bytes(), ins, outs, op)
    record = OPS[op_name(op)]
    attrs = attrs_of(op)
    call = partial(record.numpy, **attrs) if attrs else record.numpy
    return _Step(record.name, call, record.kind, record.inplace, 0, ins, outs, op)


def _pooled(step: _Step, type: TensorType) -> bool:
    """Whether the step's one result, of this type, may be written into recycled memory."""
    kind = isinstance(step.kind, Pointwise | Contract | Row | Window) and len(step.outs) == 1
    return kind and _bytes(type) >= POOLED_BYTES and type.size > 0


def _bytes(type: TensorType) -> int:
    return type.size * numpy_dtype(type.dtype).itemsize


def _constant(op: Any) -> Array:
    attrs = attrs_of(op)
    value = attrs.get("value")
    array: Array = value.array() if isinstance(value, Dense) else OPS[op_name(op)].numpy(**attrs)
    return array


def _owns(step: _Step) -> bool:
    """Whether the result's memory is surely its own: a view is not, nor what may be the operand passed on."""
    if step.kind is None:
        return True
    if len(step.outs) != 1:
        return False
    if isinstance(step.kind, Move):
        return not step.kind.views
    own = numpy_dtype(type_of(step.op.results[0]).dtype)
    passes_on = isinstance(step.kind, Pointwise) and not step.inplace
    return not passes_on or all(numpy_dtype(type_of(v).dtype) != own for v in step.op.operands)


def _alone(slot: int, step: _Step, shares: list[int], types: list[TensorType]) -> bool:
    """Whether operand `slot` has the result's type and no other operand looks into its memory."""
    sharing = [s for s in step.ins if shares[s] == slot]
    return sharing == [slot] and types[slot] == types[step.outs[0]]


def _last_uses(
    steps: list[tuple[tuple[int, ...], tuple[int, ...]]], shares: list[int], results: list[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """For each step the slots not read after it, and the owners of memory that nothing reads after it."""
    kept = set(results)
    kept_owners = {shares[s] for s in results}
    last: dict[int, int] = {}
    last_owner: dict[int, int] = {}
    for index, (ins, outs) in enumerate(steps):
        for slot in (*ins, *outs):
            last[slot] = index
            last_owner[shares[slot]] = index
    dead: list[list[int]] = [[] for _ in steps]
    released: list[list[int]] = [[] for _ in steps]
    for slot, index in last.items():
        if slot not in kept and slot != shares[slot]:
            dead[index].append(slot)
    for owner, index in last_owner.items():
        if owner not in kept_owners:
            released[index].append(owner)
            dead[index].append(owner)
    return [(tuple(d), tuple(r)) for d, r in zip(dead, released, strict=True)]
