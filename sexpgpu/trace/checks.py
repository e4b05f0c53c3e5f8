"""Independent checks of what one form says: every fault in it is told, not only the first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from attrs import define, field

from sexpgpu.diag import SxError
from sexpgpu.lang.active import active
from sexpgpu.lang.conditions import Poisoned

T = TypeVar("T")


@define(eq=False)
class Checks:
    """Those of one form; `end` raises what they found."""

    faults: list[SxError] = field(factory=list)

    def of(self, otherwise: T, check: Callable[[], T]) -> T:
        """What `check()` gives; `otherwise` after its fault, which is kept with its place."""
        try:
            return check()
        except SxError as fault:
            self.faults.append(active().explained(fault, sys._getframe(1)))
            return otherwise

    def fail(self, fault: SxError) -> None:
        """Keep a fault of the form."""

        def check() -> None:
            raise fault

        self.of(None, check)

    def end(self) -> None:
        """Raise the first fault with the others, if there is one; a use of what has failed is told already."""
        if self.faults:
            first, *others = [f for f in self.faults if not isinstance(f, Poisoned)] or self.faults
            first.others = tuple(other.diagnostic for other in others)
            raise first
