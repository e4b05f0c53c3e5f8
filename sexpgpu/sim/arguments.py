"""Arguments of a kernel as a command line says them, and what became of them.

`i32:5` and `f32:0.5` are numbers; `f32:1024:random` is an array of 1024 elements in device memory.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.diag import SxError, error, nearest
from sexpgpu.sim.floats import bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16
from sexpgpu.sim.machine import Argument, Kernel, Machine
from sexpgpu.sim.report import Report
from sexpgpu.sim.types import Array

SHOWN = 8
MOST_BYTES = 1 << 34
INTEGERS = tuple(f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64))
FLOATS = ("f32", "f64", "f16", "bf16")
Fill = Callable[[int, int], Array]
FILLS: dict[str, Fill] = {
    "zeros": lambda n, seed: np.zeros(n),
    "ones": lambda n, seed: np.ones(n),
    "range": lambda n, seed: np.arange(n, dtype=np.float64),
    "random": lambda n, seed: np.random.default_rng(seed).standard_normal(n),
}


@frozen(eq=False)
class Given:
    """An argument: its text, its type, and a number or the elements of an array; `empty` arrays are not written."""

    text: str
    kind: str
    value: Argument | None
    elements: Array | None
    empty: bool = False


@frozen
class Outcome:
    """What an array held when the kernel had ended."""

    text: str
    count: int
    digest: str
    first: tuple[float | int, ...]
    changed: bool


def read_argument(text: str, seed: int) -> Given:
    """The argument that a text says; `seed` is of its random elements. Raises E-SIM-006."""
    kind, _, rest = text.partition(":")
    if kind not in (*INTEGERS, *FLOATS):
        raise _wrong(text, f"a type of {' '.join((*FLOATS, *INTEGERS))}", kind, nearest(kind, (*FLOATS, *INTEGERS)))
    count, array, fill = rest.partition(":")
    if not array:
        return Given(text, kind, _number(text, kind, rest), None)
    if not (count.isascii() and count.isdigit()):
        raise _wrong(text, "a count of elements", count)
    size = int(count) * itemsize(kind)
    if size > MOST_BYTES:
        raise _wrong(text, f"at most {MOST_BYTES} bytes", str(size))
    if fill == "empty":
        return Given(text, kind, None, np.zeros(int(count), storage(kind)), empty=True)
    if fill not in FILLS:
        raise _wrong(text, f"{' '.join(FILLS)} or empty", fill, nearest(fill, (*FILLS, "empty")))
    values = FILLS[fill](int(count), seed)
    if fill == "random" and kind in INTEGERS:
        values = np.random.default_rng(seed).integers(0, 100, int(count)).astype(np.float64)
    return Given(text, kind, None, encoded(kind, values))


def _wrong(text: str, expected: str, actual: str, near: str | None = None) -> SxError:
    help = f"did you mean {near}?" if near else None
    return error("E-SIM-006", f"the argument {text} cannot be made", expected=expected, actual=actual, help=help)


def _number(text: str, kind: str, written: str) -> Argument:
    try:
        value = int(written, 0) if kind in INTEGERS else float(written)
    except ValueError:
        raise _wrong(text, f"a number of type {kind}", written) from None
    if kind in INTEGERS:
        limits = np.iinfo(storage(kind))
        if not limits.min <= value <= limits.max:
            raise _wrong(text, f"a number of type {kind}, from {limits.min} to {limits.max}", written)
        return value
    with np.errstate(over="ignore"):  # the overflow is looked for
        held = float(decoded(kind, encoded(kind, np.array([value])))[0])
    if math.isinf(held) and any(map(str.isdigit, written)):
        raise _wrong(text, f"a number of type {kind}, which is not so large", written)
    if kind in ("f32", "f64"):
        return value
    return encoded(kind, np.array([value])).tobytes()


def storage(kind: str) -> np.dtype[Any]:
    """The NumPy type that holds elements; the 16-bit floats are held as bits."""
    if kind in ("f16", "bf16"):
        return np.dtype(np.uint16)
    return np.dtype(f"{kind[0]}{int(kind[1:]) // 8}")


def itemsize(kind: str) -> int:
    return storage(kind).itemsize


def encoded(kind: str, values: Array) -> Array:
    if kind == "bf16":
        return f32_to_bf16(values.astype(np.float32))
    if kind == "f16":
        return f32_to_f16(values.astype(np.float32))
    return values.astype(storage(kind))


def decoded(kind: str, elements: Array) -> Array:
    if kind == "bf16":
        return bf16_to_f32(elements)
    return f16_to_f32(elements) if kind == "f16" else elements


def run(
    machine: Machine,
    kernel: Kernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    given: Sequence[Given],
    shared: int,
) -> tuple[Report, tuple[Outcome, ...]]:
    """Launch a kernel with these arguments; the report, and what each array held then."""
    values: list[Argument] = []
    places: list[tuple[Given, int]] = []
    for number, argument in enumerate(given):
        if argument.elements is None:
            assert argument.value is not None
            values.append(argument.value)
            continue
        address = machine.allocate(argument.elements.nbytes, f"argument {number} ({argument.text})")
        if not argument.empty:
            machine.write(address, argument.elements)
        values.append(address)
        places.append((argument, address))
    report = machine.launch(kernel, grid, block, values, shared)
    return report, tuple(_outcome(machine, argument, address) for argument, address in places)


def _outcome(machine: Machine, argument: Given, address: int) -> Outcome:
    elements = argument.elements
    assert elements is not None
    found = machine.read(address, elements.nbytes)
    first = decoded(argument.kind, found[: SHOWN * elements.itemsize].view(elements.dtype))
    return Outcome(
        argument.text,
        len(elements),
        hashlib.sha256(found.tobytes()).hexdigest()[:16],
        tuple(x.item() for x in first),
        bool((found != elements.view(np.uint8)).any()),
    )
