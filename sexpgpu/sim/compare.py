"""Comparisons and choices: setp, set, selp, slct, mov, cvta, isspacep."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sexpgpu.sim.decode import WINDOWS, Decoder, Read, Step
from sexpgpu.sim.floats import bf16_to_f32, f16_to_f32
from sexpgpu.sim.floats import flush as flush_f32
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.pointwise import Builder, count, pointwise
from sexpgpu.sim.source import Group, Instr, Operand, Sink
from sexpgpu.sim.types import B32, F32, PRED, STORAGE, TYPES, Array, Scalar

PLAIN: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
JOIN: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
WIDEN: dict[str, Callable[[Array], Array]] = {"f16": f16_to_f32, "bf16": bf16_to_f32}
COMPARED = frozenset({*PLAIN, *UNSIGNED, *(f"{name}u" for name in PLAIN), "num", "nan"})


def _ordered(a: Array, b: Array) -> Array:
    both: Array = (a == a) & (b == b)
    return both


def comparison(name: str, kind: Scalar) -> Callable[[Array, Array], Array] | None:
    """The comparison of two arrays of `kind`; None where there is none of this name."""
    if kind.kind != "float":
        return PLAIN.get(UNSIGNED.get(name, name))
    found: Callable[[Array, Array], Array] | None
    if name == "num":
        found = _ordered
    elif name == "nan":
        found = lambda a, b: ~_ordered(a, b)  # noqa: E731
    elif name == "ne":  # ordered: false for a NaN, unlike NumPy's
        found = lambda a, b: (a < b) | (a > b)  # noqa: E731
    elif name == "neu":
        found = np.not_equal
    elif name in PLAIN:
        found = PLAIN[name]
    elif name.endswith("u") and name[:-1] in PLAIN:
        plain = PLAIN[name[:-1]]
        found = lambda a, b: plain(a, b) | ~_ordered(a, b)  # noqa: E731
    else:
        return None
    if kind.name in WIDEN:
        widen, compare = WIDEN[kind.name], found
        return lambda a, b: compare(widen(a), widen(b))
    return found


def _compared(d: Decoder, ins: Instr, kind: Scalar) -> Callable[[Lanes], Array]:
    """The comparison that setp and set say, joined with a third operand where they have one."""
    names = [p for p in ins.parts if p in COMPARED]
    f = comparison(names[0], kind) if len(names) == 1 else None
    if f is None:
        raise d.refuse(ins, "no such comparison")
    a, b = (d.read(x, kind, ins) for x in ins.operands[1:3])
    compare = f
    if "ftz" in ins.parts:
        compare = lambda x, y: f(flush_f32(x), flush_f32(y))  # noqa: E731
    joins = [JOIN[p] for p in ins.parts if p in JOIN]
    if not joins:
        return lambda st: compare(a(st), b(st))
    join, third = joins[0], d.read(ins.operands[3], PRED, ins)
    return lambda st: join(compare(a(st), b(st)), third(st))


def _setp_pair(d: Decoder, ins: Instr, kind: Scalar) -> Step:
    """Of two 16-bit floats in a register: a predicate for the lower, one for the upper."""
    d.only(ins, kind.name, *COMPARED)
    count(d, ins, 3)
    part = TYPES[kind.name.removesuffix("x2")]
    f = comparison(ins.parts[0], part)
    target = ins.operands[0]
    if f is None or not isinstance(target, Group) or len(target.items) != 2:
        raise d.refuse(ins)
    compare = f
    a, b = (d.read(x, B32, ins) for x in ins.operands[1:3])
    writes = [d.write(x, PRED, ins) for x in target.items]

    def step(st: Lanes, m: Mask) -> None:
        x, y = (np.ascontiguousarray(read(st)).view(np.uint16).reshape(-1, 2) for read in (a, b))
        holds = compare(x, y)
        for half, write in enumerate(writes):
            write(st, holds[:, half].copy(), m)

    return step


def _setp(d: Decoder, ins: Instr) -> Step:
    kind = TYPES.get(ins.parts[-1])
    if kind is not None and kind.name in ("f16x2", "bf16x2"):
        return _setp_pair(d, ins, kind)
    if kind is None or kind.name.endswith("x2"):
        raise d.refuse(ins)
    d.only(ins, kind.name, "ftz", *COMPARED, *JOIN)
    joined = any(p in JOIN for p in ins.parts)
    count(d, ins, 4 if joined else 3)
    compute = _compared(d, ins, kind)
    target = ins.operands[0]
    if not isinstance(target, Group):
        write = d.write(target, PRED, ins)
        return lambda st, m: write(st, compute(st), m)
    first, second = (d.write(x, PRED, ins) for x in target.items)
    names = [p for p in ins.parts if p in JOIN]
    if names:  # the second result is the negated comparison, joined the same way
        f = comparison(next(p for p in ins.parts if p in COMPARED), kind)
        a, b = (d.read(x, kind, ins) for x in ins.operands[1:3])
        third, join = d.read(ins.operands[3], PRED, ins), JOIN[names[0]]
        assert f is not None

        def both(st: Lanes, m: Mask) -> None:
            plain, c = f(a(st), b(st)), third(st)
            first(st, join(plain, c), m)
            second(st, join(~plain, c), m)

        return both

    def pair(st: Lanes, m: Mask) -> None:
        plain = compute(st)
        first(st, plain, m)
        second(st, ~plain, m)

    return pair


def _set(d: Decoder, ins: Instr) -> Step:
    """set: all ones, or 1.0, where the comparison holds."""
    result, kind = TYPES.get(ins.parts[-2]), TYPES.get(ins.parts[-1])
    if kind is None or result is None or kind.name.endswith("x2") or result.name not in ("u32", "s32", "f32"):
        raise d.refuse(ins)
    d.only(ins, kind.name, result.name, "ftz", *COMPARED, *JOIN)
    compute = _compared(d, ins, kind)
    write = d.write(ins.operands[0], result, ins)
    if result.kind == "float":
        return lambda st, m: write(st, compute(st).astype(np.float32), m)
    return lambda st, m: write(st, -compute(st).astype(np.int32), m)


def _selp(d: Decoder, ins: Instr) -> Step:
    kind = TYPES.get(ins.parts[-1])
    if kind is None or len(ins.parts) != 1:
        raise d.refuse(ins)
    raw = Scalar(kind.name, "bits", kind.bits, kind.storage, kind.storage)
    if kind.kind == "float" and kind.bits in (32, 64):
        raw = kind

    def choose(a: Array, b: Array, p: Array) -> Array:
        return np.where(p, a, b)

    return pointwise(d, ins, choose, (raw, raw, PRED), raw)


def _slct(d: Decoder, ins: Instr) -> Step:
    kind, by = TYPES.get(ins.parts[-2]), TYPES.get(ins.parts[-1])
    if kind is None or by is None or by.name not in ("s32", "f32"):
        raise d.refuse(ins)
    d.only(ins, kind.name, by.name, "ftz")
    ftz = "ftz" in ins.parts

    def choose(a: Array, b: Array, c: Array) -> Array:
        return np.where((flush_f32(c) if ftz else c) >= 0, a, b)

    return pointwise(d, ins, choose, (kind, kind, F32 if by.name == "f32" else by), kind)


def _mov(d: Decoder, ins: Instr) -> Step:
    count(d, ins, 2)
    kind = TYPES.get(ins.parts[-1])
    if kind is None or len(ins.parts) != 1:
        raise d.refuse(ins)
    target, source = ins.operands
    if isinstance(target, Group):
        return _unpack(d, ins, target, source, kind)
    write = d.write(target, kind, ins)
    read = d.read(source, kind, ins)
    return lambda st, m: write(st, read(st), m)


def _unpack(d: Decoder, ins: Instr, target: Group, source: Operand, kind: Scalar) -> Step:
    width = kind.bits // max(len(target.items), 1)
    part = TYPES.get(f"b{width}")
    if part is None or width * len(target.items) != kind.bits:
        raise d.refuse(ins, f"{kind.bits} bits in {len(target.items)} parts")
    read = d.read(source, Scalar(kind.name, "bits", kind.bits, kind.storage, kind.storage), ins)
    writes = [(n, d.write(x, part, ins)) for n, x in enumerate(target.items) if not isinstance(x, Sink)]
    shift, dtype = kind.storage.type, STORAGE[width]

    def step(st: Lanes, m: Mask) -> None:
        value = read(st)
        for n, write in writes:
            write(st, (value >> shift(n * width)).astype(dtype), m)

    return step


def _cvta(d: Decoder, ins: Instr) -> Step:
    """To a generic address, or with `.to` from one: spaces are windows of the 64-bit range."""
    d.only(ins, "to", "global", "shared", "local", "param", "const", "shared::cta", "shared::cluster", "u64", "u32")
    space = next((p.split("::")[0] for p in ins.parts if p.split("::")[0] in WINDOWS), None)
    kind = TYPES[ins.parts[-1]]
    if space is None or kind.bits != 64:
        raise d.refuse(ins)
    window = np.uint64(WINDOWS[space])
    count(d, ins, 2)
    write = d.write(ins.operands[0], kind, ins)
    read: Read = d.read(ins.operands[1], kind, ins)
    if not window:
        return lambda st, m: write(st, read(st), m)
    if "to" in ins.parts:
        return lambda st, m: write(st, read(st) - window, m)
    return lambda st, m: write(st, read(st) + window, m)


def _isspacep(d: Decoder, ins: Instr) -> Step:
    space = ins.parts[0].split("::")[0]
    if space not in WINDOWS or len(ins.parts) != 1:
        raise d.refuse(ins)
    window = np.uint64(WINDOWS[space] >> 56)
    return pointwise(d, ins, lambda a: a >> np.uint64(56) == window, (TYPES["u64"],), PRED)


BUILDERS: dict[str, Builder] = {
    "setp": _setp,
    "set": _set,
    "selp": _selp,
    "slct": _slct,
    "mov": _mov,
    "cvta": _cvta,
    "isspacep": _isspacep,
}
