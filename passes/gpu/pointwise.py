"""Kernels whose threads each make their own elements of the results: functions of elements, and movements.

Where nothing but functions of elements of dense tensors of one shape is computed, the tensors are taken for one line,
so that vectors do not depend on the last axis; the few elements behind the last vector are computed one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sexpgpu.dialects.opdef import Constant, Dense, Move, Pointwise
from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.kernel import BYTES, Index, Kernel, Reg
from sexpgpu.passes.gpu.lanes import widest
from sexpgpu.passes.gpu.layout import Layout, Place
from sexpgpu.passes.gpu.memory import WIDEST, Operand, store
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
    write_elements(task, range(len(task.results)), range(task.flow.given))
    return task.lowered()


def write_elements(task: Task, places: Sequence[int], read: Sequence[int], know: Know | None = None) -> None:
    """Kernels for the results with these places; they read the arguments `read`."""
    sizes: dict[int, list[int]] = {}
    for place in places:
        sizes.setdefault(task.flow.types[task.results[place]].size, []).append(place)
    for size, some in sizes.items():
        if size:
            flat = know is None and _is_flat(task, some)
            _write(task, size, some, read, _tell_flat if flat else know, flat)


def _write(task: Task, size: int, places: list[int], read: Sequence[int], know: Know | None, flat: bool) -> None:
    values = [task.results[place] for place in places]
    lanes = _flat_lanes(task, values, size) if flat else widest(task.flow, values)
    each = max(lanes, 1)
    threads = min(THREADS, max(32, -(-size // each) // 32 * 32))
    blocks = math.ceil(size / each / threads)
    writes = [task.result(place) for place in places]
    k, tensors = task.begin(read, writes, blocks, threads)
    if flat:
        tensors = {a: Operand(t.pointer, Layout.dense((task.type(a).size,)), t.dtype) for a, t in tensors.items()}
    number = k.add(k.mul(k.block_number(), threads), k.thread())
    number = k.mul(number, each)

    def body(first: Index, width: int) -> None:
        elements = Elements(k, task.flow, [tensors[a] for a in range(task.flow.given)], width)
        if know is not None:
            know(elements, tensors)
        for place, value in zip(places, values, strict=True):
            shape = (size,) if flat else task.flow.types[value].shape
            at = Place(shape, len(shape) - 1 if width else None, known_number=first)
            store(k, tensors[task.result(place)], at, elements.at(value, at), width)

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


def _is_flat(task: Task, places: Sequence[int]) -> bool:
    """Whether element n of each result depends on nothing but the elements n of dense operands, and on single ones."""
    flow = task.flow
    size = flow.types[task.results[places[0]]].size
    for argument in range(flow.given):
        if flow.types[argument].size not in (1, size) or not task.layout(argument).is_dense:
            return False
        if task.layout(argument).offset:
            return False
    for node in flow.nodes:
        assert node.record is not None
        sizes = [flow.types[v].size for v in (*node.ins, *node.outs)]
        match node.record.kind:
            case Pointwise() | Move(form="same" | "reshape" | "broadcast"):
                if any(n not in (1, size) for n in sizes):
                    return False
            case Constant():
                if not isinstance(node.attrs.get("value"), Dense):
                    return False
            case _:
                return False
    return True


def _flat_lanes(task: Task, values: Sequence[int], size: int) -> int:
    """The lanes that fill what one instruction moves of the smallest elements, at most 8."""
    flow = task.flow
    moved = [v for v in (*range(flow.given), *values) if flow.types[v].size == size]
    lanes = min(8, WIDEST // min(BYTES[MEMORY[flow.types[v].dtype]] for v in moved))
    return lanes if size >= lanes > 1 else 0


def _tell_flat(elements: Elements, tensors: Mapping[int, Operand]) -> None:
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
