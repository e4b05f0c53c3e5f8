"""Which file decodes which instruction, and the class that reports count it in."""

from __future__ import annotations

from sexpgpu.sim import (
    atomics,
    bits,
    carry,
    compare,
    convert,
    copies,
    integer,
    loads,
    matrix,
    mbarrier,
    mma,
    real,
    sync,
    warp,
    wgmma,
)
from sexpgpu.sim.decode import Decoder
from sexpgpu.sim.pointwise import Builder
from sexpgpu.sim.source import Instr

BUILDERS: dict[str, Builder] = {
    **bits.BUILDERS,
    **compare.BUILDERS,
    **convert.BUILDERS,
    **loads.BUILDERS,
    **atomics.BUILDERS,
    **warp.BUILDERS,
    **sync.BUILDERS,
    **copies.BUILDERS,
    **matrix.BUILDERS,
    **mma.BUILDERS,
    **mbarrier.BUILDERS,
    **wgmma.BUILDERS,
}

CLASSES = {
    "tensor": ("mma", "wgmma"),
    "memory": ("ld", "ldu", "st", "cp", "ldmatrix", "stmatrix", "prefetch", "prefetchu"),
    "atomic": ("atom", "red"),
    "barrier": ("bar", "barrier", "membar", "fence", "mbarrier"),
    "warp": ("shfl", "vote", "match", "redux", "activemask", "elect"),
    "control": ("bra", "brx", "ret", "exit", "call", "trap"),
    "convert": ("cvt", "cvta"),
    "special": ("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"),
    "move": ("mov", "selp", "slct", "prmt"),
    "compare": ("setp", "set", "testp", "isspacep"),
}
_CLASS = {op: name for name, ops in CLASSES.items() for op in ops}


def builder_of(d: Decoder, ins: Instr) -> Builder:
    """The builder of an instruction. Raises E-SIM-011 for one that there is none for."""
    kind = ins.parts[-1] if ins.parts else ""
    if carry.uses_carry(ins):
        return carry.build
    if ins.op in real.BUILDERS and (kind in real.KINDS or ins.op not in integer.BUILDERS):
        return real.BUILDERS[ins.op]
    if ins.op in integer.BUILDERS and kind in integer.KINDS:
        return integer.BUILDERS[ins.op]
    if ins.op in integer.PAIR_BUILDERS and kind in integer.PAIRS:
        return integer.PAIR_BUILDERS[ins.op]
    found = BUILDERS.get(ins.op)
    if found is None:
        raise d.refuse(ins)
    return found


def class_of(ins: Instr) -> str:
    """What a report counts an instruction as."""
    found = _CLASS.get(ins.op)
    if found is not None:
        return found
    return "float" if ins.parts and ins.parts[-1] in real.KINDS else "integer"
