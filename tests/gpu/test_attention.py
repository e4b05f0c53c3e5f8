"""Kernels of attention on the simulator against the interpreter: forward, backward, biases, shared heads, windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array, Composite, Sample, numpy_dtype, sample
from sexpgpu.dialects.ops import OPS
from tests.building import function
from tests.gpu.kernels import ALONE, Device

ATTENTION = [op for op in OPS.values() if isinstance(op.kind, Composite) and op.kind.family == "attention"]
SMALL = [
    (op.name, number)
    for op in ATTENTION
    for number, given in enumerate(op.samples)
    if max(type.size for type in given.types) <= 1000
]
FORM: dict[str, Any] = {"scale": 0.3, "causal": True, "window": 0, "rounded": False}


def drawn(given: Sample, forward: str) -> list[Array]:
    """Operands of a sample; those that a forward pass saves are what it gives."""
    rng = np.random.default_rng(3)
    arrays = []
    for type in given.types:
        array = np.asarray(rng.uniform(-2, 2, type.shape), numpy_dtype(type.dtype))
        arrays.append(round_bf16(array) if type.dtype == "bf16" else array)
    if forward:
        q, k, v, *bias = [*arrays[2:5], *arrays[7:]]
        with np.errstate(all="ignore"):
            y, lse = OPS[forward].numpy(q, k, v, *bias, **given.attrs)
        arrays[5], arrays[6] = round_bf16(y) if given.types[5].dtype == "bf16" else y, lse
    return arrays


def check(name: str, given: Sample, tolerance: float) -> None:
    record = OPS[name]
    assert isinstance(record.kind, Composite)
    forward = ("attention_biased" if "bias" in record.operands else "attention") if record.kind.backward else ""
    arrays = drawn(given, forward)
    with open_context() as context:

        def build(b: Any, values: Any) -> Any:
            return b.several(name, *values, **given.attrs) if record.results > 1 else [b(name, *values, **given.attrs)]

        found = Device.of(context, function(context, list(given.types), build), ALONE)(arrays)
    with np.errstate(all="ignore"):
        wanted = record.numpy(*arrays, **given.attrs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "number"), SMALL)
def test_samples(name: str, number: int) -> None:
    given = OPS[name].samples[number]
    check(name, given, 1e-11 if given.types[-1].dtype == "f64" else 1e-5)


LINES = "1, 4, 19"


@pytest.mark.parametrize("window", [0, 7])
@pytest.mark.parametrize("dim", ["12", "33", "64"])
def test_shared_heads_of_any_length(dim: str, window: int) -> None:
    q, kv = f"f32[{LINES}, {dim}]", f"f32[1, 2, 40, {dim}]"
    check("attention", sample(q, kv, kv, **FORM | {"window": window}), 2e-5)
    backward = (q, f"f32[{LINES}]", q, kv, kv, q, f"f32[{LINES}]")
    check("attention_grad", sample(*backward, **FORM | {"window": window}), 2e-5)


def test_in_bf16() -> None:
    q, kv, line = "bf16[1, 2, 40, 32]", "bf16[1, 1, 40, 32]", "f32[1, 2, 40]"
    form = FORM | {"rounded": True}
    check("attention", sample(q, kv, kv, **form), 2e-2)
    check("attention_grad", sample(q, line, q, kv, kv, q, line, **form), 6e-2)
