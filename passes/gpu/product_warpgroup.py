"""Sums of products of bf16 by warpgroups, of tiles that bulk copies bring to shared memory: kernels of sm_90a.

    the last warp      one thread copies the tiles of each step into a ring, as its slots become free
    the others         each warpgroup multiplies 64 rows by all columns of a tile as it arrives

Two barriers a slot carry this: `full` is told of the bytes that arrive, `empty` by each warp whose products have read
the slot. A warpgroup has one step's products under way while it waits for the next tile.
"""

from __future__ import annotations

from attrs import define, field

from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.product_bulk import ITEM, WIDTH, Bulk
from sexpgpu.passes.gpu.product_tiling import Tiling
from sexpgpu.passes.gpu.tensorcore import dynamic_shared
from sexpgpu.passes.gpu.warpgroup import DEPTH, GROUP, ROWS, SWIZZLE, WARPGROUP, Barriers, Warpgroup, copy_box, meet

BLOCK = ROWS * SWIZZLE
"""Bytes of the rows of a warpgroup in a slot, and of a box of lines that lie beside each other."""


@define(eq=False)
class WarpgroupProducts:
    """The work of a block."""

    kernel: Kernel
    tiling: Tiling
    bulks: tuple[Bulk, Bulk]
    _ring: Pointer = field(init=False)
    _full: Barriers = field(init=False)
    _empty: Barriers = field(init=False)
    _core: Warpgroup = field(init=False)

    def __attrs_post_init__(self) -> None:
        k, tiling = self.kernel, self.tiling
        self._ring = dynamic_shared(k, "i8", align=GROUP)
        self._full = Barriers(k, dynamic_shared(k, "i64", tiling.ring, align=GROUP))
        self._empty = Barriers(k, dynamic_shared(k, "i64", tiling.ring + 8 * tiling.stages, align=GROUP))
        self._core = Warpgroup(k, tiling.columns, (self.bulks[0].across, self.bulks[1].across))

    @property
    def sums(self) -> Pointer:
        """Where `accumulate` puts the sums: rows of columns, `pitch` apart, in place of the tiles."""
        return Pointer(self._ring.value, self.tiling.type, 3)

    def accumulate(self, batch: Index, row: Index, column: Index, first: Index, steps: Index) -> None:
        """The sums over so many steps from place `first` on, in shared memory when the block's threads next meet."""
        k, tiling = self.kernel, self.tiling
        thread = k.thread()
        with k.when(k.below(thread, 1)):
            for slot in range(tiling.stages):
                self._full.init(slot, 1)
                self._empty.init(slot, tiling.workers // WARP)
            self._full.ready()
        k.barrier()
        with k.when(k.compare("eq", thread, k.reg(tiling.workers))):
            self._produce(batch, (row, column), first, steps)
        with k.when(k.below(thread, tiling.workers)):
            self._consume(thread, steps)

    def _produce(self, batch: Index, lines: tuple[Index, Index], first: Index, steps: Index) -> None:
        """Copy the tiles of all steps, each when its slot is free: at the beginning all are."""
        k, tiling = self.kernel, self.tiling
        with k.loop(0, steps, 1, [k.reg(0), k.const(1, "i32")], rolled=True) as turn:
            slot, parity = turn.carried
            self._empty.wait(slot, parity)
            self._full.expect(slot, tiling.slot_bytes)
            place = k.add(first, k.mul(turn.index, tiling.depth))
            arrived = self._full.at(slot)
            for which, bulk in enumerate(self.bulks):
                start = k.add(k.mul(slot, tiling.slot_bytes), which * tiling.slots[0] * ITEM)
                for box in range(bulk.boxes((tiling.rows, tiling.columns)[which])):
                    corner = bulk.corner(k, batch, k.add(lines[which], box * WIDTH), place)
                    copy_box(k, k.maps[which], corner, self._ring, k.add(start, box * BLOCK), arrived)
            turn.next(*self._following(slot, parity))

    def _consume(self, thread: Reg, steps: Index) -> None:
        k, core, tiling = self.kernel, self._core, self.tiling
        group, lane = k.div(thread, WARPGROUP), k.rem(thread, WARP)
        speaks = k.compare("eq", k.reg(lane), k.reg(0))
        descriptors = self._descriptors(group)
        zero = core.packed([k.const(0, "f32")] * core.count)
        carried = [Reg(zero, "f32"), k.reg(0), k.reg(0), k.const(0, "i32")]
        with k.loop(0, steps, 1, carried, rolled=True) as turn:
            sums, before, slot, parity = turn.carried
            self._full.wait(slot, parity)
            core.begin()
            made = self._products(descriptors, slot, sums.value)
            core.commit()
            core.wait(1)
            done = k.op("arith.andi", speaks, k.compare("gt", turn.index, k.reg(0)))
            with k.when(done):
                self._empty.arrive(before)
            turn.next(Reg(made, "f32"), slot, *self._following(slot, parity))
        core.wait(0)
        meet(k, tiling.workers)  # all have read all tiles, in whose place the sums go
        self._spread(core.unpacked(turn.results[0].value), group)

    def _descriptors(self, group: Index) -> tuple[Reg, Reg]:
        """The warpgroup's rows of the first slot, and all of its columns."""
        behind = self.tiling.slots[0] * ITEM
        a = self._core.descriptor(self._ring, self.kernel.mul(group, BLOCK), 0, BLOCK)
        return a, self._core.descriptor(self._ring, behind, 1, BLOCK)

    def _products(self, descriptors: tuple[Reg, Reg], slot: Reg, sums: object) -> object:
        """The sums with the products of one slot. Descriptors count in 16 bytes."""
        k, tiling = self.kernel, self.tiling
        moved = k.mul(slot, tiling.slot_bytes >> 4)
        wide = k.reg(moved) if k.wide else k.op("arith.extui", k.reg(moved), type="i64")
        first = [k.op("arith.addi", each, wide) for each in descriptors]
        for place in range(0, tiling.depth, DEPTH):
            steps = [place * SWIZZLE if bulk.across else place * ITEM for bulk in self.bulks]
            a, b = (
                k.op("arith.addi", each, k.const(step >> 4, "i64")) if step else each
                for each, step in zip(first, steps, strict=True)
            )
            sums = self._core.product(a, b, sums)
        return sums

    def _following(self, slot: Reg, parity: Reg) -> tuple[Reg, Reg]:
        """The slot behind one in the ring, and the parity of its phase: it changes where the ring begins anew."""
        k = self.kernel
        end = k.compare("eq", slot, k.reg(self.tiling.stages - 1))
        other = k.op("arith.xori", parity, k.const(1, "i32"))
        return k.select(end, k.reg(0), k.reg(k.add(slot, 1))), k.select(end, other, parity)

    def _spread(self, sums: list[Reg], group: Index) -> None:
        k, tiling = self.kernel, self.tiling
        thread = k.thread()
        warp, lane = k.rem(k.div(thread, WARP), WARPGROUP // WARP), k.rem(thread, WARP)
        row = k.add(k.mul(group, ROWS), k.add(k.mul(warp, 16), k.div(lane, 4)))
        first = k.add(k.mul(row, tiling.pitch), k.mul(k.rem(lane, 4), 2))
        pairs = iter(range(0, len(sums), 2))
        for column in range(0, tiling.columns, 8):
            for half in (0, 8):
                at = next(pairs)
                k.store(k.pack(sums[at : at + 2]), self.sums, k.add(first, half * tiling.pitch + column))
