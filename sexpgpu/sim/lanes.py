"""The state of the threads that run together: registers over lanes, who lives, and where a fault happened.

A lane is a thread; the lanes of a block are padded to whole warps, and as many blocks as fit a budget run at once. A
register is an array over the lanes, or of one element where all lanes have the same value: what is uniform is computed
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np
from attrs import define, field, frozen

from sexpgpu.diag import Note, Span, error
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import Array

if TYPE_CHECKING:
    from sexpgpu.sim.access import Touch
    from sexpgpu.sim.between import GlobalTrace
    from sexpgpu.sim.bulk import Flight
    from sexpgpu.sim.checks import Checks
    from sexpgpu.sim.clock import Clock
    from sexpgpu.sim.copies import Copy
    from sexpgpu.sim.counters import Counters
    from sexpgpu.sim.memory import Memory
    from sexpgpu.sim.races import SharedTrace

Mask = Array | None
WARP = 32
Dims = tuple[int, int, int]


@frozen(eq=False)
class Shape:
    """The launch: blocks, threads of a block, bytes of shared memory, the kernel and its file for messages."""

    kernel: str
    file: str
    grid: Dims
    block: Dims
    shared: int
    dynamic: int
    local: int

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def padded(self) -> int:
        """Lanes of a block: its threads in whole warps."""
        return -(-self.threads // WARP) * WARP

    @property
    def stride(self) -> int:
        """Bytes from the shared memory of a block to that of the next."""
        return -(-max(self.shared, 16) // 128) * 128

    @property
    def local_stride(self) -> int:
        """Bytes from the local memory of a lane to that of the next."""
        return -(-self.local // 16) * 16


@define(eq=False)
class Layout:
    """Which threads the lanes are: of each of `blocks` blocks as many warps, `warps[block]`, in this order."""

    shape: Shape
    blocks: int
    warps: Array
    lane: Array = field(init=False)  # 0 … L−1
    block: Array = field(init=False)  # the lane's block within the batch
    thread: Array = field(init=False)  # the lane's thread within its block
    real: Mask = field(init=False)
    shared_base: Array = field(init=False)  # where the shared memory of the lane's block begins
    cached: dict[str, Array] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        per = self.warps.shape[1] * WARP
        self.lane = np.arange(self.blocks * per, dtype=np.int64)
        self.block = np.repeat(np.arange(self.blocks, dtype=np.int64), per)
        first = np.repeat(self.warps.reshape(-1) * WARP, WARP)
        self.thread = first + self.lane % WARP
        inside = self.thread < self.shape.threads
        self.real = None if inside.all() else inside
        self.shared_base = self.block * self.shape.stride


@define(eq=False)
class Lanes:
    """Warps of a batch of blocks. `live` is None while every lane runs; `real` is None where no lane is padding."""

    layout: Layout
    blocks: Array  # linear numbers of the blocks of the batch
    shared: Array  # the shared memory of all of them
    flights: list[Flight]  # bulk copies to it that are not done
    memory: Memory
    params: Array  # bytes of the parameters
    checks: Checks
    counters: Counters
    r: list[Array]
    unset: list[Array]
    random: np.random.Generator | None = None
    clock: Clock | None = None  # who has seen whose writes, where races are looked for
    trace: SharedTrace | None = None
    launch: GlobalTrace | None = None
    shared_known: Array | None = None  # 1 where a byte was written, where unwritten ones are looked for
    local_known: Array | None = None
    cached: dict[str, Array] = field(factory=dict)
    fragments: dict[tuple[object, ...], tuple[list[Array], Array]] = field(factory=dict)
    copies: list[Copy] = field(factory=list)  # asynchronous ones that are not done
    committed: Array = field(factory=lambda: np.zeros(1, np.int32))  # groups of copies that each lane has closed
    products: list[tuple[int, Touch]] = field(factory=list)  # what unfinished wgmma read, by their group
    groups: int = 0
    fruitless: int = 0  # looks at mbarriers since the last that was of use
    shape: Shape = field(init=False)
    size: int = field(init=False)
    lane: Array = field(init=False)
    block: Array = field(init=False)
    thread: Array = field(init=False)
    shared_base: Array = field(init=False)
    real: Mask = field(init=False)
    live: Mask = field(init=False)
    local: Array = field(init=False)
    shared_views: dict[int, Array] = field(init=False)
    local_views: dict[int, Array] = field(init=False)
    chosen: tuple[Array | None, Array] = field(init=False)

    def __attrs_post_init__(self) -> None:
        layout = self.layout
        self.shape, self.size = layout.shape, len(layout.lane)
        self.lane, self.block, self.thread = layout.lane, layout.block, layout.thread
        self.shared_base = layout.shared_base
        self.real = self.live = layout.real
        self.local = np.zeros(self.size * self.shape.local_stride + 16, np.uint8)
        self.shared_views = views_of(self.shared)
        self.local_views = views_of(self.local)
        self.chosen = (None, self.lane)
        if self.checks.uninitialised:
            self.local_known = np.zeros(len(self.local), np.uint8)

    @property
    def warps(self) -> int:
        """How many warps the lanes are."""
        return self.size // WARP

    def active(self, m: Mask) -> Mask:
        """The lanes that an instruction under mask `m` runs on; None is all."""
        return self.live if m is None else m

    def full(self, x: Array) -> Array:
        """`x` with an element for each lane."""
        return x if x.shape[0] == self.size else np.broadcast_to(x, (self.size,))

    def selected(self, m: Mask) -> Array:
        """The numbers of the active lanes. Masks are never changed in place, so the last answer is kept by identity."""
        active = self.active(m)
        if active is not self.chosen[0]:
            self.chosen = (active, self.lane if active is None else np.flatnonzero(active))
        return self.chosen[1]

    def coordinates(self, lane: int) -> tuple[Dims, Dims]:
        """Block and thread of a lane."""
        return (
            unravel(int(self.blocks[int(self.block[lane])]), self.shape.grid),
            unravel(int(self.thread[lane]), self.shape.block),
        )

    def fail(
        self,
        code: str,
        message: str,
        ins: Instr,
        lane: int | None = None,
        *,
        expected: str | None = None,
        actual: str | None = None,
        help: str | None = None,
        notes: tuple[Note, ...] = (),
    ) -> NoReturn:
        """Raise a diagnostic at the line of `ins`, with the thread that `lane` is and the source line, if known."""
        where = f"kernel {self.shape.kernel}"
        if lane is not None:
            block, thread = self.coordinates(lane)
            where += f", block {block}, thread {thread}"
        raise error(
            code,
            message,
            span_of(self.shape.file, ins),
            expected=expected,
            actual=actual,
            help=help,
            notes=(Note(f"in {where}: {ins.text}"), *notes, *source_note(ins)),
        )


def views_of(data: Array) -> dict[int, Array]:
    """Bytes as elements of 1 to 16 bytes; complex numbers stand for 16."""
    return {w: data.view(f"u{w}") for w in (1, 2, 4, 8)} | {16: data.view(np.complex128)}


def unravel(index: int, dims: Dims) -> Dims:
    """x, y, z of a linear number."""
    return index % dims[0], index // dims[0] % dims[1], index // (dims[0] * dims[1])


def span_of(file: str, ins: Instr) -> Span:
    """The instruction in the PTX text, as far as its first line has it."""
    return Span(file, ins.line, ins.columns[0], ins.line, ins.columns[1])


def source_note(ins: Instr) -> tuple[Note, ...]:
    """Where the instruction comes from, as `.loc` has it."""
    place = ins.place
    if place is None:
        return ()
    span = Span(place.file, place.line, max(place.col, 1), place.line, max(place.col, 1))
    return (Note("compiled from here", span),)
