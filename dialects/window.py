"""Windows that slide over the last axes of [batch, channels, space...]: their sizes, and where their elements are.

Along an axis of `size`, padded by `low` and `high`, a window of `kernel` places `dilation` apart spans
dilation (kernel - 1) + 1; it stands at 0, stride, 2 stride, ... as long as it fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import EllipsisType

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from sexpgpu.diag import error
from sexpgpu.dialects.rules import require_count, require_dtype
from sexpgpu.tensortype import FLOATS, TensorType

Ints = tuple[int, ...]
Places = tuple[slice | EllipsisType, ...]


@frozen
class Windows:
    """Windows over axes of `sizes`: everything that follows from their attributes."""

    sizes: Ints
    kernel: Ints
    stride: Ints
    low: Ints
    high: Ints
    dilation: Ints

    @property
    def count(self) -> Ints:
        """How many windows stand along each axis."""
        spans = zip(self.sizes, self.kernel, self.stride, self.low, self.high, self.dilation, strict=True)
        return tuple((n + a + z - d * (k - 1) - 1) // s + 1 for n, k, s, a, z, d in spans)

    @property
    def padded(self) -> Ints:
        return tuple(a + n + z for a, n, z in zip(self.low, self.sizes, self.high, strict=True))

    @property
    def inner(self) -> Places:
        """Where in the padded axes the axes themselves are."""
        return (..., *(slice(a, a + n) for a, n in zip(self.low, self.sizes, strict=True)))

    def sources(self, place: Ints) -> Places:
        """Where in the padded axes the windows find their element `place`."""
        found = zip(place, self.count, self.stride, self.dilation, strict=True)
        return (..., *(slice(p * d, p * d + (n - 1) * s + 1, s) for p, n, s, d in found))

    def within(self) -> Iterator[tuple[Places, Places]]:
        """For each place of a window in row-major order: the windows whose element there is not padding, and where
        in the axes themselves these elements are."""
        for place in np.ndindex(self.kernel):
            axes = zip(place, self.sizes, self.count, self.stride, self.low, self.dilation, strict=True)
            found = [_inside(p * d - a, n, k, s) for p, n, k, s, a, d in axes]
            yield (..., *(windows for windows, _ in found)), (..., *(elements for _, elements in found))

    def populations(self) -> NDArray[np.int64]:
        """How many elements that are not padding each window holds: [windows...]."""
        total = np.zeros(self.count, np.int64)
        for windows, _ in self.within():
            total[windows] += 1
        return total


def _inside(offset: int, size: int, count: int, stride: int) -> tuple[slice, slice]:
    """The windows i < count whose element i * stride + offset is in range(size), and those elements."""
    first = max(0, -(offset // stride))
    last = max(first, min(count, (size - 1 - offset) // stride + 1))
    begin = first * stride + offset
    return slice(first, last), slice(begin, begin + max(0, (last - first - 1) * stride + 1), stride)


def require_windows(op: str, windows: Windows, x: TensorType) -> None:
    """Raises E-SHAPE-004, E-VALUE-012 or E-SHAPE-041 unless the windows are sound and fit at least once."""
    rank = len(windows.sizes)
    for what in ("kernel", "stride", "low", "high", "dilation"):
        require_count(op, what, getattr(windows, what), rank)
        least = 0 if what in ("low", "high") else 1
        if any(n < least for n in getattr(windows, what)):
            raise error(
                "E-VALUE-012",
                f"{op}: a {what} is below {least}",
                expected=f"{what} of {least} or more",
                actual=f"{list(getattr(windows, what))}",
            )
    for axis, (padded, k, d) in enumerate(zip(windows.padded, windows.kernel, windows.dilation, strict=True)):
        if d * (k - 1) + 1 > padded:
            raise error(
                "E-SHAPE-041",
                f"{op}: the window is larger than the tensor along axis {axis + 2}",
                expected=f"a window that spans {padded} at most",
                actual=f"it spans {d * (k - 1) + 1}; x: {x}",
                help="less :dilation, or :padding",
            )


def require_images(op: str, x: TensorType) -> None:
    """Raises E-DTYPE-001 or E-SHAPE-042 unless x is [batch, channels, space...] with one or two axes of space."""
    require_dtype(op, "x", x, FLOATS)
    if x.rank not in (3, 4):
        raise error(
            "E-SHAPE-042",
            f"{op}: x is not a batch of sequences or images with channels",
            expected="[batch, channels, length] or [batch, channels, height, width]",
            actual=f"x: {x}",
            help="(unsqueeze x 1) adds an axis for one channel" if x.rank in (2, 3) else None,
        )
