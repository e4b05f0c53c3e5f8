"""Kernels with a token changed: whatever comes of it is a diagnostic, never a traceback."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest

from sexpgpu.diag import SxError
from sexpgpu.sim import Checks, Machine, mbarrier
from sexpgpu.sim.lex import tokens_of
from tests.sim.planted import FAULTS
from tests.sim.snippets import entry
from tests.sim.test_bulk import PIPE, RELEASE, box_kernel
from tests.sim.test_control import FUNCTIONS
from tests.sim.test_matrix import BACK, COPY, STAGE
from tests.sim.test_warp import REVERSE
from tests.sim.test_wgmma import DA, DB, kernel

WARPS = """
  .reg .b32 %n, %v; .reg .pred %p; setp.lt.u32 %p, %t2, 40; bar.red.popc.u32 %n, 0, %p; bar.arrive 1, 64;
  vote.sync.ballot.b32 %v, %p, -1; match.any.sync.b32 %v, %n, -1; redux.sync.add.u32 %v, %n, -1;
  shfl.sync.down.b32 %v|%p, %n, 3, 31, -1; atom.global.add.u32 %n, [%p0], 1; mov.b64 {%n, %v}, %q0;
"""
TEXTS = [
    *(entry(planted.body) for planted in FAULTS.values()),
    entry(REVERSE.format(barrier="bar.sync 0;")),
    entry(STAGE + "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%s]; st.global.b32 [%at], %r3;"),
    entry(COPY + "cp.async.cg.shared.global [%s], [%at], 16, %n; cp.async.wait_all;" + BACK.replace("%p1", "%p0")),
    entry(WARPS),
    entry(PIPE.replace("RELEASE", RELEASE).replace("%p1", "%p0")),
    box_kernel(512, 2, [0, 0]).replace("%p1", "%p0"),
    kernel(8, DA, DB, ", 0, 0").replace("%p1", "%p0"),
    entry("{ .param .b32 x; st.param.b32 [x], %i; .param .b32 y; call (y), twice, (x); }", before=FUNCTIONS),
]


def changed(text: str, rng: random.Random, vocabulary: list[str]) -> str:
    """The text with one token gone, doubled, or another one, mostly of its kind."""
    texts, lines, _ = tokens_of(text)
    at = rng.randrange(len(texts))
    here, choice = texts[at], rng.random()
    alike = [x for x in vocabulary if x[0] == here[0] or (x[0].isalpha() and here[0].isalpha())]
    new = [] if choice < 0.2 else [here, here] if choice < 0.3 else [rng.choice(alike if choice < 0.8 else vocabulary)]
    parts = [("\n" if i and lines[i] != lines[i - 1] else " ") + x for i, x in enumerate(texts)]
    return "".join([*parts[:at], *("\n" * (parts[at][0] == "\n") + " " + x for x in new), *parts[at + 1 :]])


@pytest.mark.parametrize("seed", range(6))
def test_a_changed_loadedruns_or_is_refused(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mbarrier, "FRUITLESS", 500)
    rng = random.Random(seed)
    vocabulary = sorted({token for text in TEXTS for token in tokens_of(text)[0]})
    for _ in range(60):
        text = changed(rng.choice(TEXTS), rng, vocabulary)
        machine = Machine(Checks.every(rng.choice([None, 1]), most_visits=2000))
        address = machine.allocate(512, "data")
        machine.write(address, np.arange(128, dtype=np.uint32))
        with suppress(SxError):
            loaded = machine.load(text).kernel("k")
            machine.launch(loaded, (2, 1, 1), (rng.choice([32, 48, 64, 128]), 1, 1), [address] * len(loaded.parameters))
