"""Placement in the arena: nothing that lives at one time overlaps, and the size is near the live set."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.plan.arena import ALIGNMENT, Lifetime, aligned, peak, place

LIFETIMES = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(0, 40), st.integers(0, 12)).map(
        lambda t: Lifetime(t[0], t[1], t[1] + t[2])
    ),
    max_size=40,
)


@given(LIFETIMES)
def test_buffers_alive_at_one_time_never_overlap(lifetimes: list[Lifetime]) -> None:
    found = place(lifetimes)
    owners = np.full((60, found.arena + 1), -1)
    for number, (offset, each) in enumerate(zip(found.offsets, lifetimes, strict=True)):
        assert offset % ALIGNMENT == 0
        taken = owners[each.first : each.last + 1, offset : offset + each.size]
        assert (taken == -1).all()
        taken[:] = number


@given(LIFETIMES)
def test_the_arena_is_no_smaller_than_what_lives_and_no_larger_than_everything(lifetimes: list[Lifetime]) -> None:
    found = place(lifetimes)
    live = [sum(aligned(e.size) for e in lifetimes if e.first <= t <= e.last) for t in range(60)]
    assert (found.live, found.step) == (max(live), live.index(max(live)) if max(live) else 0)
    assert found.live <= found.arena <= sum(aligned(e.size) for e in lifetimes)


def test_a_stack_of_lifetimes_needs_no_more_than_its_peak() -> None:
    """A forward pass and its backward: what is made first is needed longest."""
    forward = [Lifetime(1000 + 64 * i, i, 41 - i) for i in range(20)]
    between = [Lifetime(512, i, i + 1) for i in range(0, 40, 3)]
    found = place([*forward, *between])
    assert found.arena == found.live


def test_nothing_needs_nothing() -> None:
    assert place([]).arena == 0
    assert peak([]) == (0, 0)
