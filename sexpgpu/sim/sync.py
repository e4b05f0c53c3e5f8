"""Fences and the instructions that only end or delay: trap, nanosleep."""

from __future__ import annotations

from sexpgpu.sim.decode import Decoder, Step
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.pointwise import Builder
from sexpgpu.sim.source import Instr


def _fence(d: Decoder, ins: Instr) -> Step:
    """membar, fence: memory is always in order here."""
    return lambda st, m: None


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
    "griddepcontrol": _delay,
}
