"""The orders: coverage, independence, short batches, index files, and that a batch's number is all they
need.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sexpgpu.data.loader import OpenLoader, open_loader
from sexpgpu.data.order import OrderName, Random, Sequential, Shuffle, draws, order_key, permutation
from sexpgpu.data.source import Npy, Source, Window
from sexpgpu.diag import SxError

KEY = order_key(7, "train-loader")


def test_sequential_ends_each_pass_with_a_short_batch() -> None:
    order = Sequential(10, 4)
    assert order.epoch_batches == 3
    assert [order.indices(q).tolist() for q in range(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]
    assert [order.rows(q) for q in range(6)] == [4, 4, 2, 4, 4, 2]


def test_shuffle_reads_each_record_once_an_epoch() -> None:
    order = Shuffle(103, 10, KEY)
    epochs = [np.concatenate([order.indices(q) for q in range(e * 11, e * 11 + 11)]) for e in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(103))
    assert (epochs[0] != epochs[1]).any()
    assert (epochs[1] != epochs[2]).any()
    assert [order.rows(q) for q in (0, 10, 11, 21)] == [10, 3, 10, 3]


def test_a_batch_depends_on_its_number_alone() -> None:
    for order in (Shuffle(50, 8, KEY), Random(50, 8, KEY), Sequential(50, 8)):
        forwards = [order.indices(q).tolist() for q in range(40)]
        permutation.cache_clear()
        assert [order.indices(q).tolist() for q in reversed(range(40))] == forwards[::-1]


def test_loaders_and_seeds_draw_differently() -> None:
    keys = [order_key(7, "a"), order_key(8, "a"), order_key(7, "b")]
    assert len({tuple(Random(1000, 16, key).indices(0)) for key in keys}) == 3
    assert len({tuple(permutation(key, 0, 30)) for key in keys}) == 3
    assert (Random(30, 30, KEY).indices(0) != permutation(KEY, 0, 30)).any()


def test_every_place_of_a_permutation_is_equally_likely() -> None:
    # 5 records, 2000 epochs: each of 25 cells expects 400, deviation 18; five deviations are ample.
    counts = np.zeros((5, 5), int)
    for epoch in range(2000):
        counts[np.arange(5), permutation(KEY, epoch, 5)] += 1
    assert (abs(counts - 400) < 90).all()


def test_draws_are_uniform_and_rejection_is_exact() -> None:
    drawn = draws(KEY, np.arange(60_000, dtype=np.uint64), 6)
    counts = np.bincount(drawn, minlength=6)
    assert (abs(counts - 10_000) < 460).all()
    # Of 2**64 values 3 * 2**61 leave a quarter over; folded onto the low third they would fill it half again.
    big = 3 * 2**61
    drawn = draws(KEY, np.arange(30_000, dtype=np.uint64), big)
    assert drawn.min() >= 0
    assert int(drawn.max()) < big
    assert abs((drawn < big // 3).mean() - 1 / 3) < 0.014
    assert (draws(KEY, np.arange(100, 200, dtype=np.uint64), big) == drawn[100:200]).all()


def loader(folder: Path, order: OrderName, source: Source | None = None, *, wrap: bool = False) -> OpenLoader:
    fields = {"x": source or Npy("x.npy"), "y": source or Npy("y.npy")}
    return open_loader("train", fields, batch=3, order=order, seed=1, index_file="order.npy", wrap=wrap, base=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.arange(10.0))
    np.save(tmp_path / "y.npy", np.arange(10) * 10)
    np.save(tmp_path / "order.npy", np.array([[3, 9, 3], [0, 1, -1]], np.int32))
    return tmp_path


def test_fields_are_read_together(folder: Path) -> None:
    opened = loader(folder, "random")
    for q in range(5):
        fields = opened.read(opened.indices(q), q)
        assert (fields["y"] == fields["x"] * 10).all()
    np.save(folder / "y.npy", np.arange(9))
    with pytest.raises(SxError, match="E-LOAD-008"):
        loader(folder, "random")


def test_index_files(folder: Path) -> None:
    opened = loader(folder, "index-file")
    assert [opened.indices(q).tolist() for q in range(2)] == [[3, 9, 3], [0, 1]]
    assert [opened.order.rows(q) for q in range(2)] == [3, 2]
    assert opened.order.epoch_batches == 4
    with pytest.raises(SxError, match="E-LOAD-009"):
        opened.indices(2)
    assert loader(folder, "index-file", wrap=True).indices(2).tolist() == [3, 9, 3]


def test_an_index_file_counts_in_the_uncut_source(folder: Path) -> None:
    cut = Window(Npy("x.npy"), 2, stride=2, from_=3)  # windows at 3, 5, 7
    np.save(folder / "order.npy", np.array([[7, 3]]))
    opened = loader(folder, "index-file", cut)
    assert opened.read(opened.indices(0), 0)["x"].tolist() == [[7, 8], [3, 4]]


BAD_TABLES = {
    "past the end": np.array([[3, 10, 0]]),
    "negative": np.array([[3, -2, 0]]),
    "gap": np.array([[3, -1, 0]]),
    "empty row": np.array([[3, 1, 0], [-1, -1, -1]]),
    "too wide": np.array([[1, 2, 3, 4]]),
    "flat": np.array([1, 2, 3]),
    "floats": np.array([[1.0, 2.0]]),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_index_files(name: str, folder: Path) -> None:
    np.save(folder / "order.npy", BAD_TABLES[name])
    with pytest.raises(SxError) as caught:
        loader(folder, "index-file")
    assert caught.value.diagnostic.code == "E-LOAD-009"
    assert caught.value.diagnostic.expected
