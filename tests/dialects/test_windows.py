"""Convolutions and pools over batches that are worked on in several stretches, the last of them short."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from sexpgpu.dialects import convolution, pooling
from sexpgpu.dialects.ops import OPS

Array = NDArray[Any]
PLAIN = {"stride": (1, 1), "low": (1, 0), "high": (0, 1), "dilation": (1, 1), "groups": 2}


def images(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def windows_of(x: Array, kernel: tuple[int, int]) -> Array:
    """[n, c, windows..., kernel...] of a padded batch, as `PLAIN` pads it."""
    return sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1))), kernel, axis=(2, 3))


def by_definition(x: Array, w: Array) -> Array:
    halves = [(x[:, :4], w[:3]), (x[:, 4:], w[3:])]
    return np.concatenate([np.einsum("nchwij,ocij->nohw", windows_of(a, (3, 2)), b) for a, b in halves], 1)


@pytest.fixture
def batch() -> tuple[Array, Array]:
    x, w = images(7, 8, 20, 15), images(6, 4, 3, 2, seed=1)
    columns = x[0].nbytes * 6
    assert columns < convolution._COLUMN_BYTES < columns * len(x)
    assert len(x) % (convolution._COLUMN_BYTES // columns)  # the last stretch is short
    return x, w


def test_a_convolution_of_many_images(batch: tuple[Array, Array]) -> None:
    x, w = batch
    np.testing.assert_allclose(OPS["conv"].numpy(x, w, **PLAIN), by_definition(x, w), rtol=1e-10, atol=1e-10)


def test_its_transposes_are_transposes(batch: tuple[Array, Array]) -> None:
    """<y', conv(x, w)> = <x', x> = <w', w> for the cotangents of a y'."""
    x, w = batch
    y = OPS["conv"].numpy(x, w, **PLAIN)
    cotangent = images(*y.shape, seed=2)
    for moved, at in ((images(*x.shape, seed=3), "x"), (images(*w.shape, seed=4), "w")):
        if at == "x":
            whole = (cotangent * by_definition(moved, w)).sum()
            found = (OPS["conv_input_grad"].numpy(cotangent, w, size=x.shape[2:], **PLAIN) * moved).sum()
        else:
            whole = (cotangent * by_definition(x, moved)).sum()
            found = (OPS["conv_weight_grad"].numpy(x, cotangent, kernel=w.shape[2:], **PLAIN) * moved).sum()
        np.testing.assert_allclose(found, whole, rtol=1e-10)


def test_pools_of_many_images() -> None:
    x = images(9, 16, 40, 30)
    assert x[0].nbytes < pooling._STRETCH_BYTES < x.nbytes
    attrs = {"kernel": (3, 2), "stride": (1, 1), "low": (0, 0), "high": (0, 0)}
    windows = sliding_window_view(x, (3, 2), axis=(2, 3))
    np.testing.assert_array_equal(OPS["pool_max"].numpy(x, **attrs), windows.max((-2, -1)))
    np.testing.assert_allclose(OPS["pool_mean"].numpy(x, **attrs), windows.mean((-2, -1)), rtol=1e-12, atol=1e-14)
    g = images(*windows.shape[:4], seed=1)
    chosen = OPS["pool_argmax"].numpy(x, **attrs).reshape(9, 16, -1)
    wanted = np.zeros((9, 16, 40 * 30))
    np.add.at(wanted, (np.arange(9)[:, None, None], np.arange(16)[:, None], chosen), g.reshape(9, 16, -1))
    found = OPS["pool_max_grad"].numpy(g, x, **attrs)
    np.testing.assert_allclose(found, wanted.reshape(x.shape), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["pool_max", "pool_argmax", "pool_max_grad"])
def test_nan_is_the_greatest_and_infinity_stays_where_it_is(name: str) -> None:
    x = np.array([[[1.0, np.nan, np.nan, 2.0, -np.inf, -np.inf, 3.0, 3.0]]])
    g = np.array([[[1.0, 2.0, 3.0, np.inf]]])
    attrs = {"kernel": (2,), "stride": (2,), "low": (0,), "high": (0,)}
    wanted = {
        "pool_max": [np.nan, np.nan, -np.inf, 3],
        "pool_argmax": [1, 2, 4, 6],
        "pool_max_grad": [0, 1, 2, 0, 3, 0, np.inf, 0],
    }[name]
    operands = (g, x) if name == "pool_max_grad" else (x,)
    np.testing.assert_array_equal(OPS[name].numpy(*operands, **attrs)[0, 0], wanted)
