"""Loads and stores of every width and space, generic addresses, atomic updates, modules' variables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sexpgpu.sim import Checks
from tests.sim.snippets import HEAD, Array, entry, launch


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("vector", [1, 2, 4])
def test_vectors(size: int, vector: int) -> None:
    kind = "b64" if size == 8 else "b32" if size == 4 else "b16"
    names = [f"%v{n}" for n in range(vector)]
    listed = names[0] if vector == 1 else "{" + ", ".join(names) + "}"
    turned = names[0] if vector == 1 else "{" + ", ".join(reversed(names)) + "}"
    form = f".v{vector}" if vector > 1 else ""
    body = f"""
      .reg .{kind} {", ".join(names)}; .reg .u64 %from, %to;
      mad.wide.u32 %from, %i, {size * vector}, %p0; mad.wide.u32 %to, %i, {size * vector}, %p1;
      ld.global.nc{form}.b{size * 8} {listed}, [%from]; st.global{form}.b{size * 8} [%to], {turned};
    """
    source = np.random.default_rng(0).integers(0, 256, 64 * size * vector).astype(np.uint8)
    _, (_, found) = launch(entry(body, 2), source, source.nbytes, grid=2)
    elements = source.view(f"u{size}").reshape(-1, vector)
    assert found.view(f"u{size}").reshape(-1, vector).tolist() == elements[:, ::-1].tolist()


def test_eight_words() -> None:
    names = ", ".join(f"%v{n}" for n in range(8))
    body = f"""
      .reg .b32 {names}; .reg .u64 %from, %to; mad.wide.u32 %from, %i, 32, %p0; mad.wide.u32 %to, %i, 32, %p1;
      ld.global.v8.b32 {{{names}}}, [%from]; st.global.v8.b32 [%to], {{{names}}};
    """
    source = np.arange(256, dtype=np.uint32)
    _, (_, found) = launch(entry(body, 2), source, source.nbytes)
    assert found.view(np.uint32).tolist() == source.tolist()


def test_narrow_values_are_extended() -> None:
    body = """
      .reg .u64 %from, %to; .reg .b32 %a, %b; .reg .b16 %c; .reg .b64 %d;
      add.u64 %from, %p0, 0; mad.wide.u32 %to, %i, 16, %p1;
      ld.global.u8 %a, [%from]; ld.global.s8 %b, [%from]; ld.global.s8 %c, [%from]; ld.global.s16 %d, [%from];
      cvt.u64.u16 %from, %c; st.global.v2.b32 [%to], {%a, %b}; st.global.b64 [%to+8], %d;
    """
    _, (_, found) = launch(entry(body, 2), np.array([0xF0, 0xFF], np.uint8), 512)
    assert found[:16].tolist() == [0xF0, 0, 0, 0, 0xF0, 0xFF, 0xFF, 0xFF, 0xF0, *[0xFF] * 7]


SPACES = """
  .reg .b32 %v, %w, %s, %base; .reg .u64 %to, %g, %h, %l; .reg .pred %x, %y;
  .shared .align 4 .b8 pad[4]; .shared .align 4 .b8 cells[128]; .local .align 8 .b8 frame[16];
  mad.wide.u32 %to, %i, 4, %p0; mul.lo.u32 %v, %i, 7;
"""


def test_shared_and_local_memory_by_generic_addresses() -> None:
    body = f"""{SPACES}
      mov.u32 %base, cells; shl.b32 %s, %i, 2; add.u32 %s, %s, %base; st.shared.u32 [%s], %v;
      mov.u64 %g, cells; cvta.shared.u64 %g, %g; mad.wide.u32 %g, %i, 4, %g; ld.u32 %w, [%g]; add.u32 %w, %w, 1;
      mov.u64 %l, frame; st.local.u32 [frame+4], %w; cvta.local.u64 %l, %l; ld.u32 %w, [%l+4];
      isspacep.shared %x, %g; isspacep.local %y, %l; selp.u32 %v, 100, 0, %x; selp.u32 %s, 1000, 0, %y;
      add.u32 %w, %w, %v; add.u32 %w, %w, %s; cvta.to.shared.u64 %h, %g; cvt.u32.u64 %v, %h; add.u32 %w, %w, %v;
      st.u32 [%to], %w;
    """
    _, (found,) = launch(entry(body), 128)
    assert found.view(np.uint32).tolist() == (np.arange(32) * 7 + 1 + 1100 + 4 + np.arange(32) * 4).tolist()


def test_one_instruction_on_several_spaces() -> None:
    body = f"""{SPACES}
      shl.b32 %s, %i, 2; mov.u32 %base, cells; add.u32 %s, %s, %base; st.shared.u32 [%s], %v;
      mov.u64 %g, cells; cvta.shared.u64 %g, %g; mad.wide.u32 %g, %i, 4, %g; mad.wide.u32 %h, %i, 4, %p1;
      and.b32 %s, %i, 1; setp.eq.u32 %x, %s, 1; selp.u64 %g, %g, %h, %x; ld.u32 %w, [%g]; st.u32 [%to], %w;
    """
    source = np.arange(32, dtype=np.uint32) + 1000
    _, (found, _) = launch(entry(body, 2), 128, source)
    i = np.arange(32)
    assert found.view(np.uint32).tolist() == np.where(i % 2 == 1, i * 7, i + 1000).tolist()


def test_variables_of_a_module() -> None:
    before = """
      .global .align 4 .u32 table[4] = {10, 0x20, 30};
      .const .align 8 .f64 half[2] = {0.5, 0d4000000000000000};
      .global .align 4 .b8 counter[4];
    """
    body = """
      .reg .b32 %v; .reg .u64 %to, %g; .reg .f64 %f; mad.wide.u32 %to, %i, 16, %p0;
      mov.u64 %g, table; and.b32 %v, %i, 3; mad.wide.u32 %g, %v, 4, %g; ld.global.u32 %v, [%g]; st.global.u32 [%to], %v;
      ld.const.f64 %f, [half+8]; st.global.f64 [%to+8], %f; ld.global.u32 %v, [counter]; st.global.u32 [%to+4], %v;
    """
    _, (found,) = launch(entry(body, before=before), 512)
    rows = found.reshape(-1, 16)
    assert rows[:, :4].copy().view(np.uint32).reshape(-1).tolist() == [10, 32, 30, 0] * 8
    assert set(rows[:, 8:].copy().view(np.float64).reshape(-1)) == {2.0}
    assert not rows[:, 4:8].any()


UPDATES: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, new: (old + new) & 0xFFFFFFFF,
    "min": min,
    "max": max,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "exch": lambda old, new: new,
    "inc": lambda old, new: 0 if old >= new else old + 1,
    "dec": lambda old, new: new if old == 0 or old > new else old - 1,
}


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomic_updates(name: str, space: str) -> None:
    kind = "b32" if name in ("and", "or", "xor", "exch") else "u32"
    place = "[%p0]" if space == "global" else "[cell]"
    first = "" if space == "global" else "@%z ld.global.u32 %v, [%p0]; @%z st.shared.u32 [cell], %v; bar.sync 0;"
    last = "" if space == "global" else "bar.sync 0; ld.shared.u32 %v, [cell]; @%z st.global.u32 [%p0], %v;"
    body = f"""
      .shared .align 4 .b8 cell[4]; .reg .b32 %v, %old; .reg .u64 %to; .reg .pred %z; setp.eq.u32 %z, %i, 0;
      {first} mul.lo.u32 %v, %i, 37; xor.b32 %v, %v, 21; atom.{space}.{name}.{kind} %old, {place}, %v; {last}
      mad.wide.u32 %to, %i, 4, %p1; st.global.u32 [%to], %old;
    """
    _, (cell, olds) = launch(entry(body, 2), np.array([50], np.uint32), 256, block=64)
    value, seen = 50, []
    for i in range(64):
        seen.append(value)
        value = UPDATES[name](value, i * 37 ^ 21)
    assert cell.view(np.uint32)[0] == value
    assert olds.view(np.uint32).tolist() == seen


def test_compare_and_swap_and_float_sums() -> None:
    body = """
      .reg .b32 %v, %old; .reg .f32 %f; .reg .u64 %to; .reg .f64 %d;
      atom.global.cas.b32 %old, [%p0], %i, 77; mad.wide.u32 %to, %i, 4, %p1; st.global.u32 [%to], %old;
      cvt.rn.f32.u32 %f, %i; red.global.add.f32 [%p0+4], %f; cvt.f64.f32 %d, %f;
      red.relaxed.gpu.global.add.f64 [%p0+8], %d;
    """
    start = np.zeros(4, np.uint32)
    report, (cell, olds) = launch(entry(body, 2), start, 128)
    assert cell.view(np.uint32)[0] == 77
    assert olds.view(np.uint32).tolist() == [0, *[77] * 31]
    assert cell[4:8].view(np.float32)[0] == 496
    assert cell[8:].view(np.float64)[0] == 496
    assert report.atomics == 96


def test_order_of_atomic_updates_is_random_where_warps_are() -> None:
    body = """
      .reg .b32 %old; .reg .u64 %to; atom.global.add.u32 %old, [%p0], 1;
      mad.wide.u32 %to, %i, 4, %p1; st.global.u32 [%to], %old;
    """
    seen = set()
    for seed in range(3):
        _, (_, olds) = launch(entry(body, 2), np.zeros(1, np.uint32), 512, block=128, checks=Checks.every(race=seed))
        assert sorted(olds.view(np.uint32)) == list(range(128))
        seen.add(tuple(olds.view(np.uint32)))
    assert len(seen) == 3


def test_parameters() -> None:
    text = f"""{HEAD}
    .visible .entry k(.param .u64 .ptr .global .align 16 out, .param .align 8 .b8 box[12],
      .param .u16 small, .param .f32 real)
    {{
      .reg .u64 %p; .reg .b32 %a, %b, %c; .reg .b16 %h; .reg .f32 %f;
      ld.param.u64 %p, [out]; ld.param.v2.b32 {{%a, %b}}, [box]; ld.param.u32 %c, [box+8]; ld.param.u16 %h, [small];
      ld.param.f32 %f, [real]; st.global.v4.b32 [%p], {{%a, %b, %c, %f}}; st.global.u16 [%p+16], %h; ret;
    }}"""
    from sexpgpu.sim import Machine

    machine = Machine()
    at = machine.allocate(32, "out")
    kernel = machine.load(text).kernel("k")
    machine.launch(kernel, (1, 1, 1), (1, 1, 1), [at, np.array([1, 2, 3], np.uint32).tobytes(), -2, 0.5])
    found: Array = machine.read(at, 18)
    assert found[:12].view(np.uint32).tolist() == [1, 2, 3]
    assert found[12:16].view(np.float32)[0] == 0.5
    assert found[16:18].view(np.int16)[0] == -2
