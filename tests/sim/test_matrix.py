"""Tensor-core products, matrix loads and stores, asynchronous copies."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.snippets import Array, entry, launch

RNG = np.random.default_rng(3)
FRAGMENTS = {
    ("m16n8k16", "bf16"): (16, 8, 16),
    ("m16n8k16", "f16"): (16, 8, 16),
    ("m16n8k8", "bf16"): (16, 8, 8),
    ("m16n8k8", "f16"): (16, 8, 8),
    ("m16n8k8", "tf32"): (16, 8, 8),
    ("m16n8k4", "tf32"): (16, 8, 4),
    ("m8n8k4", "f64"): (8, 8, 4),
    ("m16n8k8", "f64"): (16, 8, 8),
}


def a_places(kind: str, m: int, k: int) -> list[list[list[tuple[int, int]]]]:
    """For every lane, for every register of A, the (row, column) of its elements, as the PTX manual lists them."""
    per = 2 if kind in ("bf16", "f16") else 1
    found = []
    for lane in range(32):
        g, t = lane // 4, lane % 4
        registers = []
        for column in range(0, k, 4 * per):
            for row in range(0, m, 8):
                registers.append([(g + row, column + t * per + e) for e in range(per)])
        found.append(registers)
    return found


def b_places(kind: str, k: int) -> list[list[list[tuple[int, int]]]]:
    per = 2 if kind in ("bf16", "f16") else 1
    return [
        [[(row + lane % 4 * per + e, lane // 4) for e in range(per)] for row in range(0, k, 4 * per)]
        for lane in range(32)
    ]


def c_places(m: int) -> list[list[tuple[int, int]]]:
    return [[(g, 2 * t + e) if r == 0 else (g + 8, 2 * t + e) for r in range(m // 8) for e in range(2)]
            for g, t in ((lane // 4, lane % 4) for lane in range(32))]  # fmt: skip


def bits(kind: str, x: Array) -> Array:
    if kind == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return x.astype({"f16": np.float16, "tf32": np.float32, "f64": np.float64}[kind])


def packed(kind: str, x: Array, places: list[list[list[tuple[int, int]]]]) -> Array:
    data = bits(kind, x)
    rows = [[data[p] for register in lane for p in register] for lane in places]
    return np.array(rows, data.dtype)


@pytest.mark.parametrize(("shape", "kind"), FRAGMENTS)
def test_products(shape: str, kind: str) -> None:
    m, n, k = FRAGMENTS[shape, kind]
    a, b, c = (RNG.integers(-8, 8, s).astype(np.float64) for s in ((m, k), (k, n), (m, n)))
    left, right = packed(kind, a, a_places(kind, m, k)), packed(kind, b, b_places(kind, k))
    places = c_places(m)
    wide = "f64" if kind == "f64" else "f32"
    sums = np.array([[c[p] for p in lane] for lane in places], np.float64 if wide == "f64" else np.float32)
    size = 8 if kind == "f64" else 4
    counts = {"a": left.nbytes // 32 // size, "b": right.nbytes // 32 // size, "c": sums.shape[1]}
    lists = {x: ", ".join(f"%{x}{i}" for i in range(count)) for x, count in counts.items()}
    loads = ""
    for p, (x, count) in enumerate(counts.items()):
        loads += f".reg .b{size * 8} {lists[x]}; mad.wide.u32 %at, %i, {count * size}, %p{p};\n"
        loads += "".join(f"ld.global.b{size * 8} %{x}{i}, [%at+{i * size}];" for i in range(count)) + "\n"
    stores = "".join(f"st.global.b{size * 8} [%at+{i * size}], %c{i};" for i in range(counts["c"]))
    body = f"""
      .reg .u64 %at;
      {loads}
      mma.sync.aligned.{shape}.row.col.{wide}.{kind}.{kind}.{wide}
        {{{lists["c"]}}}, {{{lists["a"]}}}, {{{lists["b"]}}}, {{{lists["c"]}}};
      {stores}
    """
    _, (_, _, found) = launch(entry(body, 3), left, right, sums)
    wanted = a @ b + c
    assert found.view(sums.dtype).reshape(32, -1).tolist() == [[wanted[p] for p in lane] for lane in places]


def test_sums_in_float16() -> None:
    a, b, c = (RNG.integers(-4, 4, s).astype(np.float64) for s in ((16, 16), (16, 8), (16, 8)))
    left, right = packed("f16", a, a_places("f16", 16, 16)), packed("f16", b, b_places("f16", 16))
    sums = np.array([[c[p] for p in lane] for lane in c_places(16)], np.float16)
    body = """
      .reg .u64 %at; .reg .b32 %a0, %a1, %a2, %a3, %b0, %b1, %c0, %c1;
      mad.wide.u32 %at, %i, 16, %p0; ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%at];
      mad.wide.u32 %at, %i, 8, %p1; ld.global.v2.b32 {%b0, %b1}, [%at];
      mad.wide.u32 %at, %i, 8, %p2; ld.global.v2.b32 {%c0, %c1}, [%at];
      mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%c0, %c1}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1};
      st.global.v2.b32 [%at], {%c0, %c1};
    """
    _, (_, _, found) = launch(entry(body, 3), left, right, sums)
    wanted = a @ b + c
    assert found.view(np.float16).reshape(32, 4).tolist() == [[wanted[p] for p in lane] for lane in c_places(16)]


STAGE = """
  .shared .align 16 .b8 tile[1024]; .reg .u64 %at; .reg .b32 %s, %l, %r0, %r1, %r2, %r3; .reg .b16 %h;
  .reg .b32 %w0, %w1, %w2, %w3;
  mad.wide.u32 %at, %i, 16, %p0; ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%at];
  mov.u32 %s, tile; shl.b32 %l, %i, 4; add.u32 %s, %s, %l; st.shared.v4.b32 [%s], {%w0, %w1, %w2, %w3}; bar.sync 0;
"""


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrix_loads(count: int, trans: str) -> None:
    registers = ", ".join(f"%r{n}" for n in range(count))
    stores = "".join(f"st.global.b32 [%at+{4 * n}], %r{n};" for n in range(count))
    body = f"""{STAGE}
      ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%s];
      mad.wide.u32 %at, %i, {4 * count}, %p1; {stores}
    """
    halves = np.arange(256, dtype=np.uint16)
    _, (_, found) = launch(entry(body, 2), halves, 32 * 4 * count)
    matrices = halves.reshape(4, 8, 8)[:count]
    if trans:
        matrices = matrices.transpose(0, 2, 1)
    pairs = matrices.reshape(count, 32, 2)
    assert found.view(np.uint16).reshape(32, count, 2).tolist() == pairs.transpose(1, 0, 2).tolist()


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrix_stores(count: int, trans: str) -> None:
    registers = ", ".join(f"%w{n}" for n in range(count))
    body = f"""{STAGE.replace("st.shared.v4.b32 [%s], {%w0, %w1, %w2, %w3}; bar.sync 0;", "")}
      mov.u32 %r0, 0; st.shared.v4.b32 [%s], {{%r0, %r0, %r0, %r0}}; bar.warp.sync -1;
      stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%s], {{{registers}}}; bar.warp.sync -1;
      ld.shared.v4.b32 {{%w0, %w1, %w2, %w3}}, [%s]; mad.wide.u32 %at, %i, 16, %p1;
      st.global.v4.b32 [%at], {{%w0, %w1, %w2, %w3}};
    """
    halves = np.arange(256, dtype=np.uint16) + 1
    _, (_, found) = launch(entry(body, 2), halves, 512)
    given = halves.reshape(32, 4, 2).transpose(1, 0, 2).reshape(4, 8, 8)[:count]
    if trans:
        given = given.transpose(0, 2, 1)
    wanted = np.zeros((4, 8, 8), np.uint16)
    wanted[:count] = given
    assert found.view(np.uint16).reshape(4, 8, 8).tolist() == wanted.tolist()


COPY = """
  .shared .align 16 .b8 tile[2048]; .reg .u64 %at, %g; .reg .b32 %s, %l, %n, %w0, %w1, %w2, %w3;
  mad.wide.u32 %at, %i, 16, %p0; mov.u32 %s, tile; shl.b32 %l, %t2, 4; add.u32 %s, %s, %l;
"""
BACK = """
  ld.shared.v4.b32 {%w0, %w1, %w2, %w3}, [%s]; mad.wide.u32 %at, %i, 16, %p1;
  st.global.v4.b32 [%at], {%w0, %w1, %w2, %w3};
"""


@pytest.mark.parametrize("wait", ["cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"])
def test_copies(wait: str) -> None:
    body = f"{COPY} cp.async.cg.shared.global.L2::128B [%s], [%at], 16; {wait} {BACK}"
    source = np.arange(256, dtype=np.uint32)
    _, (_, found) = launch(entry(body, 2), source, source.nbytes, grid=2)
    assert found.view(np.uint32).tolist() == source.tolist()


def test_groups_of_copies_arrive_one_after_the_other() -> None:
    body = f"""{COPY}
      cp.async.ca.shared.global [%s], [%at], 8; cp.async.commit_group;
      cp.async.ca.shared.global [%s+8], [%at+8], 4; cp.async.ca.shared.global [%s+12], [%at+12], 4;
      cp.async.commit_group;
      cp.async.wait_group 1; ld.shared.v2.b32 {{%w0, %w1}}, [%s]; cp.async.wait_group 0;
      ld.shared.v2.b32 {{%w2, %w3}}, [%s+8]; mad.wide.u32 %at, %i, 16, %p1;
      st.global.v4.b32 [%at], {{%w0, %w1, %w2, %w3}};
    """
    source = np.arange(128, dtype=np.uint32)
    _, (_, found) = launch(entry(body, 2), source, source.nbytes)
    assert found.view(np.uint32).tolist() == source.tolist()


def test_zeros_behind_a_short_source() -> None:
    body = f"""{COPY} mul.lo.u32 %n, %i, 2; min.u32 %n, %n, 16; cp.async.cg.shared.global [%s], [%at], 16, %n;
      cp.async.wait_all; {BACK}"""
    source = np.arange(512).astype(np.uint8) | 1
    _, (_, found) = launch(entry(body, 2), source, 512)
    wanted = source.reshape(32, 16).copy()
    for i in range(32):
        wanted[i, min(2 * i, 16) :] = 0
    assert found.reshape(32, 16).tolist() == wanted.tolist()


def test_nothing_is_read_where_nothing_is_copied() -> None:
    body = f"""{COPY} .reg .pred %p; setp.lt.u32 %p, %i, 16; selp.u32 %n, 16, 0, %p;
      cp.async.cg.shared.global [%s], [%at], 16, %n; cp.async.wait_all; {BACK}"""
    source = np.arange(64, dtype=np.uint32)  # of 128 that the lanes name
    _, (_, found) = launch(entry(body, 2), source, 512)
    assert found.view(np.uint32).tolist() == [*range(64), *[0] * 64]
