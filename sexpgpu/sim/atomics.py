"""atom and red: read, change and write of one place, each lane after the other.

Lanes that meet at one address are served in the order of their numbers, or in a random one where warps run in random
order. What different addresses see is done at once: the n-th visitor of every address together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sexpgpu.sim import floats
from sexpgpu.sim.access import by_space, data_of, locate
from sexpgpu.sim.decode import Decoder, Step, Write
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.loads import SPACES, cut
from sexpgpu.sim.memory import BASE
from sexpgpu.sim.pointwise import Builder
from sexpgpu.sim.real import in_halves
from sexpgpu.sim.source import Group, Instr, Operand, Sink
from sexpgpu.sim.types import TYPES, Array, Scalar

Update = Callable[[Array, Array], Array]
HINTS = frozenset(
    {"relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "cluster", "noftz", "L2::cache_hint"}
)
VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def _wrapped_up(old: Array, limit: Array) -> Array:
    found: Array = np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))
    return found


def _wrapped_down(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


UPDATES: dict[str, Update] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: np.broadcast_to(new, old.shape),
    "inc": _wrapped_up,
    "dec": _wrapped_down,
}


def _update(name: str, kind: Scalar) -> Update:
    if name in ("min", "max"):
        if kind.kind != "float":
            return np.minimum if name == "min" else np.maximum
        pick = floats.minimum if name == "min" else floats.maximum
        real: Update = lambda old, new: pick(old, new, False)  # noqa: E731
    else:
        real = UPDATES[name]
    if kind.kind == "float" and kind.name not in ("f32", "f64"):
        return in_halves(real, kind)
    return real


def _atomic(d: Decoder, ins: Instr) -> Step:
    returns = ins.op == "atom"
    space: str | None = None
    kind: Scalar | None = None
    name, n = "", 1
    for part in ins.parts:
        if part in SPACES:
            space = SPACES[part]
        elif part in UPDATES or part in ("min", "max", "cas"):
            name = part
        elif part in VECTORS:
            n = VECTORS[part]
        elif part in TYPES:
            kind = TYPES[part]
        elif part not in HINTS:
            raise d.refuse(ins, f".{part}")
    operands = list(ins.operands)
    target: Operand = operands.pop(0) if returns else Sink()
    if kind is None or not name or space not in (None, "global", "shared") or len(operands) != 2 + (name == "cas"):
        raise d.refuse(ins)
    address = d.address(operands[0], ins)
    named = d.space_of(operands[0], ins) if space is None else space
    values = operands[1].items if isinstance(operands[1], Group) else (operands[1],)
    results = target.items if isinstance(target, Group) else (target,)
    if len(values) != n or (returns and len(results) != n):
        raise d.refuse(ins, f"not {n} elements")
    reads = [d.read(x, kind, ins) for x in values]
    writes = [d.write(x, kind, ins, space is None) if not isinstance(x, Sink) else None for x in results]
    swap = d.read(operands[2], kind, ins) if name == "cas" else None
    update = None if name == "cas" else _update(name, kind)
    width = kind.size

    def run(st: Lanes, m: Mask, where: str, a: Array) -> None:
        locate(st, m, ins, where, a, width * n, "atomic")  # of a vector, the alignment of the whole
        st.counters.atomics += len(st.selected(m))
        for k, read in enumerate(reads):
            touch = _place(st, m, where, a + k * width, width)
            lanes = touch[1]
            given = np.broadcast_to(cut(st, read(st), lanes), lanes.shape)
            other = np.broadcast_to(cut(st, swap(st), lanes), lanes.shape) if swap else None
            old = _serve(st, where, touch[0], width, kind, update, given, other)
            write = writes[k] if returns else None
            if write is not None:
                _spread(st, m, write, old, lanes, kind)

    if named is not None:
        fixed = named
        return lambda st, m: run(st, m, fixed, address(st))
    return lambda st, m: by_space(st, m, address(st), lambda part, where, a: run(st, part, where, a))


def _place(st: Lanes, m: Mask, where: str, a: Array, width: int) -> tuple[Array, Array]:
    """The index of each active lane's element and the lanes, of an access that is known to be in order."""
    lanes = st.selected(m)
    mine = np.broadcast_to(a, (st.size,)).take(lanes)
    if where == "global":
        return (mine - BASE) // width, lanes
    return (mine + st.shared_base.take(lanes)) // width, lanes


def _serve(
    st: Lanes,
    where: str,
    index: Array,
    width: int,
    kind: Scalar,
    update: Update | None,
    given: Array,
    swap: Array | None,
) -> Array:
    """Apply the updates; the values that were there before each."""
    data = data_of(st, where)[width].view(kind.dtype)
    order = np.argsort(index, kind="stable")
    if st.random is not None:
        order = st.random.permutation(len(index))
        order = order[np.argsort(index[order], kind="stable")]
    sorted_index = index[order]
    first = np.r_[True, sorted_index[1:] != sorted_index[:-1]]
    rank = np.arange(len(index)) - np.maximum.accumulate(np.where(first, np.arange(len(index)), 0))
    old = np.empty(len(index), kind.dtype)
    visits = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[visits], np.arange(int(rank.max()) + 2))
    for n in range(len(bounds) - 1):
        these = order[visits[bounds[n] : bounds[n + 1]]]
        at = index[these]
        before = data[at]
        old[these] = before
        if update is not None:
            data[at] = update(before, given[these])
        else:
            assert swap is not None
            data[at] = np.where(before == given[these], swap[these], before)
    return old


def _spread(st: Lanes, m: Mask, write: Write, old: Array, lanes: Array, kind: Scalar) -> None:
    out = np.zeros(st.size, kind.dtype)
    out[lanes] = old
    write(st, out, m)


BUILDERS: dict[str, Builder] = {"atom": _atomic, "red": _atomic}
