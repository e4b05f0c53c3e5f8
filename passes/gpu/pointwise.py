"""Kernels whose threads each make their own elements of the results: functions of elements, and movements."""

from __future__ import annotations

import math

from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.lanes import widest
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.memory import store
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.records import Launches

THREADS = 256


def lower(task: Task) -> Launches:
    """One kernel for all results of one size."""
    sizes: dict[int, list[int]] = {}
    for place, value in enumerate(task.results):
        sizes.setdefault(task.flow.types[value].size, []).append(place)
    for size, places in sizes.items():
        if size:
            _write(task, size, places)
    return task.lowered()


def _write(task: Task, size: int, places: list[int]) -> None:
    values = [task.results[place] for place in places]
    lanes = widest(task.flow, values)
    each = max(lanes, 1)
    threads = min(THREADS, max(32, -(-size // each) // 32 * 32))
    blocks = math.ceil(size / each / threads)
    writes = [task.result(place) for place in places]
    k, tensors = task.begin(range(task.flow.given), writes, blocks, threads)
    operands = [tensors[a] for a in range(task.flow.given)]
    number = k.add(k.mul(k.block_number(), threads), k.thread())
    number = k.mul(number, each)
    elements = Elements(k, task.flow, operands, lanes)

    def body() -> None:
        for place, value in zip(places, values, strict=True):
            shape = task.flow.types[value].shape
            at = Place(shape, len(shape) - 1 if lanes else None, known_number=number)
            store(k, tensors[task.result(place)], at, elements.at(value, at), lanes)

    if blocks * threads * each == size:
        body()
    else:
        with k.when(k.below(number, size)), elements.scope():
            body()
    k.end()
