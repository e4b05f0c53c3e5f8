"""Random loss functions from the table of operations, drawn with numbers at hand.

A draft is a list of (name, seed): an operation's record, and what decides its operands among the values that there are
and new arguments of the types of its samples. What `infer` refuses, what is not finite, and what a change of 1e-6 would
change out of proportion (a tie, a jump, a pole) is not kept.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen
from hypothesis import strategies as st
from mlir import ir

from sexpgpu.diag import SxError
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.loops import Loop, call_loop, close_body, new_body
from sexpgpu.dialects.opdef import Array, Dense, OpDef, Sample, numpy_dtype
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.signature import type_of, write_signature
from sexpgpu.experiment import Input, Output
from sexpgpu.interp.program import computes
from sexpgpu.passes.recomputing.marks import REGION
from sexpgpu.tensortype import DType, TensorType
from tests.building import function

NAMES = (*OPS, "scan")


def turned(turn: int, places: list[tuple[int, int]]) -> list[tuple[str, int]]:
    """Steps by their places in the table, from another beginning: what is drawn often is not always the same."""
    return [(NAMES[(turn + place) % len(NAMES)], turn + seed) for place, seed in places]


STEPS = st.builds(
    turned,
    st.integers(0, 2**16),
    st.lists(st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, 2**20)), min_size=4, max_size=12),
)
CHECKPOINTED = st.tuples(st.integers(0, 20), st.integers(0, 12))
"""The first operation of a region to recompute, and how many there are; operations are counted as they are drawn."""
LARGEST = 200
"""Elements of a sample's operand: larger ones are about strides, and take long tile by tile."""
WIDE = frozenset(op.name for op in OPS.values() if all(any(t.dtype == "bf16" for t in s.types) for s in op.samples))
"""Operations on bf16 alone, with results in f32."""


@frozen(eq=False)
class Value:
    """A value of a draft: its type, what it is for the draft's arguments, and whether bf16 lies on its way."""

    type: TensorType
    array: Array
    coarse: bool = False


@frozen(eq=False)
class Argument:
    """A value that is given: a parameter or a field."""

    number: int
    role: str


@frozen(eq=False)
class Call:
    """An operation, or, `spelled`, the operations that a composite is made of. A record of None is a loop."""

    record: OpDef | None
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    attrs: dict[str, Any]
    spelled: bool = False


@define(eq=False)
class Draft:
    """A program as it grows: `values` by number, `lines` in order; `spelled` is the share of composites in parts."""

    dtype: DType
    spelled: float
    values: list[Value] = field(factory=list)
    lines: list[Argument | Call] = field(factory=list)

    @property
    def arguments(self) -> list[Argument]:
        return [line for line in self.lines if isinstance(line, Argument)]

    @property
    def inputs(self) -> list[Array]:
        return [self.values[argument.number].array for argument in self.arguments]

    def argument(self, rng: random.Random, type: TensorType, sample: Sample, name: str) -> int:
        """A new argument of the type: a parameter where that can be trained."""
        trained = type.dtype == self.dtype and rng.random() < 0.7
        numbers = np.random.default_rng(rng.randrange(2**32))
        self.values.append(Value(type, drawn(numbers, name, type, sample)))
        number = len(self.values) - 1
        self.lines.append(Argument(number, "param" if trained else "field"))
        return number

    def add(self, rng: random.Random, record: OpDef, ins: Sequence[int], attrs: dict[str, Any]) -> tuple[int, ...]:
        """Append an operation where it is defined and steady; no numbers where it is not."""
        given = [self.values[i] for i in ins]
        try:
            types = results(record, [v.type for v in given], attrs)
            arrays = computed(record, [v.array for v in given], types, attrs)
            noise = np.random.default_rng(rng.randrange(2**32))
            moved = computed(record, [shaken(noise, v.array, 1e-6) for v in given], types, attrs)
        except SxError:
            return ()
        if not all(steady(a, m) for a, m in zip(arrays, moved, strict=True)):
            return ()
        coarse = any(v.coarse for v in given)
        outs = tuple(range(len(self.values), len(self.values) + len(types)))
        for type, array in zip(types, arrays, strict=True):
            self.values.append(Value(type, array, coarse or "bf16" in {type.dtype, *(v.type.dtype for v in given)}))
        spelled = record.decompose is not None and rng.random() < self.spelled
        self.lines.append(Call(record, tuple(ins), outs, attrs, spelled))
        return outs

    def step(self, name: str, seed: int) -> None:
        """Append an operation by its name, on values of the draft as far as they fit."""
        rng = random.Random(seed)
        if name == "scan":
            self.scan(rng)
            return
        record = OPS[name]
        if name in WIDE and self.dtype != "f32":
            return
        for fresh in (0.15, 0.3, 0.6, 1.0, 1.0, 1.0):
            samples = [s for s in record.samples if all(t.size <= LARGEST for t in s.types)]
            sample = retyped(record, rng.choice(samples), self.dtype)
            free = fresh < 1 and rng.random() < 0.5
            first = self._pick(rng, sample.types[0].dtype) if free and sample.types else None
            ins = []
            for operand, type in zip(record.operands, sample.types, strict=True):
                wanted = self.values[first].type if first is not None and type == sample.types[0] else type
                ins.append(self._operand(rng, operand, wanted, sample, fresh))
            if outs := self.add(rng, record, ins, dict(sample.attrs)):
                for out in outs:
                    if name in WIDE or self.values[out].type.dtype == "bf16":
                        self.add(rng, OPS["cast"], [out], {"dtype": self.dtype})
                return

    def scan(self, rng: random.Random) -> None:
        """A loop over one axis with a state, an item, and a value that all turns share."""
        item = self._pick(rng, self.dtype)
        assert item is not None  # a draft begins with parameters
        shape = self.values[item].type.shape
        if not shape or 0 in shape:
            return
        axis = rng.randrange(len(shape))
        rest = TensorType(shape[:axis] + shape[axis + 1 :], self.dtype)
        plain = Sample((rest,))
        state, shared = (self._operand(rng, "x", rest, plain, 0.5) for _ in range(2))
        attrs: dict[str, Any] = {"axis": axis, "out": rng.randrange(len(shape)), "reverse": rng.random() < 0.5}
        before = self.values[state].array, self.values[item].array, self.values[shared].array
        last, rows = turns_of(*before, **attrs)
        coarse = any(self.values[i].coarse for i in (state, item, shared))
        outs = len(self.values), len(self.values) + 1
        rows_type = TensorType(rows.shape, self.dtype)
        self.values += [Value(rest, last, coarse), Value(rows_type, rows, coarse)]
        self.lines.append(Call(None, (state, item, shared), outs, attrs))

    def _pick(self, rng: random.Random, dtype: str) -> int | None:
        """A value of that dtype, a late one rather than an early one."""
        found = [i for i, value in enumerate(self.values) if value.type.dtype == dtype]
        return found[-1 - min(int(rng.expovariate(0.3)), len(found) - 1)] if found else None

    def _operand(self, rng: random.Random, name: str, type: TensorType, sample: Sample, fresh: float) -> int:
        # A counter is never below 0, as values may be.
        number = self._pick(rng, type.dtype) if rng.random() >= fresh and name != "counter" else None
        if number is not None:
            number = self._shaped(rng, number, type)
        if number is None:
            return self.argument(rng, type, sample, name)
        return self._within(rng, number, sample) if type.dtype == self.dtype else number

    def _shaped(self, rng: random.Random, number: int, type: TensorType) -> int | None:
        """The value, or what movements make of it, with the type's shape."""
        have, want = self.values[number].type, type
        if have == want:
            return number
        steps: list[tuple[str, dict[str, Any]]]
        offset = want.rank - have.rank
        if offset >= 0 and all(n in (1, want.shape[offset + i]) for i, n in enumerate(have.shape)):
            steps = [("broadcast", {"shape": want.shape})]
        elif have.size == want.size:
            steps = [("reshape", {"shape": want.shape})]
        elif have.size > want.size:
            low = rng.randrange(have.size - want.size + 1)
            cut = {"start": (low,), "stop": (low + want.size,), "step": (1,)}
            steps = [("reshape", {"shape": (have.size,)}), ("slice", cut), ("reshape", {"shape": want.shape})]
        elif have.size:
            more = {"low": (0,), "high": (want.size - have.size,), "value": 1}
            steps = [("reshape", {"shape": (have.size,)}), ("pad", more), ("reshape", {"shape": want.shape})]
        else:
            return None
        for name, attrs in steps:
            outs = self.add(rng, OPS[name], [number], attrs)
            if not outs:
                return None
            (number,) = outs
        return number

    def _within(self, rng: random.Random, number: int, sample: Sample) -> int:
        """The value itself, or squashed where it leaves the domain of the sample."""
        value, (low, high) = self.values[number], sample.domain
        if value.array.size == 0 or (low <= value.array.min() and value.array.max() <= high):
            return number
        (squashed,) = self.add(rng, OPS["sigmoid"], [number], {})
        for name, constant in (("mul", high - low), ("add", low)):
            (fill,) = self.add(rng, OPS["constant"], [], {"value": Dense(value.type, constant)})
            (squashed,) = self.add(rng, OPS[name], [squashed, fill], {})
        return squashed


def drafted(dtype: DType, steps: Sequence[tuple[str, int]], spelled: float) -> Draft:
    """A program that begins with three parameters."""
    draft = Draft(dtype, spelled)
    plain = Sample(())
    rng = random.Random(len(steps))
    for shape in ((2, 3), (4, 6), (3, 2, 4)):
        draft.argument(rng, TensorType(shape, dtype), plain, "x")
    for name, seed in steps:
        draft.step(name, seed)
    return draft


def retyped(record: OpDef, sample: Sample, dtype: DType) -> Sample:
    """The sample with `dtype` for every float, other than bf16 where the operation takes nothing else."""
    if record.name in WIDE:
        return sample

    def as_drawn(type: TensorType) -> TensorType:
        return TensorType(type.shape, dtype) if type.is_float else type

    attrs = dict(sample.attrs)
    for name, value in attrs.items():
        if isinstance(value, Dense) and value.type.is_float:
            finite = np.isfinite(value.data).all()
            attrs[name] = Dense(as_drawn(value.type), value.data if finite else 1.0)
        elif value in ("f32", "f64"):
            attrs[name] = dtype
    return evolve(sample, types=tuple(map(as_drawn, sample.types)), attrs=attrs)


def drawn(rng: np.random.Generator, name: str, type: TensorType, sample: Sample) -> Array:
    """An array for an operand called `name`."""
    low, high = sample.domain
    array: Array
    if name in ("indices", "labels"):
        array = rng.integers(0, sample.below, type.shape)
    elif type.dtype == "bool":
        array = rng.integers(0, 2, type.shape)
    elif type.is_float:
        array = rng.uniform(low, high, type.shape)
    else:
        array = rng.integers(0 if type.dtype == "u8" else round(low), round(high) + 1, type.shape)
        array = np.maximum(array, 0) if name == "counter" else array
    made: Array = np.asarray(array).astype(numpy_dtype(type.dtype))
    return round_bf16(made) if type.dtype == "bf16" else made


def results(record: OpDef, types: Sequence[TensorType], attrs: dict[str, Any]) -> tuple[TensorType, ...]:
    inferred = record.infer(*types, **attrs)
    return inferred if isinstance(inferred, tuple) else (inferred,)


def computed(record: OpDef, arrays: Sequence[Array], types: Sequence[TensorType], attrs: dict[str, Any]) -> list[Array]:
    with np.errstate(all="ignore"):
        value = record.numpy(*arrays, **attrs)
    rounds = computes(record.kind)
    made = [np.array(v) for v in (value if record.results > 1 else (value,))]
    return [round_bf16(v) if rounds and t.dtype == "bf16" else v for v, t in zip(made, types, strict=True)]


def shaken(rng: np.random.Generator, array: Array, size: float) -> Array:
    """The array with each float a little away from where it was."""
    if array.dtype.kind != "f":
        return array
    moved: Array = (array * (1 + size * rng.uniform(-1, 1, array.shape))).astype(array.dtype)
    return moved


def steady(array: Array, moved: Array) -> bool:
    """Whether a result is finite and has changed in proportion to its operands' change of 1e-6, or not at all."""
    if array.dtype.kind != "f":
        return bool((array == moved).all())
    scale = float(np.max(np.abs(array), initial=1.0))
    return bool(np.isfinite(array).all() and scale < 1e4 and (np.abs(array - moved) <= 3e-5 * scale).all())


def turns_of(state: Array, item: Array, shared: Array, *, axis: int, out: int, reverse: bool) -> tuple[Array, Array]:
    """What a loop of a draft gives, by NumPy: the last state and one row a turn."""
    items = list(np.moveaxis(item, axis, 0))
    rows = []
    for each in reversed(items) if reverse else items:
        state = np.tanh(state * shared + each)
        rows.append(state * each)
    return state, np.stack(rows[::-1] if reverse else rows, out)


def built(context: Context, draft: Draft, region: tuple[int, int] = (0, 0)) -> Any:
    """The module of a draft: its loss, then the values that nothing reads, as results of one graph.

    The loss sums every such float value, each element with a weight of its own.
    """
    arguments = draft.arguments
    read = {i for line in draft.lines if isinstance(line, Call) for i in line.ins}
    unread = [i for line in draft.lines if isinstance(line, Call) for i in line.outs if i not in read]

    def build(b: Builder, given: list[Val]) -> list[Val]:
        made = {a.number: value for a, value in zip(arguments, given, strict=True)}
        calls = [line for line in draft.lines if isinstance(line, Call)]
        for number, call in enumerate(calls):
            before = len(b.ip.block.operations)
            outs = _emit(b, call, [made[i] for i in call.ins])
            made.update(zip(call.outs, outs, strict=True))
            if region[0] <= number < sum(region):
                for op in list(b.ip.block.operations)[before:]:
                    op.attributes[REGION] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context.mlir), 1)
        scalar = TensorType((), draft.dtype)
        loss = b.constant(0, scalar)
        for number in unread:
            value = made[number]
            if value.type.is_float and value.type.size and value.type.dtype == draft.dtype:
                weights = np.cos(np.arange(value.type.size)).reshape(value.type.shape) / value.type.size
                weighted = value * b.constant(weights.astype(numpy_dtype(draft.dtype)), value.type)
                loss = loss + b("sum", weighted, axes=tuple(range(value.type.rank)), keepdims=False)
        return [loss, *[made[i] for i in unread]]

    module = function(context, [draft.values[a.number].type for a in arguments], build)
    func = next(f for f in module.body.operations if "sym_visibility" not in f.attributes)
    types = [type_of(v) for v in func.regions[0].blocks[0].arguments]
    given = [Input(a.role, f"x{i}", t) for i, (a, t) in enumerate(zip(arguments, types, strict=True))]  # type: ignore[arg-type]
    outs = [Output("value", f"y{i}", draft.values[n].type) for i, n in enumerate(unread)]
    write_signature(func, given, [Output("loss", "loss", TensorType((), draft.dtype)), *outs])
    return module


def _emit(b: Builder, call: Call, ins: list[Val]) -> tuple[Val, ...]:
    if call.record is None:
        return _loop(b, ins, **call.attrs)
    if call.spelled:
        assert call.record.decompose is not None
        made = call.record.decompose(b, *ins, **call.attrs)
        return made if isinstance(made, tuple) else (made,)
    if call.record.results > 1:
        return b.several(call.record.name, *ins, **call.attrs)
    return (b(call.record.name, *ins, **call.attrs),)


def _loop(b: Builder, ins: list[Val], *, axis: int, out: int, reverse: bool) -> tuple[Val, ...]:
    module = b.ip.block.owner.operation.parent.operation
    symbol, block = new_body(module, b, "turn", [ins[0].type, ins[0].type, ins[2].type])
    inner = Builder(b.context, ir.InsertionPoint(block), b.location)
    state, each, shared = (Val(inner, a, type_of(a)) for a in block.arguments)
    following = inner("tanh", state * shared + each)
    close_body(block, [following.value, (following * each).value], b.location)
    return call_loop(b, module, Loop(symbol, 1, (axis,), (out,), reverse), "loop", ins)
