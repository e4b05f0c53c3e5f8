"""Instructions to closures: registers by number, operands resolved, one function an instruction.

A step takes the lanes and a mask. A mask of None says that every lane that is alive takes part, so results replace
registers as they are; a mask is the lanes that do, and the others keep what they had. Registers that no block reads
before writing them are never merged: nobody can see what the other lanes had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from attrs import define, field

from sexpgpu.diag import SxError, error, nearest
from sexpgpu.sim.cursor import float_of
from sexpgpu.sim.lanes import Lanes, Mask, source_note, span_of
from sexpgpu.sim.program import Program, Symbol
from sexpgpu.sim.source import Address, Group, Imm, Instr, Name, Operand, Reg, Sink, Special
from sexpgpu.sim.special import special
from sexpgpu.sim.types import STORAGE, Array, Scalar

Read = Callable[[Lanes], Array]
Write = Callable[[Lanes, Array, Mask], None]
Step = Callable[[Lanes, Mask], None]

WINDOWS = {"global": 0, "const": 0, "shared": 1 << 56, "local": 2 << 56, "param": 3 << 56}
WINDOW_SHIFT = 56


@define(eq=False)
class Decoder:
    """What closures are made with: numbers of registers, places of symbols, which registers need no merging."""

    program: Program
    globals: Mapping[str, Symbol]
    index: dict[str, int] = field(init=False)
    kinds: list[Scalar] = field(init=False)
    private: frozenset[str] = frozenset()  # registers that no block reads before it writes them

    def __attrs_post_init__(self) -> None:
        names = list(self.program.registers)
        self.index = {name: i for i, name in enumerate(names)}
        self.kinds = [self.program.registers[name] for name in names]

    def refuse(self, ins: Instr, why: str | None = None) -> SxError:
        """E-SIM-011: an instruction, or a form of one, that is not known."""
        return error(
            "E-SIM-011",
            f"the instruction {'.'.join((ins.op, *ins.parts))} is not known" + (f" in this form: {why}" if why else ""),
            span_of(self.program.file, ins),
            actual=ins.text,
            notes=source_note(ins),
        )

    def no_label(self, ins: Instr, label: str, labels: Iterable[str]) -> SxError:
        """E-SIM-012: a branch to a label that its function does not have."""
        near = nearest(label, labels)
        return error(
            "E-SIM-012",
            f"there is no label {label}",
            span_of(self.program.file, ins),
            expected=" ".join(labels) or "a label (the function has none)",
            actual=ins.text,
            help=f"did you mean {near}?" if near else None,
            notes=source_note(ins),
        )

    def only(self, ins: Instr, *known: str) -> None:
        """Refuse an instruction with parts other than these and types."""
        for part in ins.parts:
            if part not in known:
                raise self.refuse(ins, f".{part}")

    def symbol(self, name: str, ins: Instr) -> Symbol:
        found = self.program.symbols.get(name) or self.globals.get(name)
        if found is None:
            raise self.refuse(ins, f"{name} is not declared")
        return found

    def reg(self, operand: Operand, ins: Instr) -> int:
        if not isinstance(operand, Reg):
            raise self.refuse(ins, "a register was expected")
        return self.index[operand.name]

    def read(self, operand: Operand, kind: Scalar, ins: Instr) -> Read:
        """The operand in the view of `kind`; a wider register is cut."""
        if isinstance(operand, Reg):
            return self._read_register(operand, kind, ins)
        if isinstance(operand, Imm):
            return always(literal(operand, kind))
        if isinstance(operand, Special):
            return special(operand.name, kind, self.refuse(ins, operand.name))
        if isinstance(operand, Name | Address):
            return always(np.array([self._address_value(operand, ins) & (1 << kind.bits) - 1], kind.storage))
        if isinstance(operand, Group) and kind.kind != "pred":
            return self._read_packed(operand, kind, ins)
        raise self.refuse(ins, "an operand of another kind")

    def _read_register(self, operand: Reg, kind: Scalar, ins: Instr) -> Read:
        i = self.index[operand.name]
        have, dtype = self.kinds[i], kind.dtype
        if (have.bits == 1) != (kind.bits == 1):
            raise self.refuse(ins, f"{operand.name} is of type {have.name}")
        if operand.negated:
            return lambda st: ~st.r[i]
        if have.bits == kind.bits:
            if dtype == have.storage:
                return lambda st: st.r[i]
            return lambda st: st.r[i].view(dtype)
        if have.bits < kind.bits:
            raise self.refuse(ins, f"{operand.name} has {have.bits} bits, not {kind.bits}")
        storage = kind.storage
        return lambda st: st.r[i].astype(storage).view(dtype)

    def _read_packed(self, operand: Group, kind: Scalar, ins: Instr) -> Read:
        """`{a, b}` as one wider value, the first item lowest."""
        part = STORAGE.get(kind.bits // max(len(operand.items), 1))
        if part is None or part.itemsize * 8 * len(operand.items) != kind.bits:
            raise self.refuse(ins, f"{kind.bits} bits of {len(operand.items)} parts")
        items = [self.read(x, _bits(part.itemsize * 8), ins) for x in operand.items]
        width, storage = part.itemsize * 8, kind.storage.type

        def packed(st: Lanes) -> Array:
            out = items[0](st).astype(storage)
            for n, item in enumerate(items[1:], 1):
                out = out | (item(st).astype(storage) << storage(width * n))
            return out.view(kind.dtype)

        return packed

    def _address_value(self, operand: Name | Address, ins: Instr) -> int:
        """A symbol as a value: its address in its own space."""
        name = operand if isinstance(operand, Name) else operand.base
        offset = 0 if isinstance(operand, Name) else operand.offset
        if not isinstance(name, Name):
            raise self.refuse(ins, "an address where a value was expected")
        return self.symbol(name.name, ins).offset + offset

    def write(self, operand: Operand, kind: Scalar, ins: Instr, parts: bool = False) -> Write:
        """Store a value of type `kind`; in a wider register it is extended by its sign.

        `parts` says that one instruction may write the register several times, for different lanes.
        """
        if isinstance(operand, Sink):
            return lambda st, v, m: None
        i = self.reg(operand, ins)
        assert isinstance(operand, Reg)
        have = self.kinds[i]
        if have.bits < kind.bits or (have.bits == 1) != (kind.bits == 1):
            raise self.refuse(ins, f"{operand.name} has {have.bits} bits, not {kind.bits}")
        storage = have.storage
        extended = have.bits > kind.bits
        wide = np.dtype(f"i{have.bits // 8}") if kind.signed else storage
        narrow = np.dtype(f"i{kind.bits // 8}") if kind.signed and extended else kind.storage
        if operand.name in self.private and ins.guard is None and not extended and not parts:

            def replace(st: Lanes, v: Array, m: Mask) -> None:
                st.r[i] = v.view(storage)

            return replace

        def merge(st: Lanes, v: Array, m: Mask) -> None:
            v = v.view(narrow).astype(wide).view(storage) if extended else v.view(storage)
            if m is not None:
                old = st.r[i]
                if old is not st.unset[i]:
                    v = np.where(m, v, old)
            st.r[i] = v

        return merge

    def address(self, operand: Operand, ins: Instr) -> Read:
        """The address in `[…]`, as int64, in whatever space the instruction is of."""
        if not isinstance(operand, Address):
            raise self.refuse(ins, "an address was expected")
        offset = operand.offset
        if isinstance(operand.base, Reg):
            i = self.index[operand.base.name]
            bits = self.kinds[i].bits
            if bits == 64:
                plus = _wrapped(offset)
                if not offset:
                    return lambda st: st.r[i].view(np.int64)
                return lambda st: st.r[i].view(np.int64) + plus
            if bits == 32:
                short = np.uint32(offset & 0xFFFFFFFF)
                return lambda st: (st.r[i] + short).astype(np.int64)
            raise self.refuse(ins, f"{operand.base.name} is too narrow for an address")
        start = 0 if operand.base is None else self.symbol(operand.base.name, ins).offset
        return always(_wrapped(start + offset))

    def space_of(self, operand: Operand, ins: Instr) -> str | None:
        """The state space of an address that names a variable."""
        if isinstance(operand, Address) and isinstance(operand.base, Name):
            return self.symbol(operand.base.name, ins).space
        return None


def _wrapped(address: int) -> Array:
    """An address of 64 bits, whatever was written."""
    return np.array([address & (1 << 64) - 1], np.uint64).view(np.int64)


def _bits(width: int) -> Scalar:
    return Scalar(f"b{width}", "bits", width, STORAGE[width], STORAGE[width])


def always(value: Array) -> Read:
    """An operand that is the same in every lane."""
    value.flags.writeable = False
    return lambda st: value


def literal(value: Imm, kind: Scalar) -> Array:
    """A literal as an array of one element of `kind`."""
    if kind.kind == "pred":
        return np.array([bool(value.value)])
    if kind.dtype.kind == "f":
        if not value.bits and isinstance(value.value, int):  # bits of a float, written as an integer
            return np.array([value.value & (1 << kind.bits) - 1], kind.storage).view(kind.dtype)
        if value.bits == kind.bits:
            return np.array([value.value], kind.storage).view(kind.dtype)
        return np.array([float_of(value)], np.float64).astype(kind.dtype)
    bits = int(value.value)
    return np.array([bits & (1 << kind.bits) - 1], kind.storage).view(kind.dtype)
