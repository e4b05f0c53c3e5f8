"""Philox4x32-10, the counter-based generator behind every random number of a run.

A draw is a pure function of a key and a counter, so nothing about randomness is ever saved or replayed. The
generator and its constants are those of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3" (SC 2011).
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_BLOCK = 8192  # counters worked on at once: six 64 KiB rows stay in the cache


def philox4x32(key0: int, key1: int, counters: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The four output words of each counter: `counters` u32[n, 4] gives u32[n, 4]."""
    out = np.empty(counters.shape, np.uint32)
    # The words live in 64-bit lanes so that a product keeps its high half.
    memory = np.empty((6, min(_BLOCK, len(counters))), np.uint64)
    for start in range(0, len(counters), _BLOCK):
        block = counters[start : start + _BLOCK]
        lanes = memory[:, : len(block)]
        lanes[:4] = block.T
        _rounds(key0, key1, lanes)
        out[start : start + _BLOCK] = lanes[:4].T
    return out


def philox_words(key0: int, key1: int, first: int, count: int, step: int, trip: int, words: int) -> NDArray[np.uint32]:
    """The leading output words of the counters (first, step, trip), (first + 1, step, trip), ...: u32[words, count].

    The first part of a counter is 64 bits wide, low word first.
    """
    out = np.empty((words, count), np.uint32)
    memory = np.empty((6, min(_BLOCK, count)), np.uint64)
    for start in range(0, count, _BLOCK):
        lanes = memory[:, : min(_BLOCK, count - start)]
        element = np.arange(first + start, first + start + lanes.shape[1], dtype=np.uint64)
        np.bitwise_and(element, _LOW, out=lanes[0])
        np.right_shift(element, _HALF, out=lanes[1])
        lanes[2] = step & 0xFFFFFFFF
        lanes[3] = trip & 0xFFFFFFFF
        _rounds(key0, key1, lanes)
        out[:, start : start + _BLOCK] = lanes[:words]
    return out


def _rounds(key0: int, key1: int, lanes: NDArray[np.uint64]) -> None:
    """The words c0 to c3 after all rounds, in place; the last two lanes are scratch."""
    c0, c1, c2, c3, product0, product1 = lanes
    for i in range(ROUNDS):
        round0 = np.uint64((key0 + i * _WEYL[0]) & 0xFFFFFFFF)
        round1 = np.uint64((key1 + i * _WEYL[1]) & 0xFFFFFFFF)
        np.multiply(c0, _MULTIPLIERS[0], out=product0)
        np.multiply(c2, _MULTIPLIERS[1], out=product1)
        np.right_shift(product1, _HALF, out=c0)
        c0 ^= c1
        c0 ^= round0
        np.right_shift(product0, _HALF, out=c2)
        c2 ^= c3
        c2 ^= round1
        np.bitwise_and(product1, _LOW, out=c1)
        np.bitwise_and(product0, _LOW, out=c3)


def key_of(seed: int, stream: str, site: str) -> tuple[int, int]:
    """The key of one place that draws: the same for ever, distinct for distinct (seed, stream, site).

    `stream` separates purposes (init, train, eval, order), `site` the places within one.
    """
    # A length in front of each text keeps ("ab", "c") and ("a", "bc") apart.
    text = b"".join(len(part).to_bytes(8, "little") + part for part in (stream.encode(), site.encode()))
    seed_bytes = seed.to_bytes(max(8, seed.bit_length() // 8 + 1), "little", signed=True)
    digest = hashlib.blake2b(text + seed_bytes, digest_size=8, person=b"sexpgpu.key").digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")
