"""What a launch did, as data, as text and as JSON."""

from __future__ import annotations

from typing import Any

import attrs
from attrs import frozen

from sexpgpu.sim.code import Code
from sexpgpu.sim.counters import Counters
from sexpgpu.sim.lanes import WARP, Shape


@frozen
class Traffic:
    """What one memory instruction did: requests of a warp, and their wavefronts or sectors against the fewest."""

    line: int
    text: str
    requests: int
    taken: int
    fewest: int


@frozen
class Report:
    """The record of a launch. Instructions are counted a warp; `lanes` of `slots` took part in them."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    local: int
    instructions: dict[str, int]
    lanes: int
    slots: int
    divergent_branches: int
    barriers: int
    atomics: int
    read: int
    written: int
    sectors: tuple[Traffic, ...] = ()
    banks: tuple[Traffic, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.instructions.values())

    @property
    def efficiency(self) -> float:
        """The share of the lanes of issued instructions that took part."""
        return self.lanes / self.slots if self.slots else 1.0

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared memory beyond the fewest."""
        return sum(t.taken - t.fewest for t in self.banks)

    @property
    def extra_sectors(self) -> int:
        """Sectors of global memory beyond those that the bytes need."""
        return sum(t.taken - t.fewest for t in self.sectors)


def report_of(shape: Shape, code: Code, counters: Counters) -> Report:
    """Sum what was counted by block into what a reader wants."""
    instructions: dict[str, int] = {}
    lanes = slots = 0
    for block, warps, threads in zip(code.blocks, counters.warp_visits, counters.lane_visits, strict=True):
        for name, n in block.classes.items():
            instructions[name] = instructions.get(name, 0) + n * warps
            lanes += n * threads
            slots += n * warps * WARP
    return Report(
        shape.kernel,
        shape.grid,
        shape.block,
        shape.shared,
        shape.local,
        {k: v for k, v in sorted(instructions.items()) if v},
        lanes,
        slots,
        counters.divergent_branches,
        counters.barriers,
        counters.atomics,
        counters.read,
        counters.written,
        _traffic(counters.sectors),
        _traffic(counters.banks),
    )


def _traffic(found: dict[tuple[int, str], list[int]]) -> tuple[Traffic, ...]:
    return tuple(Traffic(line, text, *sums) for (line, text), sums in sorted(found.items()))


def to_json(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        **attrs.asdict(report),
        "total": report.total,
        "efficiency": round(report.efficiency, 4),
        "bank_conflicts": report.bank_conflicts,
        "extra_sectors": report.extra_sectors,
    }


def to_text(report: Report) -> str:
    """The report as lines."""
    grid, block = (" × ".join(str(n) for n in dims) for dims in (report.grid, report.block))
    rows = [
        ("grid", grid),
        ("block", block),
        ("shared memory", f"{report.shared} bytes a block"),
        ("local memory", f"{report.local} bytes a thread"),
        ("instructions", f"{report.total} of a warp"),
        *((f"  {name}", str(n)) for name, n in sorted(report.instructions.items(), key=lambda x: (-x[1], x[0]))),
        ("lanes taking part", f"{100 * report.efficiency:.1f}%"),
        ("divergent branches", str(report.divergent_branches)),
        ("barriers", str(report.barriers)),
        ("atomic updates", str(report.atomics)),
        ("global read", f"{report.read} bytes"),
        ("global written", f"{report.written} bytes"),
    ]
    for name, unit, traffic in (("sectors", "sectors", report.sectors), ("bank conflicts", "wavefronts", report.banks)):
        if traffic:
            extra = sum(t.taken - t.fewest for t in traffic)
            rows.append((name, f"{extra} {unit} more than needed"))
            rows += [
                (f"  line {t.line}", f"{t.taken} {unit}, {t.fewest} at best, {t.requests} requests: {t.text}")
                for t in traffic
                if t.taken > t.fewest
            ]
    width = max(len(name) for name, _ in rows)
    return "\n".join([report.kernel, *(f"  {name:{width}}  {value}".rstrip() for name, value in rows)])
