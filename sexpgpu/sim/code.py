"""A program as basic blocks of steps, ready to run.

A block ends where control may go elsewhere or a barrier waits, and begins at a label or at an instruction that the
lanes of a warp run together: lanes that come early can be held there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen

from sexpgpu.sim.decode import Decoder, Read, Step, Write
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.opcodes import builder_of, class_of
from sexpgpu.sim.program import BARRIERS, TRANSFERS, WARP_WIDE, Program, Symbol
from sexpgpu.sim.source import Group, Imm, Instr, Label, Name, Operand, Reg, Sink, Targets
from sexpgpu.sim.types import PRED, TYPES, U32, Array
from sexpgpu.sim.warp import members

LEAVE = -1  # the block that a thread goes to when it ends


@frozen(eq=False)
class Jump:
    """To `target` where the guard holds (always, without one), else to `next`."""

    ins: Instr | None
    target: int
    next: int
    guard: Read | None


@frozen(eq=False)
class Switch:
    """To the target that `index` numbers."""

    ins: Instr
    targets: tuple[int, ...]
    next: int
    guard: Read | None
    index: Read


@frozen(eq=False)
class Wait:
    """At a barrier of the block: `number` of 16, `threads` that it waits for (None is all), then to `next`."""

    ins: Instr
    next: int
    guard: Read | None
    number: Read
    threads: Read | None
    waits: bool
    aligned: bool
    reduce: str = ""
    value: Read | None = None
    result: Write | None = None


End = Jump | Switch | Wait


@frozen(eq=False)
class Block:
    """`members` says which lanes of its warp the first instruction waits for; `classes` count its instructions."""

    steps: tuple[Step, ...]
    end: End
    first: Instr | None
    members: Read | None
    classes: Mapping[str, int]
    polls: bool  # whether it looks at an mbarrier, and so may have to run again and again


@frozen(eq=False)
class Code:
    """A kernel ready to run."""

    program: Program
    blocks: tuple[Block, ...]
    unset: tuple[Array, ...]
    granule: int  # bytes of the smallest access to shared or global memory


def assemble(program: Program, globals: Mapping[str, Symbol]) -> Code:
    """Decode a program. Raises E-SIM-011 at an instruction that is not known."""
    d = Decoder(program, globals)
    code: list[Instr] = []
    labels: dict[str, int] = {}
    tables: dict[str, tuple[str, ...]] = {}
    for statement in program.statements:
        if isinstance(statement, Label):
            labels[statement.name] = len(code)
        elif isinstance(statement, Targets):
            tables[statement.name] = statement.labels
        else:
            code.append(statement)
    leaders = {0, *labels.values()}
    for at, ins in enumerate(code):
        if transfers(ins) or waits(ins):
            leaders.add(at + 1)
        if warp_wide(ins):
            leaders.add(at)
    starts = sorted(x for x in leaders if x < len(code))
    numbers = {start: n for n, start in enumerate(starts)}
    numbers[len(code)] = LEAVE
    spans = [code[a:b] for a, b in zip(starts, [*starts[1:], len(code)], strict=True)]
    d.private = private_registers(spans)
    gone = {n for n, span in enumerate(spans) if span[0].op in ("ret", "exit") and span[0].guard is None}

    def number(label: str, ins: Instr) -> int:
        if label not in labels:
            raise d.no_label(ins, label, labels)
        found = numbers[labels[label]]
        return LEAVE if found in gone else found

    blocks = []
    for n, span in enumerate(spans):
        following = n + 1 if n + 1 < len(spans) else LEAVE
        if following in gone:
            following = LEAVE
        last = span[-1]
        end: End = Jump(None, following, following, None)
        if transfers(last):
            end = _transfer(d, last, following, number, tables)
        elif waits(last):
            end = _wait(d, last, following)
        body = span[:-1] if transfers(last) or waits(last) else span
        steps = tuple(_step(d, ins) for ins in body)
        first = span[0]
        gate = members(d, first) if warp_wide(first) and first.guard is None else None
        blocks.append(Block(steps, end, first, gate, Counter(class_of(ins) for ins in span), any(map(polls, span))))
    unset = tuple(np.zeros(1, kind.storage) for kind in d.kinds)
    return Code(program, tuple(blocks), unset, granule(code))


def granule(code: Sequence[Instr]) -> int:
    """The largest power of two, up to 16, that divides the size of every access."""
    least = 16
    for ins in code:
        if ins.op in ("ld", "ldu", "st", "atom", "red") and "local" not in ins.parts:
            size = max((TYPES[p].size for p in ins.parts if p in TYPES), default=1)
            least = min(least, size * (1 if ins.op in ("atom", "red") else vector_of(ins)))
        elif ins.op == "cp" and "bulk" in ins.parts:
            least = min(least, 2 if "tensor" in ins.parts else 16)
        elif ins.op == "mbarrier":
            least = min(least, 8)
        elif ins.op == "cp":
            sizes = [int(x.value) for x in ins.operands[2:3] if isinstance(x, Imm)]
            least = min([least, *(4 if len(ins.operands) > 3 else n for n in sizes)])
    return least


def vector_of(ins: Instr) -> int:
    """How many elements a load or store moves."""
    return next((int(p[1:]) for p in ins.parts if p in ("v2", "v4", "v8")), 1)


def polls(ins: Instr) -> bool:
    return ins.op == "mbarrier" and bool({"try_wait", "test_wait"} & set(ins.parts))


def transfers(ins: Instr) -> bool:
    return ins.op in TRANSFERS and ins.op != "trap"


def waits(ins: Instr) -> bool:
    return ins.op in BARRIERS and "warp" not in ins.parts


def warp_wide(ins: Instr) -> bool:
    return (ins.op in WARP_WIDE and "sync" in ins.parts) or (ins.op in BARRIERS and "warp" in ins.parts)


def _guard(d: Decoder, ins: Instr) -> Read | None:
    return None if ins.guard is None else d.read(ins.guard, PRED, ins)


def _step(d: Decoder, ins: Instr) -> Step:
    step = builder_of(d, ins)(d, ins)
    guard = _guard(d, ins)
    if guard is None:
        return step
    holds = guard

    def guarded(st: Lanes, m: Mask) -> None:
        p = holds(st)
        if p.shape[0] == 1:
            if p[0]:
                step(st, m)
            return
        active = st.active(m)
        taken = p if active is None else p & active
        if taken.any():
            step(st, taken)

    return guarded


def _transfer(d: Decoder, ins: Instr, following: int, number: object, tables: Mapping[str, Sequence[str]]) -> End:
    guard = _guard(d, ins)
    assert callable(number)
    if ins.op in ("ret", "exit"):
        return Jump(ins, LEAVE, following, guard)
    if ins.op == "bra":
        d.only(ins, "uni")
        target = ins.operands[0] if len(ins.operands) == 1 else None
        if not isinstance(target, Name):
            raise d.refuse(ins, "a branch to no label")
        return Jump(ins, number(target.name, ins), following, guard)
    d.only(ins, "idx", "uni")
    table = ins.operands[1] if len(ins.operands) == 2 else None
    if not isinstance(table, Name) or table.name not in tables:
        raise d.refuse(ins, "no table of targets")
    targets = tuple(number(label, ins) for label in tables[table.name])
    return Switch(ins, targets, following, guard, d.read(ins.operands[0], U32, ins))


def _wait(d: Decoder, ins: Instr, following: int) -> Wait:
    d.only(ins, "sync", "arrive", "red", "cta", "aligned", "popc", "and", "or", "u32", "pred")
    operands: list[Operand] = list(ins.operands)
    reduce = next((p for p in ins.parts if p in ("popc", "and", "or")), "")
    value = result = None
    if "red" in ins.parts:
        if not reduce or len(operands) < 3:
            raise d.refuse(ins)
        result = d.write(operands.pop(0), U32 if reduce == "popc" else PRED, ins)
        value = d.read(operands.pop(), PRED, ins)
    if not operands or ("arrive" in ins.parts and len(operands) < 2):
        raise d.refuse(ins, "too few operands")
    reads = [d.read(x, U32, ins) for x in operands]
    aligned = ins.op == "bar" or "aligned" in ins.parts
    threads = reads[1] if len(reads) > 1 else None
    arrive = "arrive" in ins.parts
    return Wait(ins, following, _guard(d, ins), reads[0], threads, not arrive, aligned, reduce, value, result)


def private_registers(spans: Sequence[Sequence[Instr]]) -> frozenset[str]:
    """The registers that every block writes, without a guard, before it reads them."""
    exposed: set[str] = set()
    every: set[str] = set()
    for span in spans:
        written: set[str] = set()
        for ins in span:
            targets, sources = roles(ins)
            exposed |= sources - written
            if ins.guard is not None:
                exposed |= targets - written
            written |= targets
            every |= targets | sources
    return frozenset(every - exposed)


NO_RESULT = frozenset({"st", "red", "bra", "brx", "ret", "exit", "cp", "membar", "fence", "prefetch", "stmatrix"})


def roles(ins: Instr) -> tuple[set[str], set[str]]:
    """The registers that an instruction writes, and those that it reads (or may leave as they were)."""
    operands = list(ins.operands)
    targets: set[str] = set()
    sources: set[str] = set()
    if operands and ins.op not in NO_RESULT and not waits(ins) and isinstance(operands[0], Reg | Group | Sink):
        targets = registers(operands.pop(0))
        if ins.op in ("wgmma", "mbarrier"):
            sources |= targets
    if waits(ins):
        sources |= registers(operands[0]) if operands else set()
    for operand in operands:
        sources |= registers(operand)
    if ins.guard is not None:
        sources.add(ins.guard.name)
    return targets, sources


def registers(operand: Operand) -> set[str]:
    """The names of the registers in an operand."""
    if isinstance(operand, Reg):
        return {operand.name}
    if isinstance(operand, Group):
        return set().union(*(registers(x) for x in operand.items)) if operand.items else set()
    found: set[str] = set()
    base = getattr(operand, "base", None)
    if isinstance(base, Reg):
        found.add(base.name)
    for item in getattr(operand, "coordinates", ()):
        found |= registers(item)
    return found
