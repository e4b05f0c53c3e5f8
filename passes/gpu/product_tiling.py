"""How a matrix product is cut into blocks, and the cost model that decides it.

The time of a cut is estimated in clocks of one multiprocessor. Resident blocks of a multiprocessor share its units, so
a step along the depth takes the slowest of these, for all of them together:

    arithmetic      products a clock: RATES
    issue           four instructions a clock, among them those that find elements which do not lie in vectors
    shared memory   128 bytes a clock
    global memory   GLOBAL bytes a clock: what the second-level cache gives each multiprocessor

but never less than the latency of global memory over the steps that are loaded ahead. Blocks that do not fit at once
run in waves. A depth cut into parts costs the partial sums, which pass MEMORY bytes a clock, and a second launch.

Warpgroups, which sm_90a alone has, multiply twice as fast and have more shared memory.

The rates are those of "NVIDIA A100 Tensor Core GPU Architecture" (2020), table 2; newer chips are faster in all of
them, in about the same proportion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal

from attrs import evolve, frozen

from sexpgpu.passes.gpu.kernel import BYTES
from sexpgpu.passes.gpu.scalar import REGISTER
from sexpgpu.tensortype import DType

MULTIPROCESSORS = 132
SHARED = 163 * 1024
"""Bytes of shared memory a multiprocessor, of which each block takes 1 KiB more than it asks for."""
REGISTERS = 65536
LATENCY = 600
"""Clocks until a load from global memory arrives."""
GLOBAL = 32
MEMORY = 12
"""Bytes a clock that a multiprocessor gets of what leaves the second-level cache."""
HELD = 8
"""Scattered elements of a factor that a thread can find in one step without running out of registers."""
STEP = 40
"""Instructions of a thread in a step beside products: addresses, slots, what it brings to shared memory."""
DOT = 8
"""Instructions of one place of a sum that a thread makes alone."""
SPARE = 16
"""Registers that a thread needs to find them."""
FINDING = 20
"""Instructions that finding one takes."""
LAUNCH = 4000
"""Clocks until a kernel runs after the one before it."""
RATES = {"f32": 128, "f64": 32, "i32": 64, "i64": 16}
TENSOR_RATES = {"mma.m16n8k16": 1024, "mma.m16n8k8": 512, "wgmma": 2048}
"""That of `wgmma` by "NVIDIA H100 Tensor Core GPU Architecture" (2022), table 2."""
WARPGROUP_SHARED = 228 * 1024
"""Bytes of shared memory of a multiprocessor whose tensor cores take warpgroups."""

Instruction = Literal["dot", "fma", "mma.m16n8k16", "mma.m16n8k8", "wgmma"]
"""Behind `fma`: of warps, which multiply bf16 and tf32 on tensor cores, and of warpgroups, which multiply bf16."""
_SHARING: dict[Instruction, int] = {"dot": 1, "fma": 1, "mma.m16n8k16": 32, "mma.m16n8k8": 32, "wgmma": 128}
"""Threads that make a share of a block's sums together."""


@frozen
class Problem:
    """`batch` products [rows, depth] x [depth, columns] of a dtype.

    `scattered`: whether the elements of the first factor, and of the second, are found and read one by one. `passed`:
    registers for each element that, on its way to tensor cores, passes through a thread's registers; 0: it is copied.
    `tf32`: whether factors of f32 may be rounded to tf32. `bulk`: bulk copies can bring both factors, to warpgroups.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    dtype: DType
    scattered: tuple[bool, bool] = (False, False)
    passed: tuple[float, float] = (0, 0)
    tf32: bool = False
    bulk: bool = False

    @property
    def size(self) -> int:
        """Elements of the result."""
        return self.batch * self.rows * self.columns

    @property
    def register(self) -> str:
        """The type that is summed in."""
        return REGISTER[self.dtype]


@frozen
class Tiling:
    """A block makes `rows` x `columns` elements, `depth` of the sum at a time, with `stages` of these in shared memory.

    `share` is what a thread makes of it (`dot`, `fma`), or a warp, or a warpgroup (`wgmma`, which has a warp more, for
    copies). `dot` uses no shared memory: a block makes as many elements one behind another, of several rows too. The
    sums are made in `parts`, each by other blocks. `type` is that of the sums, and of factors in shared memory unless
    these are bf16. `passing`: registers of a thread for elements on their way from global to shared memory, beside
    those that `share` takes.
    """

    instruction: Instruction
    rows: int
    columns: int
    depth: int
    share: tuple[int, int]
    stages: int = 2
    parts: int = 1
    type: str = "f32"
    passing: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.workers + (32 if self.instruction == "wgmma" else 0)

    @property
    def workers(self) -> int:
        """Those of them that make sums."""
        return self.rows // self.share[0] * (self.columns // self.share[1]) * _SHARING[self.instruction]

    @property
    def by_warps(self) -> bool:
        """Whether shares are those of warps, or of warpgroups, which make them on tensor cores."""
        return self.instruction in TENSOR_RATES

    @property
    def item(self) -> int:
        """Bytes of a factor's element in shared memory."""
        return BYTES["bf16"] if self.instruction in ("mma.m16n8k16", "wgmma") else BYTES[self.type]

    @property
    def chunk(self) -> int:
        """Elements that a thread of `fma` reads from shared memory at once."""
        return min(16 // BYTES[self.type], *self.share)

    @property
    def pad(self) -> int:
        """Elements behind each line of a tile of factors, against conflicts between banks."""
        return {"fma": 16 // BYTES[self.type], "mma.m16n8k8": 8}.get(self.instruction, 0)

    @property
    def pitch(self) -> int:
        """Elements from one line of the sums in shared memory to the next."""
        return self.columns + (self.pad or 8)

    @property
    def slots(self) -> tuple[int, int]:
        """Elements of one stage of each factor in shared memory."""
        return self.depth * (self.rows + self.pad), self.depth * (self.columns + self.pad)

    @property
    def slot_bytes(self) -> int:
        """Bytes of one stage."""
        return sum(self.slots) * self.item

    @property
    def ring(self) -> int:
        """Bytes of shared memory for the stages, and in their place at last the sums."""
        return max(self.stages * self.slot_bytes, self.rows * self.pitch * BYTES[self.type])

    @property
    def shared(self) -> int:
        """Bytes of shared memory: the ring, and behind it two barriers a stage for bulk copies."""
        return self.ring + (16 * self.stages if self.instruction == "wgmma" else 0)

    @property
    def registers(self) -> int:
        """About how many registers a thread needs."""
        across, down = self.share
        words = BYTES[self.type] // 4
        if self.instruction == "fma":
            return (across * down + 2 * (across + down)) * words + 32
        if self.instruction == "wgmma":
            return across * down // 128 + 40
        return across * down // 32 + (across + down) // 4 + 40 + self.passing

    @property
    def resident(self) -> int:
        """Blocks that run on a multiprocessor at once."""
        by_registers = REGISTERS // (self.threads * self.registers)
        room = WARPGROUP_SHARED if self.instruction == "wgmma" else SHARED
        return max(1, min(by_registers, room // (self.shared + 1024), 2048 // self.threads))

    def blocks(self, problem: Problem) -> int:
        return problem.batch * self.down(problem) * self.across(problem) * self.parts

    def down(self, problem: Problem) -> int:
        """Tiles along the rows."""
        return -(-problem.rows // self.rows)

    def across(self, problem: Problem) -> int:
        """Tiles along the columns."""
        return -(-problem.columns // self.columns)

    def steps(self, problem: Problem) -> int:
        """Steps along the depth that a part takes; the last part may take fewer."""
        return -(-problem.depth // (self.depth * self.parts))

    def __str__(self) -> str:
        if self.instruction == "dot":
            return f"dot, {self.threads} threads"
        parts = f", {self.parts} parts" if self.parts > 1 else ""
        tile = f"{self.rows}x{self.columns}x{self.depth}"
        return f"{self.instruction} {tile}, {self.threads} threads, {self.stages} stages{parts}"


_FMA = (
    Tiling("fma", 128, 128, 8, (8, 8)),
    Tiling("fma", 128, 64, 8, (8, 4)),
    Tiling("fma", 64, 128, 8, (4, 8)),
    Tiling("fma", 64, 64, 16, (4, 4)),
    Tiling("fma", 64, 32, 16, (4, 4)),
    Tiling("fma", 32, 64, 16, (4, 4)),
    Tiling("fma", 32, 32, 32, (2, 2)),
    Tiling("fma", 16, 32, 32, (2, 2)),
    Tiling("fma", 8, 32, 32, (1, 2)),
    Tiling("fma", 16, 16, 32, (1, 1)),
)
_TENSOR = (
    Tiling("mma.m16n8k16", 128, 128, 32, (64, 32), stages=4),
    Tiling("mma.m16n8k16", 128, 64, 32, (32, 32), stages=4),
    Tiling("mma.m16n8k16", 64, 128, 32, (32, 32), stages=4),
    Tiling("mma.m16n8k16", 64, 64, 64, (32, 32), stages=3),
    Tiling("mma.m16n8k16", 32, 64, 64, (16, 32), stages=4),
    Tiling("mma.m16n8k16", 64, 32, 64, (32, 16), stages=4),
    Tiling("mma.m16n8k16", 32, 32, 64, (16, 16), stages=4),
    Tiling("mma.m16n8k16", 16, 64, 64, (16, 16), stages=4),
)
_SHALLOW = (
    Tiling("mma.m16n8k16", 128, 128, 16, (64, 32), stages=3),
    Tiling("mma.m16n8k16", 64, 128, 16, (32, 32), stages=3),
    Tiling("mma.m16n8k16", 64, 64, 16, (32, 32), stages=3),
    Tiling("mma.m16n8k16", 32, 64, 16, (16, 32), stages=3),
    Tiling("mma.m16n8k16", 16, 64, 16, (16, 16), stages=3),
)
WARPGROUP = (
    Tiling("wgmma", 128, 256, 64, (64, 256), stages=4),
    Tiling("wgmma", 128, 128, 64, (64, 128), stages=3),
    Tiling("wgmma", 128, 64, 64, (64, 64), stages=4),
    Tiling("wgmma", 64, 128, 64, (64, 128), stages=4),
    Tiling("wgmma", 64, 64, 64, (64, 64), stages=4),
)
"""Cuts for the tensor cores of sm_90a alone."""
_DOT = Tiling("dot", 1, 256, 1, (1, 1))
TILINGS = (*_FMA, *_TENSOR, *_SHALLOW, _DOT)
"""All cuts, for sums in f32."""
TF32 = (
    Tiling("mma.m16n8k8", 128, 128, 16, (64, 32), stages=4),
    Tiling("mma.m16n8k8", 128, 64, 16, (32, 32), stages=4),
    Tiling("mma.m16n8k8", 64, 128, 16, (32, 32), stages=4),
    Tiling("mma.m16n8k8", 64, 64, 32, (32, 32), stages=3),
    Tiling("mma.m16n8k8", 32, 64, 32, (16, 32), stages=4),
    Tiling("mma.m16n8k8", 64, 32, 32, (32, 16), stages=4),
    Tiling("mma.m16n8k8", 32, 32, 32, (16, 16), stages=4),
    Tiling("mma.m16n8k8", 16, 64, 32, (16, 16), stages=4),
)
"""Those beside them where f32 may be rounded to tf32."""
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@lru_cache(maxsize=1024)
def tiling_of(problem: Problem) -> Tiling:
    """The cheapest cut of a product that has elements and a depth."""
    return min(_cuts(problem), key=lambda tiling: clocks(problem, tiling))


def _cuts(problem: Problem) -> Iterator[Tiling]:
    """All that may be."""
    yield evolve(_DOT, type=problem.register)
    for kind in _kinds(problem):
        tiling = evolve(kind, type=problem.register, passing=_passing(problem, kind))
        if tiling.threads * tiling.registers > REGISTERS or not _has_room(problem, tiling):
            continue
        whole = tiling.steps(problem)
        for parts in _PARTS:
            steps = -(-problem.depth // (tiling.depth * parts))
            # Each part has a step to do.
            if (parts - 1) * steps < whole:
                yield evolve(tiling, parts=parts, stages=max(2, min(kind.stages, steps + 1)))


def _kinds(problem: Problem) -> tuple[Tiling, ...]:
    """Those that a product may have; of two that cost the same the first is taken."""
    if problem.dtype == "bf16":
        return (*(WARPGROUP if problem.bulk else ()), *_FMA, *_TENSOR, *_SHALLOW)
    return (*_FMA, *(TF32 if problem.tf32 and problem.dtype == "f32" else ()))


def _has_room(problem: Problem, tiling: Tiling) -> bool:
    """Whether threads that find scattered elements have registers for it, with as many blocks at once."""
    spare = REGISTERS - tiling.resident * tiling.threads * tiling.registers
    room = not any(problem.scattered) or spare >= SPARE * tiling.resident * tiling.threads
    return room and max(_held(problem, tiling)) <= HELD


def _held(problem: Problem, tiling: Tiling) -> tuple[int, int]:
    """Elements of each factor that a thread finds in a step, all of them before it writes one to shared memory."""
    first, second = problem.scattered
    each = tiling.depth / tiling.threads
    return first * math.ceil(tiling.rows * each), second * math.ceil(tiling.columns * each)


def _passing(problem: Problem, tiling: Tiling) -> int:
    """Registers that hold a step's elements of factors which are no copies of what lies in memory."""
    if tiling.instruction == "fma":
        return 0
    first, second = problem.passed
    return math.ceil((tiling.rows * first + tiling.columns * second) * tiling.depth / tiling.threads)


def clocks(problem: Problem, tiling: Tiling) -> float:
    """The estimated time of a product under a cut."""
    if tiling.instruction == "dot":
        return _dots(problem, tiling)
    resident = tiling.resident
    wave = _waves(problem, tiling)
    waves, rest = divmod(math.ceil(tiling.blocks(problem) / MULTIPROCESSORS), resident)
    total = waves * wave(resident) + (wave(rest) if rest else 0)
    if tiling.parts > 1:
        moved = 2 * tiling.parts * problem.size * BYTES[tiling.type]
        total += LAUNCH + moved / (MULTIPROCESSORS * MEMORY)
    return total


def _dots(problem: Problem, tiling: Tiling) -> float:
    """Clocks of sums that threads make alone, four places of them on their way at a time."""
    places = problem.size * problem.depth / MULTIPROCESSORS
    issued = places * (DOT + FINDING * sum(problem.scattered)) / 32 / 4
    waves = math.ceil(problem.size / MULTIPROCESSORS / 2048)
    return LATENCY + max(issued, waves * problem.depth * LATENCY / 4)


def _waves(problem: Problem, tiling: Tiling) -> Callable[[int], float]:
    """Clocks of as many blocks on one multiprocessor as the function is given."""
    item = BYTES["bf16"] if problem.dtype == "bf16" else BYTES[tiling.type]
    loaded = (tiling.rows + tiling.columns) * tiling.depth * item / GLOBAL
    arithmetic = _arithmetic(tiling) + sum(_held(problem, tiling)) * FINDING * tiling.threads / 32 / 4
    each = max(arithmetic, _shared(tiling), loaded)
    waiting = LATENCY / (tiling.stages - 1)
    # The sums pass through shared memory; results are written, and about as much is read with them.
    epilogue = tiling.rows * tiling.columns * (2 * BYTES[tiling.type] / 128 + 2 * item / GLOBAL)
    steps = tiling.steps(problem)
    return lambda blocks: LATENCY + steps * max(blocks * each, waiting) + blocks * epilogue


def _arithmetic(tiling: Tiling) -> float:
    """Clocks of the products of one step of a block."""
    products = tiling.rows * tiling.columns * tiling.depth
    if tiling.by_warps:
        return products / TENSOR_RATES[tiling.instruction]
    down, across = tiling.share
    issued = ((down * across + (down + across) / tiling.chunk) * tiling.depth + STEP) * tiling.threads / 32
    return max(products / RATES[tiling.type], issued / 4)


def _shared(tiling: Tiling) -> float:
    """Clocks that one step of a block reads shared memory."""
    down, across = tiling.share
    if tiling.instruction == "wgmma":
        return tiling.workers // 128 * (down + across) * tiling.depth * BYTES["bf16"] / 128
    warps = max(1, tiling.threads // 32)
    if tiling.by_warps:
        return warps * (down + across) * tiling.depth * tiling.item / 128
    # Threads beside each other read the same rows and other columns, 128 different bytes at once at most.
    beside = min(32, tiling.columns // across)
    item = BYTES[tiling.type]
    rows = max(down / tiling.chunk, 32 // beside * down * item / 128)
    columns = max(across / tiling.chunk, beside * across * item / 128)
    return warps * tiling.depth * (rows + columns)
