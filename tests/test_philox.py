"""Philox against the published known answers, and the keys it is used with."""

from __future__ import annotations

import numpy as np
import pytest

from sexpgpu.philox import key_of, philox4x32, philox_words

# Known answers that the generator's authors publish with Random123 (kat_vectors, philox4x32 10).
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter: str, key: str, expected: str) -> None:
    key0, key1 = words(key)
    out = philox4x32(key0, key1, np.array([words(counter)], np.uint32))
    assert out.dtype == np.uint32
    assert out[0].tolist() == words(expected)


def test_a_block_edge_changes_nothing() -> None:
    counters = np.zeros((20_000, 4), np.uint32)
    counters[:, 0] = np.arange(20_000)
    together = philox4x32(1, 2, counters)
    picked = np.array([0, 8191, 8192, 16_384, 19_999])
    for i in picked:
        assert (together[i] == philox4x32(1, 2, counters[i : i + 1])[0]).all()
    assert len(np.unique(together[:, 0])) > 19_900
    assert philox4x32(1, 2, counters[:0]).shape == (0, 4)


@pytest.mark.parametrize("first", [0, 5, 2**32 - 3, 2**40])
def test_words_of_counters_in_a_row(first: int) -> None:
    count = 9000
    element = np.arange(first, first + count, dtype=np.uint64)
    counters = np.zeros((count, 4), np.uint32)
    counters[:, 0] = element & np.uint64(0xFFFFFFFF)
    counters[:, 1] = element >> np.uint64(32)
    counters[:, 2], counters[:, 3] = 7, 2**32 - 1
    expected = philox4x32(1, 2, counters)
    for leading in (1, 2, 4):
        found = philox_words(1, 2, first, count, 7, -1, leading)
        assert (found == expected[:, :leading].T).all()
    assert philox_words(1, 2, first, 0, 0, 0, 1).shape == (1, 0)


def test_input_is_left_alone() -> None:
    counters = np.arange(8, dtype=np.uint32).reshape(2, 4)
    before = counters.copy()
    philox4x32(3, 4, counters)
    assert (counters == before).all()


def test_keys_are_stable_and_distinct() -> None:
    assert key_of(1337, "train", "model.drop.0") == key_of(1337, "train", "model.drop.0")
    keys = {
        key_of(seed, stream, site)
        for seed in (0, 1, -1, 2**40, 2**100)
        for stream, site in [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", "")]
    }
    assert len(keys) == 20
    assert all(0 <= word < 2**32 for key in keys for word in key)
    assert key_of(0, "init", "model.w") == (4178149341, 4129787214)  # a changed hash would change every run
