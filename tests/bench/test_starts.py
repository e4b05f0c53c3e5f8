"""The rebuilt starts of the published runs: what is known of them, and the stored weights where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from bench.curves import starts
from bench.curves.torch_stream import TorchStream


def test_torch_integers_are_words_modulo() -> None:
    """The first words of MT19937 seeded with 5489, which its authors publish."""
    assert TorchStream(5489).words(3).tolist() == [3499211612, 581869302, 3890346734]
    assert TorchStream(5489).integers(1000, 3).tolist() == [612, 302, 734]


def test_torch_normals_have_their_moments_and_use_their_words() -> None:
    stream, plain = TorchStream(7), TorchStream(7)
    values = stream.normal(16_000, 2.0)
    assert values.dtype == np.float32
    assert abs(values.mean()) < 0.05
    assert abs(values.std() - 2.0) < 0.05
    plain.words(16_000)
    assert stream.words(1) == plain.words(1)


def test_a_count_off_sixteen_redraws_its_end() -> None:
    long, short = TorchStream(3).normal(32, 1.0), TorchStream(3).normal(20, 1.0)
    assert (long[:4] == short[:4]).all()
    assert not (long[4:20] == short[4:]).any()
    with pytest.raises(ValueError, match="sixteen"):
        TorchStream(3).normal(15, 1.0)


def test_digits_visits_every_record_once_an_epoch() -> None:
    order = starts.digits().orders["order"]
    assert order.shape == (15 * 9, 200)
    assert (order[8::9, 197:] == -1).all()
    for epoch in order.reshape(15, -1):
        assert sorted(epoch[epoch >= 0].tolist()) == list(range(1797))


def test_microgpt_reads_the_names_in_the_published_order() -> None:
    names = (starts.EXAMPLES / "data" / "names.txt").read_text(encoding="utf-8").split()
    first = starts.microgpt().orders["order"][:3, 0]
    assert [names[i] for i in first] == ["yuheng", "diondre", "xavien"]


def test_nanogpt_reads_inside_its_halves() -> None:
    start = starts.nanogpt()
    assert sum(w.ndim == 2 for w in start.weights.values()) == 18
    assert {name: order.shape for name, order in start.orders.items()} == {
        "order": (2000, 12),
        "seen-order": (180, 12),
        "val-order": (180, 12),
    }
    split, length, context = 1_003_854, 1_115_394, 64
    for name in ("order", "seen-order"):
        assert start.orders[name].max() < split - context
    assert start.orders["val-order"].min() >= split
    assert start.orders["val-order"].max() < length - context


def test_a_start_is_written_as_files(tmp_path: Path) -> None:
    starts.microgpt().write(tmp_path)
    assert load_file(tmp_path / "weights.safetensors")["model.wte"].shape == (27, 16)
    assert np.load(tmp_path / "order.npy").shape == (1000, 1)


def test_micrograd_weights_are_the_stored_ones(shared: Path) -> None:
    stored = np.load(shared / "data" / "micrograd_init.npz")
    weights = starts.micrograd().weights
    for i, name in enumerate(("hidden1", "hidden2", "score")):
        np.testing.assert_array_equal(weights[f"model.{name}.weight"], stored[f"W{i}"])


def test_microgpt_weights_are_the_stored_ones(shared: Path) -> None:
    stored = np.load(shared / "data" / "microgpt_init.npz")
    weights = list(starts.microgpt().weights.values())
    for ours, name in zip(weights, ("wte", "wpe", "lm", "q", "k", "v", "o", "f1", "f2"), strict=True):
        np.testing.assert_array_equal(ours, stored[name])
