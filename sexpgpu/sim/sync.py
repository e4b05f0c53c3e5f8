"""Fences and the instructions that only end or delay: trap, nanosleep."""

from __future__ import annotations

import numpy as np

from sexpgpu.sim.decode import Decoder, Step
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.pointwise import Builder
from sexpgpu.sim.source import Instr

SCOPES = ("gl", "sys", "gpu", "cta", "cluster")
KINDS = (
    "sc", "acq_rel", "acquire", "release", "proxy", "async", "alias", "mbarrier_init", "async::generic", "global",
    "shared::cta", "shared::cluster", "tensormap::generic",
)  # fmt: skip


def _fence(d: Decoder, ins: Instr) -> Step:
    """membar, fence: memory is always in order here; what looks for races is told of those of the device."""
    d.only(ins, *SCOPES, *KINDS)
    if not {"gl", "sys", "gpu"} & set(ins.parts):
        return lambda st, m: None

    def step(st: Lanes, m: Mask) -> None:
        if st.launch is not None:
            st.launch.fence(st.blocks[np.unique(st.block.take(st.selected(m)))])

    return step


def _trap(d: Decoder, ins: Instr) -> Step:
    def step(st: Lanes, m: Mask) -> None:
        st.fail("E-SIM-044", "the kernel stopped itself", ins, int(st.selected(m)[0]))

    return step


def _delay(d: Decoder, ins: Instr) -> Step:
    return lambda st, m: None


BUILDERS: dict[str, Builder] = {
    "membar": _fence,
    "fence": _fence,
    "trap": _trap,
    "nanosleep": _delay,
    "setmaxnreg": _delay,
    "griddepcontrol": _delay,
}
