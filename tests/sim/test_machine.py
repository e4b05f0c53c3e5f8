"""The device for its host: memory, modules, arguments, reports."""

from __future__ import annotations

import json
import mmap

import numpy as np
import pytest

from sexpgpu.diag import SxError
from sexpgpu.sim import Checks, Machine, Report, machine, memory, to_json, to_text
from tests.sim.snippets import HEAD, entry, launch


def code_of(call: object, *arguments: object) -> str:
    assert callable(call)
    with pytest.raises(SxError) as found:
        call(*arguments)
    return found.value.diagnostic.code


def test_memory_is_aligned_and_kept_apart() -> None:
    device = Machine()
    a, b = device.allocate(10, "a"), device.allocate(1, "b")
    assert a % 256 == b % 256 == 0
    assert b >= a + 256 + 10
    device.write(a, np.arange(10, dtype=np.uint8))
    device.write(a + 2, b"\xff\xfe")
    device.fill(a + 8, 7, 2)
    assert device.read(a, 10).tolist() == [0, 1, 255, 254, 4, 5, 6, 7, 7, 7]
    seen = device.read(a, 4)
    device.fill(a, 9, 1)
    assert seen[0] == 9  # a view


def test_what_is_not_the_devices() -> None:
    device = Machine()
    a = device.allocate(10, "a")
    assert code_of(device.read, a, 11) == "E-SIM-003"
    assert code_of(device.write, a + 9, b"ab") == "E-SIM-003"
    assert code_of(device.free, a + 1) == "E-SIM-003"
    device.free(a)
    assert code_of(device.read, a, 1) == "E-SIM-003"


def test_freed_memory_is_told_by_its_name() -> None:
    device = Machine()
    a = device.allocate(64, "gone")
    device.free(a)
    kernel = device.load(entry("ld.global.u32 %i, [%p0];")).kernel("k")
    with pytest.raises(SxError) as found:
        device.launch(kernel, (1, 1, 1), (32, 1, 1), [a])
    assert found.value.diagnostic.actual == "byte 0 of gone, which was freed"


def test_memory_is_found_again_once_the_range_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "RESERVED", (1 << 20,))
    device = Machine()
    blocks = [device.allocate(200_000, f"m{n}") for n in range(5)]
    assert code_of(device.allocate, 200_000) == "E-MEM-002"
    device.free(blocks[2])
    assert device.allocate(150_000, "again") == blocks[2]


def test_a_system_that_gives_no_range(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert code_of(Machine) == "E-SIM-002"


def test_a_module_is_read_once() -> None:
    machine._parsed.cache_clear()
    text = entry("")
    first, second = Machine().load(text.encode() + b"\0"), Machine().load(text)
    assert first.source is second.source
    assert machine._parsed.cache_info().misses == 1
    assert first.entries == ("k",)


def test_no_such_kernel() -> None:
    with pytest.raises(SxError) as found:
        Machine().load(entry("", name="softmax")).kernel("sofmax")
    assert found.value.diagnostic.code == "E-SIM-004"
    assert found.value.diagnostic.help == "did you mean softmax?"


@pytest.mark.parametrize(
    ("grid", "block", "arguments", "shared"),
    [
        ((1, 1, 1), (32, 1, 1), [], 0),
        ((1, 1, 1), (32, 1, 1), [1, 2], 0),
        ((1, 1, 1), (32, 1, 1), [1 << 64], 0),
        ((1, 1, 1), (32, 1, 1), [b"abc"], 0),
        ((0, 1, 1), (32, 1, 1), [0], 0),
        ((1, 1, 1), (32, 33, 1), [0], 0),
        ((1, 1, 1), (96, 1, 1), [0], 0),
        ((1, 65536, 1), (32, 1, 1), [0], 0),
        ((1, 1, 1), (32, 1, 1), [0], 1 << 20),
    ],
)
def test_launches_that_are_not_possible(
    grid: tuple[int, int, int], block: tuple[int, int, int], arguments: list[int], shared: int
) -> None:
    device = Machine()
    kernel = device.load(entry("").replace("(.param .u64 k_0)", "(.param .u64 k_0) .maxntid 64")).kernel("k")
    assert code_of(device.launch, kernel, grid, block, arguments, shared) == "E-SIM-005"


def test_dynamic_shared_memory() -> None:
    body = """
      .reg .b32 %s, %v; .reg .u64 %to; mov.u32 %s, dyn; mad.lo.u32 %s, %t2, 4, %s; st.shared.u32 [%s], %i;
      mov.u32 %v, %dynamic_smem_size; mad.wide.u32 %to, %i, 4, %p0; st.global.u32 [%to], %v; ld.shared.u32 %v, [%s];
    """
    before = ".extern .shared .align 1024 .b8 dyn[];\n.shared .align 4 .b8 fixed[20];\n"
    report, (found,) = launch(entry(body, before=before), 128, shared=128)
    assert report.shared == 1024 + 128
    assert set(found.view(np.uint32)) == {128}
    with pytest.raises(SxError) as fault:
        launch(entry(body, before=before), 128, shared=124)
    assert fault.value.diagnostic.code == "E-SIM-021"


COUNTED = """
  .shared .align 4 .b8 cells[4096]; .reg .b32 %s, %v; .reg .u64 %to; .reg .f32 %f;
  mad.wide.u32 %to, %i, STRIDE, %p0; mov.u32 %s, cells; mad.lo.u32 %s, %t2, BANKS, %s;
  st.shared.u32 [%s], %i; ld.shared.u32 %v, [%s]; st.global.u32 [%to], %v; cvt.rn.f32.u32 %f, %i; mul.f32 %f, %f, %f;
"""


def counted(stride: int, banks: int) -> Report:
    return launch(entry(COUNTED.replace("STRIDE", str(stride)).replace("BANKS", str(banks))), 64 * 128, grid=2)[0]


def test_traffic_is_counted() -> None:
    good = counted(4, 4)
    assert (good.bank_conflicts, good.extra_sectors, good.written) == (0, 0, 256)
    assert [(t.requests, t.taken, t.fewest) for t in good.sectors] == [(2, 8, 8)]
    two = counted(8, 8)
    assert [(t.requests, t.taken, t.fewest) for t in two.banks] == [(2, 4, 2)] * 2
    assert [(t.requests, t.taken, t.fewest) for t in two.sectors] == [(2, 16, 8)]
    worst = counted(128, 128)
    assert [(t.requests, t.taken, t.fewest) for t in worst.banks] == [(2, 64, 2)] * 2
    assert [(t.requests, t.taken, t.fewest) for t in worst.sectors] == [(2, 64, 8)]


def test_traffic_of_wide_accesses() -> None:
    body = """
      .shared .align 16 .b8 cells[1024]; .reg .b32 %s, %a, %b, %c, %d; .reg .u64 %to; mov.u32 %s, cells;
      mad.lo.u32 %s, %t2, 16, %s; mad.wide.u32 %to, %i, 16, %p0; ld.global.v4.u32 {%a, %b, %c, %d}, [%to];
      st.shared.v4.u32 [%s], {%a, %b, %c, %d};
      bar.sync 0; ld.shared.u32 %a, [cells];
    """
    report, _ = launch(entry(body), np.zeros(128, np.uint32), checks=Checks(traffic=True))
    assert [(t.requests, t.taken, t.fewest) for t in report.sectors] == [(1, 16, 16)]
    assert [(t.requests, t.taken, t.fewest) for t in report.banks] == [(1, 4, 4), (1, 1, 1)]


def test_a_report_as_text_and_as_data() -> None:
    report = counted(8, 8)
    text = to_text(report)
    assert "bank conflicts      4 wavefronts more than needed" in text
    assert "16 sectors, 8 at best, 2 requests: st.global.u32 [%to], %v" in text
    data = json.loads(json.dumps(to_json(report)))
    assert data["instructions"]["float"] == 2
    assert data["bank_conflicts"] == 4
    assert data["efficiency"] == 1.0
    assert data["total"] == sum(report.instructions.values())


def test_an_older_form_of_directives() -> None:
    text = f"""{HEAD}
    .global .align 1 .b8 name[3] = {{1, 2, 3}};
    .visible .entry k(.param .u64 .ptr .global .align 4 k_0)
    .maxntid 128, 1, 1
    .minnctapersm 2
    .maxnreg 64
    {{
      .pragma "nounroll";
      .reg .b64 %rd<3>; .reg .b16 %rs<2>; // a comment
      ld.param.b64 %rd1, [k_0]; /* another
      one */ ld.global.u8 %rs1, [name+1]; st.global.u8 [%rd1], %rs1;
      ret;
    }}
    .section .debug_info {{ .b8 1 }}
    """
    _, (found,) = launch(text, 4)
    assert found[0] == 2
