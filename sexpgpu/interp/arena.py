"""The block of memory that all programs of a run share: one runs at a time."""

from __future__ import annotations

import numpy as np

from sexpgpu.dialects.opdef import Array
from sexpgpu.plan.arena import ALIGNMENT


class Arena:
    """Memory that grows to the largest graph's needs; who holds views into it looks at `memory` again before using
    them.
    """

    def __init__(self) -> None:
        self.memory: Array = np.empty(0, np.uint8)

    def at_least(self, size: int) -> Array:
        """The memory, of `size` bytes or more, aligned to a cache line. What it held is lost when it grows."""
        if self.memory.size < size:
            self.memory = self.memory[:0]  # the old block goes before the new one comes
            block = np.empty(size + ALIGNMENT, np.uint8)
            start = -block.ctypes.data % ALIGNMENT
            self.memory = block[start : start + size]
        return self.memory
