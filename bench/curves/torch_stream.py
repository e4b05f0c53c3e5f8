"""PyTorch's CPU random stream, rebuilt with NumPy: enough of it to repeat a run that started from a seed.

The generator is MT19937 seeded with 32 bits, which is also what `numpy.random.RandomState(seed)` is; only the
maps from its words to numbers differ. Integers and uniforms equal PyTorch's, normals agree within 2.4e-7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK = 16  # normals are made sixteen at a time


class TorchStream:
    """The stream after `torch.manual_seed(seed)`; each method consumes what its PyTorch counterpart does."""

    def __init__(self, seed: int) -> None:
        self._words = np.random.RandomState(seed)

    def words(self, count: int) -> NDArray[np.uint32]:
        """The next `count` outputs of the generator."""
        return np.frombuffer(self._words.bytes(4 * count), "<u4")

    def skip_uniform(self, count: int) -> None:
        """What `tensor.uniform_()` of `count` f32 elements consumes: a word each."""
        self.words(count)

    def integers(self, high: int, count: int) -> NDArray[np.int64]:
        """`torch.randint(high, (count,))` for `high` below 2^32: the word modulo `high`."""
        return (self.words(count) % np.uint32(high)).astype(np.int64)

    def normal(self, count: int, std: float) -> NDArray[np.float32]:
        """`tensor.normal_(0, std)` of `count` >= 16 f32 elements.

        Box-Muller on blocks of sixteen uniforms of 24 bits: the first eight give the radii, the last eight
        the angles. Where `count` is no multiple of sixteen, the last sixteen elements are drawn again.
        """
        if count < BLOCK:
            raise ValueError("fewer than sixteen normals take another path through PyTorch")
        values = self._uniform(count)
        whole = count - count % BLOCK
        values[:whole] = _box_muller(values[:whole], std)
        if whole != count:
            values[-BLOCK:] = _box_muller(self._uniform(BLOCK), std)
        return values

    def _uniform(self, count: int) -> NDArray[np.float32]:
        low = self.words(count) & np.uint32(0xFFFFFF)
        return low.astype(np.float32) * np.float32(2.0**-24)


def _box_muller(uniform: NDArray[np.float32], std: float) -> NDArray[np.float32]:
    blocks = uniform.reshape(-1, BLOCK)
    radius = np.sqrt(np.float32(-2.0) * np.log(np.float32(1.0) - blocks[:, :8]))
    angle = np.float32(2.0 * np.pi) * blocks[:, 8:]
    pairs = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return (pairs * np.float32(std)).reshape(-1)
