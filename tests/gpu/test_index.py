"""Scatters on the simulator: equal to the interpreter bit for bit, repeats in order, indices out of range told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array, Index, Sample, numpy_dtype, sample
from sexpgpu.dialects.ops import OPS
from sexpgpu.passes.gpu import index
from tests.building import function
from tests.gpu.agreement import agrees
from tests.gpu.kernels import ALONE, Device

SCATTERS = [op.name for op in OPS.values() if isinstance(op.kind, Index) and op.kind.access != "read"]
LARGER = {
    "repeats": ("scatter_add", sample("f32[7, 130]", "i32[100]", "f32[100, 130]", axis=0, below=7)),
    "vectors": ("scatter_add", sample("f32[5, 64]", "i64[3, 11]", "f32[3, 11, 64]", axis=0, below=5)),
    "long slices": ("scatter_add", sample("f32[3, 1300]", "i32[9]", "f32[9, 1300]", axis=0, below=3)),
    "inner axis": ("scatter_add", sample("bf16[2, 40, 8]", "i32[70]", "bf16[2, 70, 8]", axis=1, below=40)),
    "last wins": ("index_update", sample("f32[6, 20]", "i32[50]", "f32[50, 20]", axis=0, below=6)),
    "lines": ("add_along_axis", sample("f32[9, 33]", "i32[9, 60]", "f32[9, 60]", axis=1, below=33)),
}


def run(name: str, given: Sample, below: int | None = None) -> tuple[Array, Array]:
    """(what the kernels give, what the interpreter gives)."""
    rng = np.random.default_rng(5)
    arrays = []
    for place, type in enumerate(given.types):
        if place == 1:
            arrays.append(
                rng.integers(0, given.below if below is None else below, type.shape).astype(numpy_dtype(type.dtype))
            )
        else:
            array = np.asarray(rng.uniform(-2, 2, type.shape), numpy_dtype(type.dtype))
            arrays.append(round_bf16(array) if type.dtype == "bf16" else array)
    with open_context() as context:
        module = function(context, list(given.types), lambda b, v: [b(name, *v, **given.attrs)])
        (found,) = Device.of(context, module, ALONE)(arrays)
    wanted: Any = OPS[name].numpy(*arrays, **given.attrs)
    return found, round_bf16(wanted) if given.types[0].dtype == "bf16" else wanted


@pytest.mark.parametrize("name", SCATTERS)
def test_samples(name: str) -> None:
    for given in OPS[name].samples:
        np.testing.assert_array_equal(*run(name, given))


@pytest.mark.parametrize("case", LARGER)
def test_larger(case: str) -> None:
    np.testing.assert_array_equal(*run(*LARGER[case]))


@pytest.mark.parametrize("limit", ["MANY", "UNTOUCHED"])
@pytest.mark.parametrize("case", ["repeats", "inner axis", "last wins"])
def test_where_slices_are_looked_up_first(case: str, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, limit, 0)
    np.testing.assert_array_equal(*run(*LARGER[case]))


@pytest.mark.parametrize("case", LARGER)
def test_an_index_out_of_range_is_told(case: str) -> None:
    name, given = LARGER[case]
    with pytest.raises(AssertionError, match=r"outside range\("):
        run(name, given, given.below + 2)


def test_a_part_of_a_tensor_is_changed_where_the_rest_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows behind the first lie dense, but not where their buffer begins."""
    monkeypatch.setattr(index, "UNTOUCHED", 0)

    def build(b: Builder, values: Sequence[Val]) -> list[Val]:
        x, indices, updates = values
        rows = b("slice", x, start=(2, 0), stop=(9, 8), step=(1, 1))
        return [b("scatter_add", rows, indices, updates, axis=0)]

    agrees(["f32[9, 8]", "i32[3]", "f32[3, 8]"], build)
