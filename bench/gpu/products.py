"""Products of matrices by shape beside `torch.matmul`, which is cuBLAS: times by events, values by rows in f64.

Each is made by our kernels, then by cublasLt where that is, without measuring which is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bench.gpu.cases import Product, Setting
from bench.gpu.graph import Refused, library_of, program_of, timed
from bench.gpu.reference import asked
from bench.gpu.rows import Row
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Array
from sexpgpu.driver.devices import Device, opened
from sexpgpu.gpu.transfer import upload
from sexpgpu.plan.library import ProductGraph
from sexpgpu.tensortype import DType, TensorType

CHECKED_ROWS = 8
BOUND: dict[DType, float] = {"f32": 1e-5, "bf16": 2**-7}
"""Of the largest element of those rows."""


def rows(setting: Setting, products: Sequence[Product]) -> Iterator[Row]:
    """Milliseconds of each product and whether some of its rows are right."""
    wanted = [
        {"kind": "product", "a": p.stored[0], "b": p.stored[1], "lies": p.lies, "dtype": p.dtype} for p in products
    ]
    theirs = asked(setting, wanted)
    with opened(setting.device) as device:
        library = library_of(device, ProductGraph)
        for product, other in zip(products, theirs.seconds, strict=True):
            for name in (None, library) if library is not None else (None,):
                shown = product.name if name is None else f"{product.name}, {name}"
                try:
                    ours, error = _measured(device, product, once=setting.toy, library=name is not None)
                except Refused as fault:
                    yield Row("", shown, note=str(fault))
                    continue
                rate = 2e-12 * product.m * product.n * product.k / ours
                note = f"{rate:.3g} TFLOP/s, error {error:.1e}" + (f"; {theirs.lacking}" if other is None else "")
                theirs_ms = None if other is None else other * 1e3
                yield Row("", shown, ours * 1e3, theirs_ms, "ms", error <= BOUND[product.dtype], note)


def _measured(device: Device, product: Product, *, once: bool, library: bool) -> tuple[float, float]:
    """Seconds, and the worst error of some rows by the largest of their elements."""
    rng = np.random.default_rng(5)
    arrays = [_drawn(rng, shape, product.dtype) for shape in product.stored]
    types = [TensorType(shape, product.dtype) for shape in product.stored]

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        factors = [
            b("transpose", v, perm=(1, 0)) if lies == "t" else v for v, lies in zip(values, product.lies, strict=True)
        ]
        return [b("matmul", *factors)]

    program = program_of(device, types, build, library=library)
    assert device.pool is not None
    found = timed(device, program, [upload(device.pool, x, t) for x, t in zip(arrays, types, strict=True)], once=once)
    a, b = (x.T if lies == "t" else x for x, lies in zip(arrays, product.lies, strict=True))
    chosen = rng.choice(product.m, min(CHECKED_ROWS, product.m), replace=False)
    exact = a[chosen].astype(np.float64) @ b.astype(np.float64)
    error = np.abs(found.results[0].numpy()[chosen] - exact).max() / np.abs(exact).max()
    return found.seconds, float(error)


def _drawn(rng: np.random.Generator, shape: tuple[int, int], dtype: DType) -> Array:
    array = rng.standard_normal(shape, np.float32)
    return round_bf16(array) if dtype == "bf16" else array
