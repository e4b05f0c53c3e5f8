"""What the kernels of a step read and write, the least that any could, and how long a GPU should take: a model.

The least counts the operands and results of products and attention, each once for each product that reads or makes it,
and of updates the parameters, states and gradients: what stays if everything else happened in registers. Narrow
parameters that an update gives beside them, and sums of gradients' squares, are moved and are no part of the least. A
kernel takes as long as its bytes or its arithmetic do, whichever is longer, and what passes between two kernels of one
graph.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator
from typing import Any

from attrs import evolve, frozen
from mlir import ir

from sexpgpu import knobs
from sexpgpu.dialects.opdef import Composite, Constant, Contract, Dense, Index, Kind, Window
from sexpgpu.dialects.read import attrs_of, definition_of
from sexpgpu.dialects.signature import output_roles, terminator_of, type_of
from sexpgpu.passes.flow import operations_of
from sexpgpu.passes.gpu.calls import Groups
from sexpgpu.plan.allocation import device_bytes
from sexpgpu.tensortype import TensorType


@frozen
class Chip:
    """A GPU by its data sheet: bytes a second of memory, and multiplications and additions a second by dtype."""

    name: str
    bandwidth: float
    rates: dict[str, float]


# "NVIDIA H100 Tensor Core GPU Architecture" (2022): SXM5.
_H100 = Chip("H100", 3.35e12, {"bf16": 989e12, "tf32": 494e12, "f32": 67e12, "f64": 67e12})
CHIPS = {
    # "NVIDIA A100 Tensor Core GPU Architecture" (2020): SXM4, 80 GB; f32 on ordinary cores.
    "sm_80": Chip("A100", 2.04e12, {"bf16": 312e12, "tf32": 156e12, "f32": 19.5e12, "f64": 19.5e12}),
    "sm_90": _H100,
    "sm_90a": _H100,
    # "NVIDIA Blackwell Architecture Technical Brief" (2024): B200.
    "sm_100": Chip("B200", 8.0e12, {"bf16": 2250e12, "tf32": 1125e12, "f32": 80e12, "f64": 40e12}),
}
BETWEEN = 1.5e-6
"""Seconds from the end of a kernel to the start of the next in a captured graph."""
REACHED = 0.8
"""The share of a data sheet's rates that good kernels reach."""


@frozen
class Traffic:
    """A family of kernels in one call of a graph, or in a step: how many, bytes moved and the least, seconds."""

    family: str
    kernels: int
    moved: int
    least: int
    seconds: float

    def launched(self, kernels: int) -> Traffic:
        """The same bytes by another number of kernels."""
        return evolve(self, kernels=kernels, seconds=self.seconds + (kernels - self.kernels) * BETWEEN)

    def times(self, count: int) -> Traffic:
        """`count` calls."""
        return Traffic(self.family, self.kernels * count, self.moved * count, self.least * count, self.seconds * count)


def copied(family: str, nbytes: int, chip: Chip) -> Traffic:
    """A kernel that reads and writes so many bytes and computes next to nothing."""
    return Traffic(family, 1, nbytes, 0, nbytes / chip.bandwidth / REACHED + BETWEEN)


def total(found: Iterable[Traffic], family: str = "") -> Traffic:
    every = list(found)
    return Traffic(
        family,
        sum(each.kernels for each in every),
        sum(each.moved for each in every),
        sum(each.least for each in every),
        math.fsum(each.seconds for each in every),
    )


def by_family(found: Iterable[Traffic]) -> list[Traffic]:
    """Families in the order of the bytes that they move."""
    families: dict[str, list[Traffic]] = {}
    for each in found:
        families.setdefault(each.family, []).append(each)
    sums = [total(every, family) for family, every in families.items()]
    return sorted(sums, key=lambda each: -each.moved)


def traffic_of(func: Any, chip: Chip) -> Iterator[Traffic]:
    """What each call of kernels in a graph moves; a loop's once for each of its turns is not counted."""
    returned = zip(terminator_of(func).operands, output_roles(func), strict=True)
    beside = {value for value, role in returned if role in ("narrow", "squares")}
    groups = Groups(func)
    for op in operations_of(func)[:-1]:
        found = groups.called(op)
        if found is None or found.launches is None:
            continue
        inside, launches = found.inside, found.launches
        results = sum(device_bytes(type_of(v)) for v in op.results)
        moved = results + _read(op, found.func, inside) + 2 * sum(launches.temporaries)
        if launches.over >= 0:  # of what is changed in place, no more than the other operands bring
            whole = device_bytes(type_of(op.results[0]))
            brought = sum(device_bytes(type_of(v)) for i, v in enumerate(op.operands) if i != launches.over)
            moved -= 2 * max(0, whole - brought)
        least = _least(op, inside, found.group.family == "update", beside)
        work = sum(_seconds_of(inner, chip) for inner in inside)
        kernels = len(launches.kernels)
        seconds = max(moved / chip.bandwidth, work) / REACHED + kernels * BETWEEN
        yield Traffic(found.group.family, kernels, moved, least, seconds)


def _read(op: Any, func: Any, inside: list[Any]) -> int:
    """Bytes of operands that are read: of what is gathered from, what is taken."""
    arguments = list(func.regions[0].blocks[0].arguments)
    taken: dict[int, int] = {}
    for inner in inside:
        kind = _kind(inner)
        if isinstance(kind, Index) and kind.access == "read" and inner.operands[0] in arguments:
            place = arguments.index(inner.operands[0])
            taken[place] = taken.get(place, 0) + device_bytes(type_of(inner.results[0]))
    sizes = [0 if _is_number(v) else device_bytes(type_of(v)) for v in op.operands]
    return sum(min(size, taken.get(place, size)) for place, size in enumerate(sizes))


def _is_number(value: Any) -> bool:
    """Whether a value is a constant of one number, which lies in memory once."""
    owner = value.owner
    if isinstance(owner, ir.Block) or not isinstance(_kind(owner), Constant):
        return False
    dense = attrs_of(owner).get("value")
    return isinstance(dense, Dense) and dense.is_splat


def _least(op: Any, inside: list[Any], update: bool, beside: Container[Any]) -> int:
    """The least bytes of a call, whose results among those `beside` the graph's are no part of it."""
    results = sum(device_bytes(type_of(v)) for v in op.results if v not in beside)
    if update:
        return sum(device_bytes(type_of(v)) for v in op.operands) + results
    products = [inner for inner in inside if _is_product(_kind(inner))]
    if not products:
        return 0
    operands = sum(device_bytes(type_of(v)) for inner in products for v in inner.operands)
    return operands + results


def _is_product(kind: Kind | None) -> bool:
    match kind:
        case Contract() | Window(combine="dot") | Composite(family="attention"):
            return True
        case _:
            return False


def _seconds_of(op: Any, chip: Chip) -> float:
    """The arithmetic of a product on its units; of anything else none worth counting."""
    kind = _kind(op)
    if not _is_product(kind):
        return 0.0
    types = [type_of(v) for v in op.operands]
    made = [type_of(v) for v in op.results]
    dtype = "tf32" if types[0].dtype == "f32" and knobs.TF32.get() else types[0].dtype
    rate = chip.rates.get(dtype, chip.rates["f32"])
    return operations(kind, types, made, attrs_of(op)) / rate


def operations(
    kind: Kind | None, operands: list[TensorType], results: list[TensorType], attrs: dict[str, Any]
) -> float:
    """Multiplications and additions of a product, of those that a causal mask leaves."""
    match kind:
        case Contract():
            return 2.0 * results[0].size * operands[0].shape[-1]
        case Window(side=side):
            # One product for each element of the result's windows, channels of a group and place of a kernel.
            first, second = operands[0].shape, operands[1].shape
            if side == "kernel":
                return 2.0 * results[0].size * first[0] * math.prod(second[2:])
            if side == "operand":
                return 2.0 * operands[0].size * math.prod(second[1:])
            return 2.0 * results[0].size * math.prod(second[1:])
        case Composite(backward=backward):
            q, k = (operands[2], operands[3]) if backward else (operands[0], operands[1])
            pairs = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * (0.5 if attrs["causal"] else 1.0)
            return pairs * q.shape[3] * (10.0 if backward else 4.0)
        case _:
            return 0.0


def _kind(op: Any) -> Kind | None:
    record = definition_of(op)
    return record.kind if record is not None else None
