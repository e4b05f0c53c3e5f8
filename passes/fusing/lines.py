"""How operations treat the leading axes of their tensors, by kind: what decides who may share a group and its tiles.

An operation that treats the places along its first k axes one by one can be run for a part of these places at a time:
`x[i, j, ...]` alone decides `y[i, j, ...]`. Those axes are its `lead`; all that lies behind one place is a line.

    add            [12, 64, 128]              lead (12, 64, 128)    a line is one element
    softmax        [12, 64, 128], axis 2      lead (12, 64)         a line is 128
    sum, axes 2    [12, 64, 128] -> [12, 64]  lead (12, 64)
    sum, axes 0 1  [12, 64, 128] -> [128]     lead (12, 64), folds: the parts of the result are added up
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from sexpgpu.dialects.opdef import Composite, Index, Kind, Move, Pointwise, Random, Reduce, Row, Scan

Ints = tuple[int, ...]

FOLDS = frozenset({"add", "mul", "max", "min", "or", "and"})
"""Reductions whose parts are put together by the same function."""


@frozen
class Treatment:
    """One way to run an operation by parts.

    `largest` counts the elements of its largest tensor. `fold` is empty, or says how results of parts are put
    together; `whole` are the numbers of operands that every part reads in full; `trailing`: what it reduces are the
    axes behind `lead`, all of them.
    """

    lead: Ints
    largest: int
    fold: str = ""
    whole: Ints = ()
    trailing: bool = True

    @property
    def line(self) -> int:
        return self.largest // math.prod(self.lead)


def common(a: Ints, b: Ints) -> Ints:
    """The leading axes that two shapes share."""
    if a == b:
        return a
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return a[:n]


def treatments(
    kind: Kind | None, attrs: Mapping[str, Any], operands: Sequence[Ints], results: Sequence[Ints], cut: bool = True
) -> tuple[Treatment, ...]:
    """The ways an operation may be run by parts, the stricter first; none where it belongs to no group of that kind.

    Where groups are `cut` each part is a call of its own, which knows nothing of its place among the others.
    """
    sizes = [math.prod(shape) for shape in (*operands, *results)]
    if not sizes or min(sizes) == 0:
        return ()
    largest = max(sizes)
    match kind:
        case Pointwise():
            return (Treatment(results[0], largest),)
        case Random() if not cut:
            return (Treatment(results[0], largest, whole=(0,)),)
        case Reduce():
            return _reduction(kind, attrs, operands[0], largest)
        case Row() | Scan():
            axis = attrs["axis"]
            return (Treatment(operands[0][:axis], largest, trailing=_ones(operands[0][axis + 1 :])),)
        case Move(views=False):
            return (Treatment(results[0][: leading(kind, attrs, operands[0], results[0])], largest),)
        case Index(access="read" | "add", lines=True):
            axis = attrs["axis"]
            return (Treatment(operands[0][:axis], largest, trailing=_ones(operands[0][axis + 1 :])),)
        case Composite(family="norm" | "cross_entropy"):
            return _composite(kind, operands, results, largest)
        case _:
            return ()


def _reduction(kind: Reduce, attrs: Mapping[str, Any], shape: Ints, largest: int) -> tuple[Treatment, ...]:
    axes: Ints = attrs["axes"] if "axes" in attrs else (attrs["axis"],)
    if not axes:
        return (Treatment(shape, largest),)
    first = min(axes)
    behind = [n for i, n in enumerate(shape) if i > first and i not in axes]
    found = [Treatment(shape[:first], largest, trailing=_ones(behind))]
    if first == 0 and kind.combine in FOLDS:
        run = next((i for i in range(len(shape)) if i not in axes), len(shape))
        found.append(Treatment(shape[:run], largest, fold=kind.combine))
    return tuple(found)


def _composite(
    kind: Composite, operands: Sequence[Ints], results: Sequence[Ints], largest: int
) -> tuple[Treatment, ...]:
    """Lines along the last axis of the operand with most axes; a vector is the same for every line, or a sum of all."""
    rank = max(map(len, operands))
    lead = next(shape for shape in operands if len(shape) == rank)[:-1]
    vectors = kind.family == "norm" and rank > 1
    whole = tuple(i for i, shape in enumerate(operands) if vectors and len(shape) != rank)
    summed = vectors and len(results[0]) != rank
    return (Treatment(lead, largest, fold="add" if summed else "", whole=whole),)


def _ones(sizes: Sequence[int]) -> bool:
    return all(n == 1 for n in sizes)


def leading(kind: Move, attrs: Mapping[str, Any], operand: Ints, result: Ints) -> int:
    """How many leading axes a movement passes on one by one: a part of its operand gives that part of its result."""
    if len(operand) != len(result) and kind.form != "reshape":
        return 0
    match kind.form:
        case "same":
            return len(result)
        case "broadcast" | "reshape":
            return len(common(operand, result))
        case "permute":
            return _first(place == source for place, source in enumerate(attrs["perm"]))
        case "reverse":
            return min(attrs["axes"], default=len(result))
        case "cut":
            cuts = zip(attrs["start"], attrs["stop"], attrs["step"], operand, strict=True)
            return _first(cut[:3] == (0, cut[3], 1) for cut in cuts)
        case "pad":
            return _first(low == high == 0 for low, high in zip(attrs["low"], attrs["high"], strict=True))
        case "join":
            axis: int = attrs["axis"]
            return axis


def _first(tests: Any) -> int:
    """How many of `tests` hold before one does not."""
    count = 0
    for test in tests:
        if not test:
            break
        count += 1
    return count


def repeated(operand: Ints, result: Ints) -> int:
    """How many leading axes of a broadcast's result repeat the operand, which has no such axis or one of size 1."""
    missing = len(result) - len(operand)
    return missing + _first(n == 1 for n in operand)
