"""Convolutions and their derivatives by our kernels and by cuDNN: times by events, values by the interpreter's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bench.gpu.cases import Convolution, Setting
from bench.gpu.graph import Refused, library_of, program_of, timed
from bench.gpu.rows import Row
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Array
from sexpgpu.dialects.ops import OPS
from sexpgpu.driver.devices import Device, opened
from sexpgpu.gpu.transfer import upload
from sexpgpu.plan.library import ConvolutionGraph
from sexpgpu.tensortype import DType, TensorType

BOUND: dict[DType, float] = {"f32": 1e-5, "bf16": 2**-7}
"""Of the largest element."""


def rows(setting: Setting, convolutions: Sequence[Convolution]) -> Iterator[Row]:
    """Milliseconds of each, and whether it is right."""
    with opened(setting.device) as device:
        library = library_of(device, ConvolutionGraph)
        for each in convolutions:
            operands, wanted = _case(each)
            for name in (None, library) if library is not None else (None,):
                shown = each.name if name is None else f"{each.name}, {name}"
                try:
                    seconds, found = _measured(device, each, operands, once=setting.toy, library=name is not None)
                except Refused as fault:
                    yield Row("", shown, note=str(fault))
                    continue
                error = float(np.abs(found - wanted).max() / np.abs(wanted).max())
                note = f"{1e-12 * each.operations / seconds:.3g} TFLOP/s, error {error:.1e}"
                yield Row("", shown, seconds * 1e3, None, "ms", error <= BOUND[each.dtype], note)


def _case(each: Convolution) -> tuple[list[Array], Array]:
    rng = np.random.default_rng(7)
    drawn = [rng.standard_normal(type.shape, np.float32) for type in each.operands]
    operands = [round_bf16(x) if each.dtype == "bf16" else x for x in drawn]
    return operands, OPS[each.op].numpy(*operands, **each.attrs)


def _measured(
    device: Device, each: Convolution, operands: Sequence[Array], *, once: bool, library: bool
) -> tuple[float, Array]:
    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        return [b(each.op, *values, **each.attrs)]

    assert device.pool is not None
    types: Sequence[TensorType] = each.operands
    program = program_of(device, types, build, library=library)
    given = [upload(device.pool, x, type) for x, type in zip(operands, types, strict=True)]
    found = timed(device, program, given, once=once)
    return found.seconds, found.results[0].numpy()
