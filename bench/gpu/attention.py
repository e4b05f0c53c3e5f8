"""Attention forward and backward beside PyTorch's `scaled_dot_product_attention`: times by events, values by a head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bench.gpu.cases import Attention, Setting
from bench.gpu.graph import Refused, library_of, program_of, timed
from bench.gpu.reference import asked
from bench.gpu.rows import Row
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Array
from sexpgpu.dialects.ops import OPS
from sexpgpu.driver.devices import Device, opened
from sexpgpu.gpu.memory import DeviceArray
from sexpgpu.gpu.transfer import upload
from sexpgpu.plan.library import AttentionGraph
from sexpgpu.tensortype import TensorType

BOUND = 2**-5
"""Of the largest element: weights and derivatives of scores are rounded to bf16 on the way."""


def rows(setting: Setting, shapes: Sequence[Attention]) -> Iterator[Row]:
    """Milliseconds forward and backward, and whether the first head is right."""
    wanted = [
        {"kind": "attention", "q": s.query.shape, "k": s.key.shape, "backward": b} for s in shapes for b in (0, 1)
    ]
    theirs = asked(setting, wanted)
    with opened(setting.device) as device:
        for place, shape in enumerate(shapes):
            yield from _rows(device, shape, theirs.seconds[2 * place : 2 * place + 2], theirs.lacking, once=setting.toy)


def _rows(
    device: Device, shape: Attention, theirs: Sequence[float | None], lacking: str, *, once: bool
) -> Iterator[Row]:
    """Our kernels; then cuDNN, on a device that has it."""
    library = library_of(device, AttentionGraph)
    for name in (None, library) if library is not None else (None,):
        try:
            found = list(_measured(device, shape, once=once, library=name is not None))
        except Refused as fault:
            yield Row("", f"{shape.name}, {name}", note=str(fault))
            continue
        for number, (seconds, error) in enumerate(found):
            other = theirs[number]
            note = f"error {error:.1e}" + (f"; {lacking}" if other is None else "")
            shown = f"{shape.name} {'backward' if number else 'forward'}" + (f", {name}" if name is not None else "")
            yield Row("", shown, seconds * 1e3, None if other is None else other * 1e3, "ms", error <= BOUND, note)


def _measured(device: Device, shape: Attention, *, once: bool, library: bool) -> Iterator[tuple[float, float]]:
    rng = np.random.default_rng(6)
    q, k, v, g = (_drawn(rng, type) for type in (shape.query, shape.key, shape.key, shape.query))
    line = TensorType(shape.query.shape[:3], "f32")

    def forward(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        return list(b.several("attention", *values, **shape.attrs))

    def backward(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        g, *rest = values
        return list(b.several("attention_grad", g, b.constant(0.0, line), *rest, **shape.attrs))

    pool = device.pool
    assert pool is not None
    given = [upload(pool, x, t) for x, t in ((q, shape.query), (k, shape.key), (v, shape.key))]
    found = timed(device, program_of(device, [x.type for x in given], forward, library=library), given, once=once)
    y, lse = found.results
    group = shape.heads // (shape.kv or shape.heads)
    first = [q[:1, :group], k[:1, :1], v[:1, :1]]
    wanted = OPS["attention"].numpy(*first, **shape.attrs)
    yield found.seconds, _error([y], wanted[:1], group)
    more = [upload(pool, g, shape.query), *given, y, lse]
    found = timed(device, program_of(device, [x.type for x in more], backward, library=library), more, once=once)
    saved = (round_bf16(wanted[0]), wanted[1])
    slopes = OPS["attention_grad"].numpy(
        g[:1, :group], np.zeros((1, group, shape.seq), np.float32), *first, *saved, **shape.attrs
    )
    yield found.seconds, _error(found.results, slopes, group)


def _error(got: Sequence[DeviceArray], wanted: Sequence[Array], group: int) -> float:
    """The worst difference in the first head that keys have, and the heads that share it, by the largest element."""
    worst = 0.0
    for array, want in zip(got, wanted, strict=True):
        mine = array.numpy()[:1, : want.shape[1]]
        assert want.shape[1] in (1, group)
        worst = max(worst, float(np.abs(mine - want).max() / np.abs(want).max()))
    return worst


def _drawn(rng: np.random.Generator, type: TensorType) -> Array:
    return round_bf16(rng.standard_normal(type.shape, np.float32))
