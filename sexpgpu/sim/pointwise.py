"""Steps of one function of one to four operands, lane by lane: what most instructions are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sexpgpu.sim.decode import Decoder, Step
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import Array, Scalar

Builder = Callable[[Decoder, Instr], Step]


def typed(d: Decoder, ins: Instr, types: dict[str, Scalar]) -> Scalar:
    """The type that an opcode ends in, of those that the instruction has."""
    last = ins.parts[-1] if ins.parts else ""
    if last not in types:
        raise d.refuse(ins, f"no form of type .{last}")
    return types[last]


def count(d: Decoder, ins: Instr, *wanted: int) -> None:
    if len(ins.operands) not in wanted:
        raise d.refuse(ins, f"{len(ins.operands)} operands")


def pointwise(d: Decoder, ins: Instr, f: Callable[..., Array], inputs: Sequence[Scalar], result: Scalar) -> Step:
    """`operands[0] = f(the others)`; `inputs` are their types."""
    count(d, ins, len(inputs) + 1)
    write: Any = d.write(ins.operands[0], result, ins)
    reads = [d.read(x, kind, ins) for x, kind in zip(ins.operands[1:], inputs, strict=True)]
    if len(reads) == 1:
        (a,) = reads
        return lambda st, m: write(st, f(a(st)), m)
    if len(reads) == 2:
        a, b = reads
        return lambda st, m: write(st, f(a(st), b(st)), m)
    if len(reads) == 3:
        a, b, c = reads
        return lambda st, m: write(st, f(a(st), b(st), c(st)), m)

    def step(st: Lanes, m: Mask) -> None:
        write(st, f(*[read(st) for read in reads]), m)

    return step
