"""What looks at every access that is inside memory, each under its own switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexpgpu.sim import between, races, traffic, unwritten
from sexpgpu.sim.lanes import Lanes

if TYPE_CHECKING:
    from sexpgpu.sim.access import Touch


def access(st: Lanes, touch: Touch) -> None:
    """Called before the access happens."""
    checks = st.checks
    if checks.races and st.clock is not None:
        if touch.space == "shared":
            races.shared(st, st.clock, touch)
        elif touch.space == "global":
            between.access(st, st.clock, touch)
    if checks.uninitialised:
        unwritten.access(st, touch)
    if checks.traffic:
        traffic.access(st, touch)
