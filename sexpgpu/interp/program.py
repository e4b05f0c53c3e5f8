"""A plan bound to memory, as a list of NumPy calls over numbered slots.

Where a value lives is the plan's decision: every array in the arena is made once, when the program is bound to it,
and so is every view of one. A call sets the arguments and the memory for the results and runs the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.diag import Span, SxError, error
from sexpgpu.dialects.bf16 import round_in_place
from sexpgpu.dialects.opdef import Array, Index, Kind, Move, Order, Window, numpy_dtype
from sexpgpu.dialects.ops import OPS
from sexpgpu.experiment import Graph
from sexpgpu.interp.arena import Arena
from sexpgpu.interp.bodies import Iteration, Tiling
from sexpgpu.interp.origin import Origin, find_origin, without_memory
from sexpgpu.plan.arena import aligned
from sexpgpu.plan.records import At, Fixed, GraphPlan, Into, Own, Step, Tiles, Turns, View
from sexpgpu.tensortype import TensorType

Slots = list[Any]


@frozen(eq=False)
class Action:
    """A step ready to run on the slots; those in `dead` are not read again."""

    run: Callable[[Slots], None]
    step: Step
    dead: tuple[int, ...]
    bodies: Iteration | Tiling | None = None


Watch = Callable[[Action, Slots], None]


class Program:
    """A callable graph: `program(arrays)` takes the inputs of `spec` in order and gives its outputs in order.

    Arrays are of exactly the declared shapes and NumPy dtypes; bf16 is float32 holding rounded values. Inputs are never
    written to. Results are arrays that the caller may change: those of `into` where it gives some, which must not
    overlap an input, else new ones.
    """

    def __init__(self, plan: GraphPlan, arena: Arena | None = None) -> None:
        self.plan = plan
        self.spec: Graph = plan.spec
        self._arena = arena if arena is not None else Arena()
        self._bound: Array | None = None
        self._slots: Slots = []
        homes = [(number, slot.home, slot.type) for number, slot in enumerate(plan.slots)]
        self._into = [(number, home.place, type) for number, home, type in homes if isinstance(home, Into)]
        self.actions: list[Action] = []

    def __call__(
        self, inputs: Sequence[Array], into: Sequence[Array | None] = (), watch: Watch | None = None
    ) -> list[Array]:
        """Run the graph; `watch` is given every action in turn, and runs it."""
        try:
            memory = self._arena.at_least(self.arena_bytes)
        except MemoryError:
            raise _out_of_memory(f"the {self.arena_bytes:,} bytes of graph `{self.spec.name}`", None) from None
        if self._bound is not memory:
            self.bind(memory)
        with np.errstate(all="ignore"):
            return self.run(inputs, into, watch)

    def bind(self, memory: Array) -> None:
        """Make the arrays that live in `memory`, of as many bytes as the plan asks for or more."""
        self._bound = memory
        plan = self.plan
        slots: Slots = [None] * len(plan.slots)
        for number, slot in enumerate(plan.slots):
            if isinstance(slot.home, At):
                slots[number] = array_at(memory, slot.home.offset, slot.type)
            elif isinstance(slot.home, Fixed):
                slots[number] = np.broadcast_to(plan.constants[slot.home.place], slot.type.shape)
        last = _last_reads(plan)
        self.actions = []
        for number, step in enumerate(plan.steps):
            if _is_view(plan, step) and slots[step.ins[0]] is not None:
                slots[step.outs[0]] = OPS[step.op].numpy(slots[step.ins[0]], **dict(step.attrs))
            else:
                self.actions.append(_action(plan, step, memory, last[number]))
        self._slots = slots

    def run(
        self, inputs: Sequence[Array], into: Sequence[Array | None] = (), watch: Watch | None = None
    ) -> list[Array]:
        """A call of a program that is bound, within another's."""
        plan = self.plan
        slots = self.fresh_slots(inputs)
        results: list[Any] = list(into) if into else [None] * len(plan.results)
        action = None
        try:
            for number, place, type in self._into:
                if results[place] is None:
                    results[place] = _new(type)
                slots[number] = results[place]
            for action in self.actions:
                if watch is None:
                    action.run(slots)
                else:
                    watch(action, slots)
                for number in action.dead:
                    slots[number] = None
        except SxError as fault:
            assert action is not None
            raise SxError(fault.diagnostic.at(action.step.span)) from None
        except MemoryError:
            raise _out_of_memory(*_wanted(plan, action.step if action is not None else None)) from None
        for place, number in enumerate(plan.results):
            if plan.slots[number].home != Into(place):
                results[place] = _delivered(slots[number], results[place])
        return results

    def fresh_slots(self, inputs: Sequence[Array]) -> Slots:
        """The slots at the beginning of a call."""
        slots = self._slots.copy()
        slots[: len(inputs)] = inputs
        return slots

    @property
    def arena_bytes(self) -> int:
        """What the arena takes; 0 for a plan without."""
        return self.plan.memory.arena if self.plan.memory is not None else 0

    def origin_not_finite(self, inputs: Sequence[Array]) -> Origin | None:
        """What first is not finite in a call with these inputs, in words, and its place; None when nothing is."""
        careful = Program(without_memory(self.plan))
        careful.bind(np.empty(0, np.uint8))
        with np.errstate(all="ignore"):
            return find_origin(careful, inputs)


def array_at(memory: Array, offset: int, type: TensorType) -> Array:
    """The array of a type in `memory` from byte `offset`."""
    dtype = numpy_dtype(type.dtype)
    return memory[offset : offset + type.size * dtype.itemsize].view(dtype).reshape(type.shape)


def _new(type: TensorType) -> Array:
    return np.empty(type.shape, numpy_dtype(type.dtype))


def _delivered(value: Array, into: Array | None) -> Array:
    if into is None:
        return np.array(value)
    np.copyto(into, value)
    return into


def _is_view(plan: GraphPlan, step: Step) -> bool:
    return len(step.outs) == 1 and isinstance(plan.slots[step.outs[0]].home, View)


def _action(plan: GraphPlan, step: Step, memory: Array, dead: tuple[int, ...]) -> Action:
    if step.how is None:
        return Action(_call(plan, step), step, dead)
    bodies = _bodies(step, memory)
    return Action(_bodied(plan, step, bodies), step, dead, bodies)


def _call(plan: GraphPlan, step: Step) -> Callable[[Slots], None]:
    """An operation of the table."""
    record = OPS[step.op]
    call = partial(record.numpy, **dict(step.attrs)) if step.attrs else record.numpy
    ins = step.ins
    rounds = computes(record.kind)
    if len(step.outs) != 1:
        return _several(plan, step, call, rounds)
    (out,) = step.outs
    slot = plan.slots[out]
    rounds = rounds and slot.type.dtype == "bf16"

    def make(slots: Slots) -> None:
        slots[out] = call(*[slots[i] for i in ins])
        if rounds:
            slots[out] = round_in_place(np.array(slots[out]))

    def fill(slots: Slots) -> None:
        target = slots[out]
        call(*[slots[i] for i in ins], out=target)
        if rounds:
            round_in_place(target)

    return make if isinstance(slot.home, Own | View) else fill


def _several(plan: GraphPlan, step: Step, call: Callable[..., Any], rounds: bool) -> Callable[[Slots], None]:
    """An operation of several results."""
    rounded = [rounds and plan.slots[out].type.dtype == "bf16" for out in step.outs]

    def run(slots: Slots) -> None:
        memory = tuple([slots[out] for out in step.outs])
        # Without a memory plan the results of the graph have memory and the others have none.
        planned = all(array is not None for array in memory)
        given = call(*[slots[i] for i in step.ins], out=memory if planned else None)
        for out, target, value, inexact in zip(step.outs, memory, given, rounded, strict=True):
            if target is None:
                slots[out] = np.array(value) if inexact else value
            elif not planned:
                np.copyto(target, value)
            if inexact:
                round_in_place(slots[out])

    return run


def _bodies(step: Step, memory: Array) -> Iteration | Tiling:
    """What runs a loop or a group: its bodies, bound to the step's workspace."""
    offset, size = step.workspace
    space = memory[offset : offset + size]
    bodies = [Program(body) for body in step.bodies]
    for body in bodies:
        body.bind(space)
    if isinstance(step.how, Turns):
        return Iteration(step.how, bodies[0], _state_buffers(step.bodies[0], step.how, space))
    assert isinstance(step.how, Tiles)
    return Tiling.of(step.how, bodies, len(step.ins))


def _bodied(plan: GraphPlan, step: Step, bodies: Iteration | Tiling) -> Callable[[Slots], None]:
    types = [plan.slots[out].type for out in step.outs]

    def run(slots: Slots) -> None:
        outs = [_new(type) if slots[out] is None else slots[out] for out, type in zip(step.outs, types, strict=True)]
        bodies([slots[i] for i in step.ins], outs)
        for out, value in zip(step.outs, outs, strict=True):
            slots[out] = value

    return run


def _state_buffers(body: GraphPlan, turns: Turns, space: Array) -> tuple[list[Array], list[Array]]:
    """Two arrays a state, so that one is written while the other is read: behind the body's own arena, or new."""
    types = [body.slots[number].type for number in body.results[: turns.states]]
    if body.memory is None:
        return [_new(type) for type in types], [_new(type) for type in types]
    offset = body.memory.arena
    buffers: tuple[list[Array], list[Array]] = ([], [])
    for type in types:
        for buffer in buffers:
            buffer.append(array_at(space, offset, type))
            offset += aligned(buffer[-1].nbytes)
    return buffers


def _last_reads(plan: GraphPlan) -> list[tuple[int, ...]]:
    """For each step the slots with memory of their own, or views of such, that nothing reads after it."""
    kept = set(plan.results)
    last: dict[int, int] = {}
    for number, step in enumerate(plan.steps):
        for slot in (*step.ins, *step.outs):
            last[slot] = number
    dead: list[list[int]] = [[] for _ in plan.steps]
    for slot, number in last.items():
        if slot not in kept and isinstance(plan.slots[slot].home, Own | View) and plan.memory is None:
            dead[number].append(slot)
    return [tuple(each) for each in dead]


def computes(kind: Kind) -> bool:
    """Whether results may be values that no operand has, which bf16 has to round."""
    match kind:
        case Move() | Order() | Index(access="read") | Window(combine="max"):
            return False
        case _:
            return True


def _wanted(plan: GraphPlan, step: Step | None) -> tuple[str, Span | None]:
    """What there was no memory for, in words, and its place: what a step gives, or all that the graph does."""
    if step is None:
        return f"{_sum(plan.results, plan)}, what graph `{plan.spec.name}` gives", None
    return f"{_sum(step.outs, plan)}, the result of {step.op} in graph `{plan.spec.name}`", step.span


def _sum(slots: Sequence[int], plan: GraphPlan) -> str:
    return " and ".join(str(plan.slots[slot].type) for slot in slots)


def _out_of_memory(what: str, span: Span | None) -> SxError:
    help = "a smaller model or batch, or more :microbatches"
    return error("E-MEM-002", f"there is not enough memory for {what}", span, help=help)
