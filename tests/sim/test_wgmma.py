"""Products of warpgroups: every layout of a matrix in shared memory, the places of results, unfinished reads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.sim.snippets import Array, entry, fault, launch

RNG = np.random.default_rng(4)
Place = Callable[[int, int], int]


def xored(byte: int, swizzle: int) -> int:
    return byte ^ (byte >> 7 & swizzle // 16 - 1) << 4 if swizzle else byte


def row_major(swizzle: int) -> tuple[Place, int, int]:
    """Depth contiguous, in rows of one swizzle width, groups of eight one after the other: place, leading, stride."""
    return (lambda r, k: xored(r // 8 * 8 * swizzle + r % 8 * swizzle + 2 * k, swizzle)), 16, 8 * swizzle


def cores(leading: int, stride: int) -> tuple[Place, int, int]:
    """No swizzle: 8 rows of 16 bytes together, `leading` apart along the depth, `stride` down the rows."""
    return (lambda r, k: r // 8 * stride + k // 8 * leading + r % 8 * 16 + k % 8 * 2), leading, stride


def column_major(swizzle: int, rows: int) -> tuple[Place, int, int]:
    """Rows contiguous, a swizzle width of them for each of eight steps of the depth."""
    wide = swizzle // 2
    stride = 8 * swizzle
    leading = 2 * stride
    place: Place = lambda r, k: xored(  # noqa: E731
        r // wide * leading + k // 8 * stride + k % 8 * swizzle + r % wide * 2, swizzle
    )
    return place, leading, stride


LAYOUTS: dict[str, tuple[Callable[[int], tuple[Place, int, int]], int, bool]] = {
    "rows of 128": (lambda n: row_major(128), 128, False),
    "rows of 64": (lambda n: row_major(64), 64, False),
    "rows of 32": (lambda n: row_major(32), 32, False),
    "cores": (lambda n: cores(128, 256), 0, False),
    "cores apart": (lambda n: cores(1024, 128), 0, False),
    "columns of 128": (lambda n: column_major(128, n), 128, True),
    "columns of 64": (lambda n: column_major(64, n), 64, True),
    "columns of 32": (lambda n: column_major(32, n), 32, True),
}
SWIZZLE_BITS = {0: 0, 128: 1, 64: 2, 32: 3}
SIZE = 16384
BASE_B = 8192


def descriptor(start: int, leading: int, stride: int, swizzle: int) -> int:
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | SWIZZLE_BITS[swizzle] << 62


def bf16(x: Array) -> Array:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def memory(a: Array, b: Array, left: Place, right: Place) -> Array:
    found = np.zeros(SIZE // 2, np.uint16)
    for matrix, place, base in ((bf16(a), left, 0), (bf16(b), right, BASE_B)):
        for (r, k), value in np.ndenumerate(matrix):
            found[(base + place(r, k)) // 2] = value
    return found


KERNEL = """
  .shared .align 1024 .b8 tile[16384]; .reg .b32 %s, %v, %n; .reg .u64 %from, %to, %da, %db; .reg .pred %p, %first;
  .reg .f32 %c<128>; .reg .b32 %a<4>;
  mov.u32 %n, %t2;
FILL:
  mov.u32 %s, tile; mad.lo.u32 %s, %n, 4, %s; mad.wide.u32 %from, %n, 4, %p0; ld.global.u32 %v, [%from];
  st.shared.u32 [%s], %v; add.u32 %n, %n, 128; setp.lt.u32 %p, %n, 4096; @%p bra FILL;
  fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 %first, %i, 99999; EXTRA
  mov.u64 %da, DA; mov.u64 %db, DB; ZERO
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64nNk16.f32.bf16.bf16 {LIST}, LEFT, %db, SCALE, 1, 1TRANS;
  wgmma.commit_group.sync.aligned; BEFORE wgmma.wait_group.sync.aligned 0;
  mad.wide.u32 %to, %t2, STEP, %p1; STORE
"""


def kernel(n: int, da: int, db: int, trans: str, left: str = "%da", scale: str = "%first", **more: str) -> str:
    registers = [f"%c{i}" for i in range(n // 2)]
    values = {
        "LIST": ", ".join(registers),
        "ZERO": "".join(f"mov.f32 {r}, 0f3F800000; " for r in registers),
        "STORE": "".join(f"st.global.f32 [%to+{4 * i}], {r}; " for i, r in enumerate(registers)),
        "STEP": str(2 * n),
        "TRANS": trans,
        "SCALE": scale,
        "LEFT": left,
        "EXTRA": more.get("extra", ""),
        "BEFORE": more.get("before", ""),
        "nNk": f"n{n}k",
        "DA": str(da),
        "DB": str(db),
    }
    text = KERNEL
    for name, value in values.items():
        text = text.replace(name, value)
    return entry(text, 2)


def unpacked(found: Array, n: int) -> Array:
    """Results [64, n] from where the lanes have them."""
    out = np.zeros((64, n), np.float32)
    values = found.view(np.float32).reshape(128, n // 2)
    for thread in range(128):
        warp, g, t = thread // 32, thread % 32 // 4, thread % 4
        for i in range(n // 2):
            out[16 * warp + g + 8 * (i // 2 % 2), i // 4 * 8 + 2 * t + i % 2] = values[thread, i]
    return out


def fits(right: str, n: int) -> bool:
    """Whether `n` columns fill what the swizzle is wide."""
    return n * 2 >= LAYOUTS[right][1] or not LAYOUTS[right][2]


@pytest.mark.parametrize(("right", "n"), [(right, n) for right in LAYOUTS for n in (8, 64) if fits(right, n)])
@pytest.mark.parametrize("left", ["rows of 128", "cores", "columns of 128"])
def test_layouts(left: str, right: str, n: int) -> None:
    a, b = RNG.integers(-8, 8, (64, 16)), RNG.integers(-8, 8, (n, 16))
    (place_a, lead_a, step_a), (place_b, lead_b, step_b) = LAYOUTS[left][0](64), LAYOUTS[right][0](n)
    da = descriptor(0, lead_a, step_a, LAYOUTS[left][1])
    db = descriptor(BASE_B, lead_b, step_b, LAYOUTS[right][1])
    trans = f", {int(LAYOUTS[left][2])}, {int(LAYOUTS[right][2])}"
    _, (_, found) = launch(kernel(n, da, db, trans), memory(a, b, place_a, place_b), 256 * n, block=128)
    assert unpacked(found, n).tolist() == (a @ b.T).tolist()


DA = descriptor(0, 16, 1024, 128)
DB = descriptor(BASE_B, 16, 1024, 128)
ROWS = row_major(128)[0]


@pytest.mark.parametrize("race", [None, 2])
def test_sums_go_on_and_signs(race: int | None) -> None:
    from sexpgpu.sim import Checks

    a, b = RNG.integers(-8, 8, (64, 16)), RNG.integers(-8, 8, (16, 16))
    data = memory(a, b, ROWS, ROWS)
    text = kernel(16, DA, DB, ", 0, 0", scale="1").replace("1, 1, 1, 0, 0", "1, -1, 1, 0, 0")
    _, (_, found) = launch(text, data, 4096, block=128, checks=Checks.every(race))
    assert unpacked(found, 16).tolist() == (1 - a @ b.T).tolist()


def test_the_left_factor_in_registers() -> None:
    a, b = RNG.integers(-8, 8, (64, 16)), RNG.integers(-8, 8, (16, 16))
    data = memory(np.zeros((64, 16)), b, ROWS, ROWS)
    lanes = np.zeros((128, 4, 2), np.uint16)
    bits = bf16(a)
    for thread in range(128):
        warp, g, t = thread // 32, thread % 32 // 4, thread % 4
        for i in range(4):
            lanes[thread, i] = bits[16 * warp + g + 8 * (i % 2), 2 * t + 8 * (i // 2) :][:2]
    data[: lanes.size] = lanes.reshape(-1)
    extra = "mad.wide.u32 %from, %t2, 16, %p0; ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%from];"
    text = kernel(16, DA, DB, ", 0", left="{%a0, %a1, %a2, %a3}", extra=extra)
    _, (_, found) = launch(text, data, 4096, block=128)
    assert unpacked(found, 16).tolist() == (a @ b.T).tolist()


def test_what_an_unfinished_product_reads_is_not_written() -> None:
    data = memory(np.ones((64, 16)), np.ones((16, 16)), ROWS, ROWS)
    before = "bar.sync 0; st.shared.u32 [tile], %i; bar.sync 0;"
    found = fault(kernel(16, DA, DB, ", 0, 0", before=before), data, 4096, block=128)
    assert found.code == "E-SIM-024"
    after = kernel(16, DA, DB, ", 0, 0").replace(
        "mad.wide.u32 %to, %t2", "bar.sync 0; @%first st.shared.u32 [tile], %i; mad.wide.u32 %to, %t2"
    )
    launch(after, data, 4096, block=128)


def test_a_matrix_outside_of_shared_memory() -> None:
    data = memory(np.ones((64, 16)), np.ones((16, 16)), ROWS, ROWS)
    found = fault(kernel(16, DA, descriptor(15360, 16, 1024, 128), ", 0, 0"), data, 4096, block=128)
    assert found.code == "E-SIM-021"


@pytest.mark.parametrize("kind", ["tf32", "f16"])
def test_other_types(kind: str) -> None:
    size, depth = (4, 8) if kind == "tf32" else (2, 16)
    a, b = RNG.integers(-8, 8, (64, depth)), RNG.integers(-8, 8, (16, depth))
    data = np.zeros(SIZE, np.uint8)
    for matrix, base in ((a, 0), (b, BASE_B)):
        elements = matrix.astype(np.float32 if kind == "tf32" else np.float16)
        for (r, k), value in np.ndenumerate(elements):
            at = base + xored(r // 8 * 256 + r % 8 * 32 + size * k, 32)
            data[at : at + size] = np.frombuffer(value.tobytes(), np.uint8)
    trans = "" if kind == "tf32" else ", 0, 0"
    text = kernel(16, descriptor(0, 16, 256, 32), descriptor(BASE_B, 16, 256, 32), trans)
    text = text.replace("k16.f32.bf16.bf16", f"k{depth}.f32.{kind}.{kind}")
    _, (_, found) = launch(text, data, 4096, block=128)
    assert unpacked(found, 16).tolist() == (a @ b.T).tolist()
