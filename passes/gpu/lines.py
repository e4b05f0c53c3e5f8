"""Lines of a tensor: which axes number them, which run along them, and how threads share them out.

    sum, axes 2      [12, 64, 128]     768 lines of 128, their elements side by side
    sum, axes 1      [12, 64, 128]     1536 lines of 64, whose elements lie 128 apart
    sum, axes 0 1    [12, 64, 128]     128 lines of 768

A line's number counts along the kept axes, an element's along the reduced ones, both in row-major order.
"""

from __future__ import annotations

import math

from attrs import evolve, frozen

from sexpgpu.passes.gpu.kernel import WARP
from sexpgpu.passes.gpu.layout import Ints

MULTIPROCESSORS = 132
_SHORT = 1024
"""The elements of a line that one warp takes."""
_SPLIT = 4096
"""The elements of a line that a block gets at least, where several share it."""
_REGISTERS = 96
"""The registers of a thread that hold elements of lines."""
_HELD = 12
"""Those of a thread of a block of 1024, for a part of the thread's elements."""
_SHARED = 40 << 10
"""The bytes of shared memory that accumulators may take."""
_TURNS = 8
"""The most vectors or elements of a line that a thread holds; each is code of its own."""


@frozen
class Lines:
    """Sizes of runs of axes of one tensor, in order, and whether each runs along the lines; none has size 1."""

    segments: tuple[tuple[int, bool], ...]

    @classmethod
    def of(cls, shape: Ints, axes: Ints) -> Lines:
        """The lines along `axes`."""
        found: list[tuple[int, bool]] = []
        for axis, n in enumerate(shape):
            along = axis in axes
            if n == 1:
                continue
            if found and found[-1][1] == along:
                found[-1] = (found[-1][0] * n, along)
            else:
                found.append((n, along))
        return cls(tuple(found))

    @classmethod
    def behind(cls, count: int, length: int) -> Lines:
        """Lines of a tensor of `count` by `length`."""
        return cls.of((count, length), (1,))

    @property
    def count(self) -> int:
        return math.prod(n for n, along in self.segments if not along)

    @property
    def length(self) -> int:
        return math.prod(n for n, along in self.segments if along)

    @property
    def dense(self) -> bool:
        """Whether a line's elements lie side by side, one line behind the other."""
        return [along for _, along in self.segments] in ([], [False], [True], [False, True])

    @property
    def inward(self) -> bool:
        """Whether what lies side by side is on one line."""
        return bool(self.segments) and self.segments[-1][1]

    def parts(self, shape: Ints, kept: bool = False) -> tuple[Ints, ...] | None:
        """The sizes of the axes of `shape` that make up each run; `kept`: each that numbers lines, the only ones there.

        None where an axis is part of several runs.
        """
        sizes = [n for n, along in self.segments if not (kept and along)]
        found, at = [], 0
        for size in sizes:
            first, product = at, 1
            while product < size and at < len(shape):
                product *= shape[at]
                at += 1
            if product != size:
                return None
            found.append(shape[first:at])
        if any(n != 1 for n in shape[at:]):
            return None
        if found:
            found[-1] += shape[at:]
        return tuple(found)


@frozen
class Sharing:
    """How the threads of a grid share lines.

    `across` threads work on a line, in each block on `beside` of them. `inward`: those of a line are neighbours, and
    vectors of `lanes` run along it; otherwise neighbours take neighbouring lines, or vectors of them. `held`: how
    many of its vectors or elements, the first ones, a thread keeps in registers. `splits` blocks share a line.
    """

    inward: bool
    across: int
    beside: int
    lanes: int
    held: int
    splits: int = 1

    @property
    def threads(self) -> int:
        return self.across * self.beside

    def blocks(self, lines: Lines) -> int:
        return -(-self.units(lines) // self.beside) * self.splits

    def units(self, lines: Lines) -> int:
        """The lines, or vectors of lines, that a thread takes one of."""
        return lines.count if self.inward else lines.count // max(self.lanes, 1)


def share(
    lines: Lines, lanes: int, live: int, shared: int, *, words: int = 1, splits: bool = True, again: bool = False
) -> Sharing:
    """Threads for lines, of whose elements `live` 32-bit registers each are alive at once.

    `shared` is the bytes of accumulators of one thread that others have to see; `words` the registers of one number;
    `splits`: blocks may share a line; `again`: the lines are walked through more than once.
    """
    found = _beside(lines, lanes, live, words, again) if lines.inward else _apart(lines, lanes, live, shared, again)
    return found if splits else evolve(found, splits=1)


def _beside(lines: Lines, lanes: int, live: int, words: int, again: bool) -> Sharing:
    each = max(lanes, 1)
    units = -(-lines.length // each)
    few = lines.count < MULTIPROCESSORS
    if lines.length <= (2 * WARP if few else _SHORT):
        across = min(WARP, _power(-(-units // 2)))
        turns = -(-units // across)
        if turns <= _TURNS and turns * each * live <= _REGISTERS:
            beside = max(1, min(128 // across, _power(lines.count)))
            return Sharing(True, across, max(beside, -(-WARP // across)), lanes, turns)
    for threads, registers in ((128, _REGISTERS), (256, _REGISTERS), (512, 64), (1024, 24)):
        turns = -(-units // threads)
        most = _TURNS if threads == 1024 else 1 if few else _TURNS // 2
        if turns <= most and turns * each * live <= registers and threads * words <= 1024:
            return Sharing(True, threads, 1, lanes, turns)
    splits = 1
    if lines.count < MULTIPROCESSORS // 2 and lines.length >= 4 * _SPLIT:
        splits = min(2 * MULTIPROCESSORS // lines.count, lines.length // _SPLIT)
    if splits > 1:
        return Sharing(True, 256, 1, lanes, 0, splits)
    # Large blocks, so that few lines are under way: what is walked through again is in registers or in the cache.
    held = min(2 * _TURNS, _HELD // (each * live)) if again and words == 1 else 0
    return Sharing(True, 1024 // words, 1, lanes, held)


def _apart(lines: Lines, lanes: int, live: int, shared: int, again: bool) -> Sharing:
    each = max(lanes, 1)
    units = lines.count // each
    beside = min(WARP, _power(units))
    blocks = -(-units // beside)
    across = min(WARP, 256 // beside, _power(-(-lines.length // 4)))
    splits = 1
    if blocks >= 2 * MULTIPROCESSORS and lines.length <= 64:
        across, beside = 1, min(4 * WARP, _power(units))
    else:
        # Narrower stretches of more threads hold longer lines; a sector of memory is 32 bytes.
        while again and across < WARP and beside * each > WARP and not _holds(lines, across, each * live):
            across, beside = 2 * across, beside // 2
        while across > 1 and across * beside * each * shared > _SHARED:
            across //= 2
        if blocks < MULTIPROCESSORS:
            splits = max(1, min(-(-2 * MULTIPROCESSORS // blocks), lines.length // (4 * across)))
    turns = -(-lines.length // across)
    return Sharing(
        False, across, beside, lanes, turns if splits == 1 and _holds(lines, across, each * live) else 0, splits
    )


def _holds(lines: Lines, across: int, registers: int) -> bool:
    """Whether each of the threads that share a line can keep its part, of `registers` an element or vector."""
    turns = -(-lines.length // across)
    return turns <= _TURNS and turns * registers <= _REGISTERS


def _power(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()
