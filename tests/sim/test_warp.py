"""Warp-wide instructions and barriers against what PTX says of each lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.sim.snippets import entry, fault, lanes, launch

LANE = np.arange(128, dtype=np.uint32)


def route(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Where a lane reads, and whether that lies in its segment."""
    b, top, segment = b & 31, c & 31, c >> 8 & 31
    last = lane & segment | top & ~segment
    found: dict[str, Callable[[], tuple[int, bool]]] = {
        "up": lambda: (lane - b, lane - b >= last),
        "down": lambda: (lane + b, lane + b <= last),
        "bfly": lambda: (lane ^ b, lane ^ b <= last),
        "idx": lambda: (lane & segment | b & ~segment, (lane & segment | b & ~segment) <= last),
    }
    source, inside = found[mode]()
    return (source if inside else lane), inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize(("b", "c"), [(1, 31), (16, 31), (3, 0x1C03), (5, 0x1807), (1, 0), (0, 0), (33, 0x101F)])
def test_shuffles(mode: str, b: int, c: int) -> None:
    v = LANE * 3 + 7
    for text, more in (
        (f"{b}, {c}", {}),
        ("%b, %c", {"b": np.full(128, b, np.uint32), "c": np.full(128, c, np.uint32)}),
    ):
        found = lanes(f"shfl.sync.{mode}.b32 %o|%p, %v, {text}, -1;", {"o": "u4", "p": np.bool_}, v=v, **more)
        wanted = [route(mode, int(i) % 32, b, c) for i in LANE]
        assert found["o"].tolist() == [int(v[i // 32 * 32 + s]) for i, (s, _) in enumerate(wanted)]
        assert found["p"].tolist() == [inside for _, inside in wanted]


def test_votes_and_matches() -> None:
    v = (LANE * 7) % 5
    text = """
      .reg .pred %p; setp.lt.u32 %p, %v, 3;
      vote.sync.ballot.b32 %b, %p, -1; vote.sync.any.pred %any, %p, -1; vote.sync.all.pred %all, %p, -1;
      vote.sync.uni.pred %uni, %p, -1; match.any.sync.b32 %m, %v, -1; match.all.sync.b32 %n|%same, %v, -1;
      activemask.b32 %act;
    """
    kinds = dict.fromkeys(("any", "all", "uni", "same"), np.bool_) | dict.fromkeys(("b", "m", "n", "act"), "u4")
    found = lanes(text, kinds, v=v)
    for i in LANE:
        warp = v[i // 32 * 32 : i // 32 * 32 + 32]
        assert found["b"][i] == sum(1 << k for k in range(32) if warp[k] < 3)
        assert found["m"][i] == sum(1 << k for k in range(32) if warp[k] == v[i])
    assert found["any"].all()
    assert not found["all"].any()
    assert not found["uni"].any()
    assert not found["same"].any()
    assert not found["n"].any()
    assert set(found["act"]) == {0xFFFFFFFF}


@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor"])
def test_reductions(name: str) -> None:
    v = np.random.default_rng(1).integers(0, 1 << 32, 128).astype(np.uint32)
    kind = "b32" if name in ("and", "or", "xor") else "s32"
    found = lanes(f"redux.sync.{name}.{kind} %o, %v, -1;", {"o": "u4"}, v=v)["o"]
    f = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
         "xor": np.bitwise_xor}[name]  # fmt: skip
    x = v if kind == "b32" else v.view(np.int32)
    assert found.tolist() == np.repeat(f.reduce(x.reshape(4, 32), axis=1, dtype=x.dtype).view(np.uint32), 32).tolist()


def test_a_part_of_the_warp() -> None:
    text = """
      .reg .pred %p; .reg .b32 %l, %x; mov.u32 %l, %laneid; setp.lt.u32 %p, %l, 16; mov.u32 %o, 0; mov.u32 %n, 0;
      @!%p bra DONE;
      shfl.sync.bfly.b32 %o, %v, 1, 31, 0xFFFF; activemask.b32 %n; redux.sync.add.u32 %x, %v, 0xFFFF;
      add.u32 %o, %o, %x;
    DONE:
    """
    v = LANE.copy()
    found = lanes(text, {"o": "u4", "n": "u4"}, v=v)
    for i in range(128):
        base = i // 32 * 32
        total = sum(range(base, base + 16))
        assert found["o"][i] == ((i ^ 1) + total if i % 32 < 16 else 0)
        assert found["n"][i] == (0xFFFF if i % 32 < 16 else 0)


def test_lanes_wait_for_those_of_their_mask() -> None:
    """The lanes that take the short way come first to the shuffle, which lies before the long way."""
    text = """
      .reg .pred %p; .reg .b32 %l; mov.u32 %l, %laneid; setp.lt.u32 %p, %l, 16; mov.u32 %o, %v; @!%p bra LONG;
    JOIN: shfl.sync.bfly.b32 %o, %o, 16, 31, -1; bra DONE;
    LONG: add.u32 %o, %o, 1000; bra JOIN;
    DONE:
    """
    found = lanes(text, {"o": "u4"}, v=LANE)["o"]
    assert found.tolist() == [int(i ^ 16) + (1000 if (i ^ 16) % 32 >= 16 else 0) for i in LANE]


def test_special_registers() -> None:
    text = f"""
      .reg .u64 %to; .reg .b32 %a, %b;
      mad.wide.u32 %to, %i, 32, %p0;
      {
        "".join(
            f"mov.u32 %a, %{name}; st.global.u32 [%to+{4 * n}], %a;"
            for n, name in enumerate(
                ["laneid", "warpid", "nwarpid", "lanemask_eq", "lanemask_lt", "lanemask_ge", "nctaid.x", "ctaid.x"]
            )
        )
    }
    """
    _, (found,) = launch(entry(text), 96 * 2 * 32, grid=2, block=96)
    rows = found.view(np.uint32).reshape(-1, 8)
    for i, row in enumerate(rows):
        lane = i % 96 % 32
        assert row.tolist() == [
            lane, i % 96 // 32, 3, 1 << lane, (1 << lane) - 1, 0xFFFFFFFF & ~((1 << lane) - 1), 2, i // 96
        ]  # fmt: skip


REVERSE = """
  .shared .align 4 .b8 cells[1024]; .reg .b32 %v, %s, %n; .reg .u64 %to;
  mov.u32 %s, cells; shl.b32 %n, %t2, 2; add.u32 %s, %s, %n; mad.lo.u32 %v, %i, 3, 1; st.shared.u32 [%s], %v;
  {barrier}
  mov.u32 %s, cells; sub.u32 %n, 508, %n; add.u32 %s, %s, %n; ld.shared.u32 %v, [%s];
  mad.wide.u32 %to, %i, 4, %p0; st.global.u32 [%to], %v;
"""


@pytest.mark.parametrize(
    "barrier", ["bar.sync 0;", "barrier.sync 3, 128;", "bar.sync 1, 128;", "barrier.cta.sync.aligned 2;"]
)
def test_barriers_order_shared_memory(barrier: str) -> None:
    _, (found,) = launch(entry(REVERSE.format(barrier=barrier)), 1536, grid=3, block=128)
    i = np.arange(384)
    assert found.view(np.uint32).tolist() == (((i // 128 * 128) + 127 - i % 128) * 3 + 1).tolist()


def test_arriving_without_waiting() -> None:
    """Warp 0 makes, warps 1 to 3 take: those who make do not wait."""
    body = """
      .shared .align 4 .b8 cells[128]; .reg .b32 %v, %s, %l; .reg .u64 %to; .reg .pred %p;
      mov.u32 %l, %laneid; mov.u32 %s, cells; shl.b32 %v, %l, 2; add.u32 %s, %s, %v; setp.ge.u32 %p, %t2, 32;
      @%p bra TAKE;
      st.shared.u32 [%s], %l; bar.arrive 1, 128; bra.uni DONE;
    TAKE:
      bar.sync 1, 128; ld.shared.u32 %v, [%s]; mad.wide.u32 %to, %i, 4, %p0; st.global.u32 [%to], %v;
    DONE:
    """
    _, (found,) = launch(entry(body), np.zeros(256, np.uint32), grid=2, block=128)
    wanted = [0 if i % 128 < 32 else i % 32 for i in range(256)]
    assert found.view(np.uint32).tolist() == wanted


def test_arrivals_that_nobody_waits_for() -> None:
    launch(entry("bar.arrive 1, 64;"), 4)


def test_reductions_of_a_barrier() -> None:
    body = """
      .reg .b32 %n, %v; .reg .pred %p, %all, %any; .reg .u64 %to; setp.lt.u32 %p, %t2, 40; setp.lt.u32 %any, %t2, 999;
      bar.red.popc.u32 %n, 0, %p; bar.red.and.pred %all, 0, %any; bar.red.or.pred %any, 0, !%any;
      selp.u32 %v, 1000, 0, %all; add.u32 %n, %n, %v; selp.u32 %v, 5000, 0, %any; add.u32 %n, %n, %v;
      mad.wide.u32 %to, %i, 4, %p0; st.global.u32 [%to], %n;
    """
    _, (found,) = launch(entry(body), 256 * 4, grid=2, block=128)
    assert set(found.view(np.uint32)) == {1040}


def test_a_barrier_of_another_number_does_not_count() -> None:
    body = """
      .reg .pred %p; setp.lt.u32 %p, %t2, 32; @%p bra A; bar.sync 1; bra B;
    A: bar.sync 0;
    B:
    """
    found = fault(entry(body), 4, block=64)
    assert found.code == "E-SIM-030"
    assert found.actual == "thread (32, 0, 0) waits at line 11: bar.sync 1"


def test_nobody_waits_for_lanes_that_have_ended() -> None:
    body = """
      .reg .pred %p; .reg .b32 %v; .reg .u64 %to; setp.ge.u32 %p, %t2, 16; mad.wide.u32 %to, %i, 4, %p0; @%p bra LATER;
      shfl.sync.bfly.b32 %v, %i, 1, 31, -1; st.global.u32 [%to], %v; bra DONE;
    LATER: add.u32 %i, %i, 1;
    DONE:
    """
    _, (found,) = launch(entry(body), np.zeros(32, np.uint32))
    assert found.view(np.uint32).tolist() == [*(i ^ 1 for i in range(16)), *[0] * 16]
