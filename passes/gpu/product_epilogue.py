"""What becomes of the sums of a product: they lie in shared memory, and each thread takes some in vectors.

So results are written, and what is read with them is read, in whole lines, whatever the order in which the sums were
made; and the functions that follow a product stand in its kernel once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sexpgpu.passes.gpu.kernel import Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.product_tiling import Tiling

Emit = Callable[[Index, Index, Reg, Sequence[Reg]], Sequence[Reg]]
"""Takes the sums at a row and a column of the tile, a vector along the columns, or one, and what the thread carries
along; gives what it carries further.
"""
AHEAD = 16
"""Elements whose operands are read before the first of them is done with."""


def drain(
    k: Kernel,
    sums: Pointer,
    tiling: Tiling,
    room: tuple[Index, Index],
    lanes: int,
    emit: Emit,
    carried: Sequence[Reg] = (),
) -> Sequence[Reg]:
    """Give `emit` the sums that lie in the first `room` rows and columns, `lanes` (0: one) at once; what each thread
    has in the end of what it carries along.
    """
    each = max(lanes, 1)
    across = tiling.columns // each
    total = tiling.rows * across
    threads = tiling.workers
    turns = max(1, min(AHEAD // each, total // threads))

    def work() -> Sequence[Reg]:
        with k.loop(0, total, turns * threads, carried) as turn:
            held: Sequence[Reg] = turn.carried
            for i in range(turns):
                number = k.add(turn.index, k.add(k.thread(), i * threads))
                row, column = k.div(number, across), k.mul(k.rem(number, across), each)
                conditions = []
                if total % (turns * threads):
                    conditions.append(k.below(number, total))
                if room[0] != tiling.rows:
                    conditions.append(k.below(row, room[0]))
                if room[1] != tiling.columns:
                    conditions.append(k.below(column, room[1]))

                def element(row: Index = row, column: Index = column, held: Sequence[Reg] = held) -> Sequence[Reg]:
                    return emit(row, column, k.load(sums, k.add(k.mul(row, tiling.pitch), column), lanes), held)

                held = where_all(k, conditions, element, held)
            turn.next(*held)
        return turn.results

    return where_all(k, [] if threads == tiling.threads else [k.below(k.thread(), threads)], work, carried)


def where_all(
    k: Kernel, conditions: Sequence[Reg], write: Callable[[], Sequence[Reg]], held: Sequence[Reg]
) -> Sequence[Reg]:
    """What a function makes of what is held where all conditions hold, and does."""
    if not conditions:
        return write()
    found = conditions[0]
    for condition in conditions[1:]:
        found = k.op("arith.andi", found, condition)
    if held:
        return k.either(found, write, held)
    with k.when(found):
        write()
    return ()
