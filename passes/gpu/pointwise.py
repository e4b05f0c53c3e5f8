"""Kernels whose threads each make their own elements of the results: functions of elements, and movements.

Where nothing but functions of elements of dense tensors of one shape is computed, the tensors are taken for one line,
so that vectors do not depend on the last axis; the few elements behind the last vector are computed one by one. What is
costly and the same for all elements, such as a learning rate, a kernel of one thread computes before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sexpgpu.dialects.opdef import Move
from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.flat import costly_singles, is_flat
from sexpgpu.passes.gpu.kernel import BYTES, Index, Kernel, Reg
from sexpgpu.passes.gpu.lanes import widest
from sexpgpu.passes.gpu.layout import Layout, Place
from sexpgpu.passes.gpu.memory import WIDEST, Operand, load, store
from sexpgpu.passes.gpu.scalar import MEMORY
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.transpose import turned, write_turned
from sexpgpu.plan.records import Launches

THREADS = 256

Know = Callable[[Elements, Mapping[int, Operand]], None]
"""Tells a kernel's elements what they are to take from elsewhere."""


def lower(task: Task) -> Launches:
    """One kernel for all results of one size, or the copy of a tensor into another order of axes."""
    if (copy := turned(task)) is not None:
        write_turned(task, copy)
        return task.lowered()
    read = list(range(task.flow.given))
    singles = costly_singles(task)
    if not singles:
        write_elements(task, range(len(task.results)), read)
        return task.lowered()
    single = [place for place, value in enumerate(task.results) if task.flow.types[value].size == 1]
    written = dict(_targets(task, single))
    made = {v: written[v] if v in written else task.temporary(task.flow.types[v]) for v in singles}
    _write(task, [*_targets(task, single), *((v, made[v]) for v in singles if v not in written)], read, None)
    others = [place for place in range(len(task.results)) if place not in single]
    write_elements(task, others, [*read, *made.values()], partial(_tell_made, made))
    return task.lowered()


def write_elements(task: Task, places: Sequence[int], read: Sequence[int], know: Know | None = None) -> None:
    """Kernels for the results with these places; they read the arguments `read`."""
    sizes: dict[int, list[int]] = {}
    for place in places:
        sizes.setdefault(task.flow.types[task.results[place]].size, []).append(place)
    for size, some in sizes.items():
        if size:
            _write(task, _targets(task, some), read, know)


def _targets(task: Task, places: Sequence[int]) -> list[tuple[int, int]]:
    """The values of results and the arguments that they are written to."""
    return [(task.results[place], task.result(place)) for place in places]


def _write(task: Task, targets: Sequence[tuple[int, int]], read: Sequence[int], know: Know | None) -> None:
    values = [value for value, _ in targets]
    size = task.flow.types[values[0]].size
    flat = is_flat(task, values, read)
    lanes = _flat_lanes(task, values, size) if flat else widest(task.flow, values)
    each = max(lanes, 1)
    threads = min(THREADS, max(32, -(-size // each) // 32 * 32))
    blocks = math.ceil(size / each / threads)
    k, tensors = task.begin(read, [argument for _, argument in targets], blocks, threads)
    if flat:
        tensors = {a: Operand(t.pointer, Layout.dense((task.type(a).size,)), t.dtype) for a, t in tensors.items()}
    number = k.add(k.mul(k.block_number(), threads), k.thread())
    number = k.mul(number, each)

    def body(first: Index, width: int) -> None:
        elements = Elements(k, task.flow, [tensors[a] for a in range(task.flow.given)], width)
        if flat:
            _tell_flat(elements)
        if know is not None:
            know(elements, tensors)
        for value, argument in targets:
            shape = (size,) if flat else task.flow.types[value].shape
            at = Place(shape, len(shape) - 1 if width else None, known_number=first)
            store(k, tensors[argument], at, elements.at(value, at), width)

    if blocks * threads * each == size:
        body(number, lanes)
    elif size % each == 0:
        with k.when(k.below(number, size)):
            body(number, lanes)
    else:
        _write_ragged(k, number, size, lanes, body)
    k.end()


def _write_ragged(k: Kernel, number: Index, size: int, lanes: int, body: Callable[[Index, int], None]) -> None:
    """Vectors, and the elements behind the last whole one."""
    whole = size // lanes * lanes
    with k.when(k.below(number, whole)):
        body(number, lanes)
    rest = k.reg(k.add(number, 0)) if size - whole == 1 else None
    with k.when(k.compare("eq", k.reg(number), k.reg(whole))):
        if rest is not None:
            body(rest, 0)
        else:
            with k.loop(number, size, 1) as loop:
                body(loop.index, 0)


def _flat_lanes(task: Task, values: Sequence[int], size: int) -> int:
    """The lanes that fill what one instruction moves of the smallest elements, at most 8."""
    flow = task.flow
    moved = [v for v in (*range(flow.given), *values) if flow.types[v].size == size]
    lanes = min(8, WIDEST // min(BYTES[MEMORY[flow.types[v].dtype]] for v in moved))
    return lanes if size >= lanes > 1 else 0


def _tell_flat(elements: Elements) -> None:
    """Movements that keep the order of elements keep the place; single elements are the same everywhere."""
    flow = elements.flow
    for node in flow.nodes:
        if node.record is not None and isinstance(node.record.kind, Move):
            (operand,) = node.ins
            spread = flow.types[operand].size == 1 != flow.types[node.outs[0]].size
            elements.known[node.outs[0]] = partial(_single if spread else _same, elements, operand)


def _same(elements: Elements, value: int, place: Place) -> Reg:
    return elements.at(value, place)


def _single(elements: Elements, value: int, place: Place) -> Reg:
    return elements.at(value, Place((1,), None, known_axes=(0,), known_number=0))


def _tell_made(made: Mapping[int, int], elements: Elements, tensors: Mapping[int, Operand]) -> None:
    """Single elements that a kernel before has computed."""
    for value, argument in made.items():
        elements.known[value] = partial(_loaded, elements, tensors[argument])


def _loaded(elements: Elements, operand: Operand, place: Place) -> Reg:
    return load(elements.kernel, operand, place, elements.lanes)
