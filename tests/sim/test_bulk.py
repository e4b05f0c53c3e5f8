"""mbarriers, bulk copies by tensor maps and of plain bytes."""

from __future__ import annotations

import numpy as np
import pytest

from sexpgpu.diag import SxError
from sexpgpu.sim import Checks, Machine
from sexpgpu.sim.tensormap import encode_tensor_map
from tests.sim.snippets import Array, entry, fault, launch

WAIT = """
WAIT{n}: mbarrier.try_wait.parity.shared.b64 %done, [{bar}], {parity}, 1000;
  @%done bra GO{n}; bra WAIT{n};
GO{n}:
"""
LOAD = """
  .shared .align 1024 .b8 tile[SIZE]; .shared .align 8 .b8 full[8];
  .reg .pred %lead, %done; .reg .b32 %s, %n, %v; .reg .u64 %st, %map, %to; .reg .b16 %h;
  setp.eq.u32 %lead, %t2, 0; @!%lead bra READY;
  mbarrier.init.shared.b64 [full], 1; fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0; @!%lead bra WAIT0;
  mbarrier.arrive.expect_tx.shared.b64 %st, [full], SIZE; mov.u64 %map, %p0;
  COPY
"""
BACK = """
  mov.u32 %n, %t2;
LOOP:
  setp.ge.u32 %done, %n, HALVES; @%done bra END;
  shl.b32 %v, %n, 1; mov.u32 %s, tile; add.u32 %s, %s, %v; ld.shared.u16 %h, [%s];
  mad.wide.u32 %to, %n, 2, %p1; st.global.u16 [%to], %h; add.u32 %n, %n, 32; bra LOOP;
END:
"""


def box_kernel(size: int, rank: int, corner: list[int]) -> str:
    copy = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        f"[tile], [%map, {{{', '.join(map(str, corner))}}}], [full];"
    )
    body = LOAD.replace("SIZE", str(size)).replace("COPY", copy) + WAIT.format(n=0, bar="full", parity=0) + BACK
    return entry(body.replace("HALVES", str(size // 2)), 2)


def run_box(
    tensor: Array, corner: list[int], box: list[int], swizzle: int = 0, race: int | None = None
) -> tuple[Array, int]:
    """The shared memory after a copy of a box, as 16-bit elements."""
    machine = Machine(Checks.every(race))
    size = int(np.prod(box)) * 2
    data, found = machine.allocate(tensor.nbytes, "tensor"), machine.allocate(size, "found")
    machine.write(data, tensor)
    shape = tensor.shape[::-1]
    strides = tensor.strides[-2::-1]
    encoded = machine.allocate(128, "map")
    machine.write(encoded, encode_tensor_map(data, 2, shape, strides, box, swizzle))
    kernel = machine.load(box_kernel(size, len(box), corner)).kernel("k")
    report = machine.launch(kernel, (1, 1, 1), (32, 1, 1), [encoded, found])
    return machine.read(found, size).view(np.uint16).copy(), report.read


@pytest.mark.parametrize("race", [None, 1])
@pytest.mark.parametrize(
    ("shape", "corner", "box"),
    [
        ((40, 64), [8, 3], [32, 16]),
        ((40, 64), [-8, -2], [32, 16]),
        ((40, 64), [48, 36], [32, 16]),
        ((6, 10, 16), [8, 4, 1], [8, 3, 4]),
        ((3, 4, 5, 8), [0, 1, 2, 1], [8, 2, 3, 2]),
        ((100,), [90], [16]),
    ],
)
def test_boxes_with_zeros_outside(shape: tuple[int, ...], corner: list[int], box: list[int], race: int | None) -> None:
    if len(shape) == 1:
        tensor = np.arange(1, shape[0] + 1, dtype=np.uint16)
    else:
        tensor = np.arange(1, np.prod(shape) + 1, dtype=np.uint16).reshape(shape)
    found, read = run_box(tensor, corner, box, race=race)
    wanted = np.zeros(box[::-1], np.uint16)
    for at in np.ndindex(*box[::-1]):
        place = tuple(a + c for a, c in zip(at, corner[::-1], strict=True))
        if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
            wanted[at] = tensor[place]
    assert found.tolist() == wanted.reshape(-1).tolist()
    assert read == 2 * np.count_nonzero(wanted)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_swizzles(swizzle: int) -> None:
    """Chunk c of row r of 128 bytes changes place with chunk c xor r, as far as the swizzle is wide."""
    columns = swizzle // 2
    tensor = np.arange(32 * columns, dtype=np.uint16).reshape(32, columns)
    found, _ = run_box(tensor, [0, 0], [columns, 32], swizzle)
    chunks, wanted = found.reshape(-1, 8), tensor.reshape(-1, 8)
    for i, chunk in enumerate(wanted):
        line, place = i // 8, i % 8
        moved = place ^ (line % 8 & (swizzle // 16 - 1))
        assert chunks[line * 8 + moved].tolist() == chunk.tolist()


def test_a_box_is_stored() -> None:
    body = """
      .shared .align 128 .b8 tile[512]; .reg .b32 %s, %v; .reg .pred %lead; mov.u32 %s, tile; shl.b32 %v, %t2, 4;
      add.u32 %s, %s, %v; st.shared.v4.b32 [%s], {%i, %i, %i, %i}; fence.proxy.async.shared::cta; bar.sync 0;
      setp.eq.u32 %lead, %t2, 0; @!%lead bra END;
      cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%p0, {8, 2}], [tile];
      cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
    END:
    """
    machine = Machine(Checks.every())
    tensor = np.zeros((12, 32), np.uint16)
    data, encoded = machine.allocate(tensor.nbytes, "tensor"), machine.allocate(128, "map")
    machine.write(data, tensor)
    machine.write(encoded, encode_tensor_map(data, 2, (32, 12), (64,), (16, 16)))
    machine.launch(machine.load(entry(body)).kernel("k"), (1, 1, 1), (32, 1, 1), [encoded])
    found = machine.read(data, tensor.nbytes).view(np.uint16).reshape(12, 32)
    lanes = np.repeat(np.arange(32, dtype=np.uint32), 4).view(np.uint16).reshape(16, 16)
    wanted = tensor.copy()
    wanted[2:12, 8:24] = lanes[:10]
    assert found.tolist() == wanted.tolist()


PIPE = """
  .shared .align 16 .b8 ring[128]; .shared .align 8 .b8 full[16]; .shared .align 8 .b8 empty[16];
  .reg .pred %lead, %done, %maker; .reg .b32 %k, %slot, %phase, %s, %v, %f, %e, %x; .reg .u64 %from, %to, %st;
  setp.eq.u32 %lead, %t2, 0; @!%lead bra READY;
  mbarrier.init.shared.b64 [full], 1; mbarrier.init.shared.b64 [full+8], 1;
  mbarrier.init.shared.b64 [empty], 32; mbarrier.init.shared.b64 [empty+8], 32;
READY:
  bar.sync 0; mov.u32 %k, 0; setp.lt.u32 %maker, %t2, 32; @%maker bra TAKE;
  setp.ne.u32 %done, %t2, 32; @%done bra END;
MAKE:
  and.b32 %slot, %k, 1; shr.u32 %phase, %k, 1; and.b32 %phase, %phase, 1; xor.b32 %phase, %phase, 1;
  mov.u32 %e, empty; mad.lo.u32 %e, %slot, 8, %e; mov.u32 %f, full; mad.lo.u32 %f, %slot, 8, %f;
WAITE: mbarrier.try_wait.parity.shared.b64 %done, [%e], %phase; @%done bra GOE; bra WAITE;
GOE:
  mov.u32 %s, ring; mad.lo.u32 %s, %slot, 64, %s; mad.wide.u32 %from, %k, 64, %p0;
  mbarrier.arrive.expect_tx.shared.b64 _, [%f], 64;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%from], 64, [%f];
  add.u32 %k, %k, 1; setp.lt.u32 %done, %k, 8; @%done bra MAKE; bra END;
TAKE:
  and.b32 %slot, %k, 1; shr.u32 %phase, %k, 1; and.b32 %phase, %phase, 1;
  mov.u32 %e, empty; mad.lo.u32 %e, %slot, 8, %e; mov.u32 %f, full; mad.lo.u32 %f, %slot, 8, %f;
WAITF: mbarrier.try_wait.parity.shared.b64 %done, [%f], %phase; @%done bra GOF; bra WAITF;
GOF:
  mov.u32 %s, ring; mad.lo.u32 %s, %slot, 64, %s; and.b32 %x, %t2, 15; mad.lo.u32 %s, %x, 4, %s; ld.shared.u32 %v, [%s];
  mad.lo.u32 %x, %k, 32, %t2; mad.wide.u32 %to, %x, 4, %p1; st.global.u32 [%to], %v;
  RELEASE
  add.u32 %k, %k, 1; setp.lt.u32 %done, %k, 8; @%done bra TAKE;
END:
"""
RELEASE = "mbarrier.arrive.shared.b64 %st, [%e];"


@pytest.mark.parametrize("race", [None, 0, 1, 2])
def test_a_warp_that_makes_and_one_that_takes(race: int | None) -> None:
    source = np.arange(128, dtype=np.uint32)
    text = entry(PIPE.replace("RELEASE", RELEASE), 2)
    _, (_, found) = launch(text, source, 1024, block=64, checks=Checks.every(race))
    assert found.view(np.uint32).reshape(8, 2, 16).tolist() == [[r, r] for r in source.reshape(8, 16).tolist()]


def test_faults_of_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    from sexpgpu.sim import mbarrier

    monkeypatch.setattr(mbarrier, "FRUITLESS", 500)
    source = np.arange(128, dtype=np.uint32)

    def told(text: str) -> str:
        return fault(entry(text, 2), source, 1024, block=64).code

    good = PIPE.replace("RELEASE", RELEASE)
    assert told(PIPE.replace("RELEASE", "")) == "E-SIM-034"
    assert told(good.replace(", 64;\n  cp.async", ", 128;\n  cp.async")) == "E-SIM-034"
    assert told(good.replace("[%e];", "[%e], 2;")) == "E-SIM-033"
    assert told(good.replace("[empty], 32", "[empty], 0")) == "E-SIM-033"
    assert told(good.replace("bar.sync 0;", "")) == "E-SIM-024"
    unread = good.replace("mbarrier.try_wait.parity.shared.b64 %done, [%f], %phase; @%done bra GOF; bra WAITF;", "")
    assert told(unread) in ("E-SIM-023", "E-SIM-025")
    early = good.replace("mbarrier.try_wait.parity.shared.b64 %done, [%e], %phase; @%done bra GOE; bra WAITE;", "")
    assert told(early) in ("E-SIM-024", "E-SIM-025", "E-SIM-033")


def test_states_of_arrivals() -> None:
    body = """
      .shared .align 8 .b8 bar[8]; .reg .pred %lead, %p; .reg .u64 %st, %to; .reg .b32 %v;
      setp.eq.u32 %lead, %t2, 0; @%lead mbarrier.init.shared.b64 [bar], 64; bar.sync 0;
      mbarrier.arrive.shared::cta.b64 %st, [bar];
    W: mbarrier.test_wait.shared::cta.b64 %p, [bar], %st; @!%p bra W;
      mbarrier.test_wait.parity.shared::cta.b64 %p, [bar], 1; selp.u32 %v, 1, 0, %p;
      mad.wide.u32 %to, %i, 4, %p0; st.global.u32 [%to], %v;
    """
    for race in (None, 3):
        _, (found,) = launch(entry(body), 256, block=64, checks=Checks.every(race))
        assert not found.any()  # phase 1 is the one that runs


def test_there_is_no_tensor_map() -> None:
    found = fault(box_kernel(512, 2, [0, 0]), np.zeros(32, np.uint32), 512)
    assert found.code == "E-SIM-035"


def test_maps_that_are_not_possible() -> None:
    wrong: list[tuple[object, ...]] = [
        (0, 2, (8, 8), (16,), (8,)),
        (0, 3, (8, 8), (16,), (8, 8)),
        (8, 2, (8, 8), (16,), (8, 8)),
        (0, 2, (8, 8), (24,), (8, 8)),
        (0, 2, (8, 8), (16,), (4, 8)),
        (0, 2, (8, 8), (16,), (8, 257)),
        (0, 2, (128, 8), (256,), (128, 8), 128),
        (0, 2, (8, 8), (16,), (8, 8), 48),
    ]
    for arguments in wrong:
        with pytest.raises(SxError) as found:
            encode_tensor_map(*arguments)  # type: ignore[arg-type]
        assert found.value.diagnostic.code == "E-SIM-005"
