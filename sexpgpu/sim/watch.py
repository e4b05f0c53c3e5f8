"""What looks at every access that is inside memory: uninitialised bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexpgpu.sim.lanes import Lanes

if TYPE_CHECKING:
    from sexpgpu.sim.access import Touch


def access(st: Lanes, touch: Touch) -> None:
    """Called before the access happens."""
