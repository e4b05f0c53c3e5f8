"""What kernels write down of what none of them can refuse: an index outside its axis, an update that is not finite.

Each step of a plan writes in a record of its own, so that the host knows where it was without running anything again.
The records are small arrays, which the host reads with the numbers that it waits for anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field, frozen

from sexpgpu.diag import Note, Span, error
from sexpgpu.plan.records import NOT_FINITE
from sexpgpu.tensortype import TensorType

if TYPE_CHECKING:
    from sexpgpu.gpu.memory import DeviceArray, Pool

_RECORD = TensorType((4,), "i32")


@frozen
class Site:
    """A step of a graph, by the form that it was traced from."""

    graph: str
    span: Span | None


@define(eq=False)
class Faults:
    """The records of one device, made when they are first asked for."""

    pool: Pool
    _records: dict[Site, DeviceArray] = field(factory=dict, init=False)

    def address(self, site: Site) -> int:
        """Where the kernels of a step write."""
        if site not in self._records:
            self._records[site] = self.pool.array(_RECORD)
            self._clear(self._records[site])
        return self._records[site].address

    def check(self) -> None:
        """`E-VALUE-101` where a kernel met an index that lies outside its axis; what others met is forgotten."""
        found = {site: record.numpy().tolist() for site, record in self._records.items()}
        met = [(site, values) for site, values in found.items() if values[0]]
        if not met:
            return
        for site, _ in met:
            self._clear(self._records[site])
        (site, (_, index, length, _)), *_ = met
        raise error(
            "E-VALUE-101",
            "an index lies outside its axis",
            site.span,
            expected=f"indices from 0 to {length - 1}" if length else "no index: the axis is empty",
            actual=f"index {index}",
            notes=[Note(f"in graph {site.graph}")],
            index=index,
        )

    def met_not_finite(self) -> bool:
        """Whether an update made what is not finite since this was asked last, as kernels of many tensors tell."""
        met = [record for record in self._records.values() if record.numpy()[NOT_FINITE]]
        for record in met:
            self._clear(record)
        return bool(met)

    def _clear(self, record: DeviceArray) -> None:
        self.pool.stream.fill(record.address, 0, _RECORD.nbytes)
        self.pool.writes += 1
