"""Planted faults, each caught: what is told of it is a golden text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sexpgpu.diag import SxError, render
from sexpgpu.diag.catalogue.simulator import ENTRIES
from sexpgpu.sim import Checks, Machine
from tests.sim.planted import FAULTS, SHARED
from tests.sim.snippets import HEAD, Array, entry, fault, launch


def told(text: str, found: SxError) -> str:
    return render(found.diagnostic, {"k.ptx": text})


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, golden: Callable[[str], None]) -> None:
    planted = FAULTS[name]
    text = entry(planted.body)
    source = np.arange(planted.threads, dtype=np.uint32)
    with pytest.raises(SxError) as found:
        launch(text, source, block=planted.threads)
    assert found.value.diagnostic.code == planted.code
    golden(told(text, found.value))


def test_what_the_host_never_wrote(golden: Callable[[str], None]) -> None:
    text = entry(".reg .u64 %to; .reg .b32 %v; mad.wide.u32 %to, %i, 4, %p0; ld.global.u32 %v, [%to];")
    with pytest.raises(SxError) as found:
        launch(text, 128)
    golden(told(text, found.value))


BETWEEN = {
    "one writes, another reads": (
        ".reg .u64 %to, %from; .reg .b32 %v; mad.wide.u32 %to, %i, 4, %p0; xor.b32 %v, %i, 32;"
        " mad.wide.u32 %from, %v, 4, %p0; st.global.u32 [%to], %i; ld.global.u32 %v, [%from];"
    ),
    "all write one place": "st.global.u32 [%p0], %i;",
    "one reads, another writes": (
        ".reg .u64 %to; .reg .b32 %v; .reg .pred %p; mad.wide.u32 %to, %t2, 4, %p0; setp.eq.u32 %p, %t0, 0;"
        " @%p ld.global.u32 %v, [%to]; @!%p st.global.u32 [%to], %i;"
    ),
}


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("race", [None, 7])
def test_a_race_between_blocks(name: str, race: int | None, golden: Callable[[str], None]) -> None:
    text = entry(BETWEEN[name])
    with pytest.raises(SxError) as found:
        launch(text, np.arange(64, dtype=np.uint32), grid=2, checks=Checks.every(race=race))
    golden(told(text, found.value))


LAST_BLOCK = """
  .reg .u64 %to; .reg .b32 %v, %n, %sum; .reg .pred %z, %last; .shared .align 4 .b8 flag[4];
  mad.wide.u32 %to, %t0, 4, %p0; setp.eq.u32 %z, %t2, 0; @%z st.global.u32 [%to], %i; {fence}
  @!%z bra WAIT; atom.global.add.u32 %n, [%p1], 1; st.shared.u32 [flag], %n;
WAIT:
  bar.sync 0; ld.shared.u32 %n, [flag]; setp.ne.u32 %last, %n, 3; @%last ret;
  {fence} and.b32 %v, %t2, 3; mad.wide.u32 %to, %v, 4, %p0; ld.global.u32 %v, [%to];
  mad.wide.u32 %to, %t2, 4, %p2; st.global.u32 [%to], %v;
"""


@pytest.mark.parametrize("race", [None, 1, 2])
def test_the_last_block_may_read_what_the_others_published(race: int | None) -> None:
    buffers: tuple[Array | int, ...] = (16, np.zeros(1, np.uint32), 256)
    text = entry(LAST_BLOCK.format(fence="membar.gl;"), 3)
    _, (_, _, found) = launch(text, *buffers, grid=4, block=64, checks=Checks.every(race=race))
    assert found.view(np.uint32).tolist() == [0, 64, 128, 192] * 16
    bare = fault(entry(LAST_BLOCK.format(fence=""), 3), *buffers, grid=4, block=64, checks=Checks.every(race=race))
    assert bare.code == "E-SIM-024"


def test_what_depends_on_the_order_of_warps_differs_in_random_order() -> None:
    """Without the check for races: lock step gives one answer, random order another."""
    text = entry(
        f"{SHARED} st.shared.u32 [%s], %i; xor.b32 %n, %s, 128; ld.shared.u32 %v, [%n]; st.global.u32 [%to], %v;"
    )
    source = np.zeros(64, np.uint32)
    _, (step,) = launch(text, source, block=64, checks=Checks())
    results = [launch(text, source, block=64, checks=Checks(race=seed))[1][0].tolist() for seed in range(4)]
    assert step.view(np.uint32).tolist() == [i ^ 32 for i in range(64)]
    assert any(result != step.tolist() for result in results)


def test_the_line_of_the_source_is_told(golden: Callable[[str], None]) -> None:
    text = (
        entry(".loc 1 12 5;\n.reg .b32 %v; ld.global.u32 %v, [%p0+4096];")
        .replace(".visible", '.file 1 "model.sx"\n.visible', 1)
        .replace("12 5;", "12 5")
    )
    with pytest.raises(SxError) as found:
        launch(text, 4)
    golden(told(text, found.value))


def test_an_endless_kernel() -> None:
    machine = Machine(Checks.every(most_visits=100))
    kernel = machine.load(entry("  L: bra L;", 0), "k").kernel("k")
    with pytest.raises(SxError) as found:
        machine.launch(kernel, (1, 1, 1), (4, 1, 1), [])
    assert (found.value.diagnostic.code, found.value.diagnostic.actual) == ("E-SIM-043", "100 visits")


def test_the_place_is_the_instruction() -> None:
    """Behind another one on its line; one of two lines is marked to the end of the first."""
    for text, marked in (
        ("  mov.u32 %i, 1;  frobnicate.b32 %i, %i; mov.u32 %i, 2;", "frobnicate.b32 %i, %i;"),
        ("\t@%q frobnicate.b32 %i,\n %i;", "@%q frobnicate.b32 %i,"),
    ):
        whole = entry(".reg .pred %q;\n" + text)
        with pytest.raises(SxError) as found:
            Machine().load(whole, "k").kernel("k")
        span = found.value.diagnostic.span
        assert span is not None
        assert span.line == span.end_line
        assert whole.split("\n")[span.line - 1][span.col - 1 : span.end_col - 1] == marked


def test_a_missing_label_has_a_code_of_its_own() -> None:
    with pytest.raises(SxError) as found:
        Machine().load(entry("LOOP: bra LOOPS;"), "k").kernel("k")
    assert found.value.diagnostic.code == "E-SIM-012"
    assert found.value.diagnostic.message == "there is no label LOOPS"
    assert found.value.diagnostic.help == "did you mean LOOP?"


UNKNOWN = {
    "an instruction": "frobnicate.b32 %i, %i;",
    "a part": "add.wrap.u32 %i, %i, 1;",
    "a type": "add.u8 %i, %i, 1;",
    "a rounding": ".reg .f64 %d; fma.rz.f64 %d, %d, %d, %d;",
    "a width": ".reg .b16 %h; add.u32 %h, %i, 1;",
    "a shape": ".reg .b32 %a<4>; mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%a0}, {%a0}, {%a0}, {%a0};",
    "a clock": "mov.u32 %i, %clock;",
    "a cache operator": "ld.global.zz.u32 %i, [%p0];",
    "a name": "mov.u64 %q0, nothing;",
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_refused(name: str, golden: Callable[[str], None]) -> None:
    text = entry(UNKNOWN[name])
    with pytest.raises(SxError) as found:
        Machine().load(text, "k").kernel("k")
    assert found.value.diagnostic.code == "E-SIM-011", "E-SIM-012"
    golden(told(text, found.value))


CALLS = {
    "no body": (".extern .func f(.param .b32 a);", "{ .param .b32 x; st.param.b32 [x], %i; call.uni f, (x); }"),
    "itself": (".func f() { call.uni f, (); ret; }", "call.uni f, ();"),
    "a register": ("", "call %q0, ();"),
    "too many": (".func f() { ret; }", "{ .param .b32 x; call.uni f, (x); }"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_cannot_be_followed(name: str, golden: Callable[[str], None]) -> None:
    before, body = CALLS[name]
    text = entry(body, before=before)
    with pytest.raises(SxError) as found:
        Machine().load(text, "k").kernel("k")
    assert found.value.diagnostic.code == "E-SIM-010"
    golden(told(text, found.value))


NO_PTX = {
    "nothing": "",
    "prose": "Once upon a time",
    "a strange character": HEAD + "§",
    "no head": ".visible .entry k() { ret; }",
    "an open body": HEAD + ".visible .entry k() { ret;",
    "an undeclared register": entry("add.u32 %undeclared, %i, 1;"),
    "an undeclared predicate": entry(".reg .pred %u; not.pred %u, !%undeclared;"),
    "an unfinished instruction": entry("add.u32 %i %i;"),
    "a directive": HEAD + ".nonsense 3\n",
    "a type": entry(".reg .b7 %x;"),
}


@pytest.mark.parametrize("name", NO_PTX)
def test_what_is_not_ptx_is_refused(name: str, golden: Callable[[str], None]) -> None:
    with pytest.raises(SxError) as found:
        Machine().load(NO_PTX[name], "k")
    assert found.value.diagnostic.code == "E-SIM-001"
    golden(told(NO_PTX[name], found.value))


ELSEWHERE = {
    "E-SIM-002", "E-SIM-003", "E-SIM-004", "E-SIM-005", "E-SIM-006",  # test_machine, test_command
    "E-SIM-033", "E-SIM-034", "E-SIM-035",  # test_bulk
    "E-SIM-001", "E-SIM-010", "E-SIM-011", "E-SIM-012", "E-SIM-043",  # above
}  # fmt: skip


def test_every_code_is_provoked() -> None:
    assert {planted.code for planted in FAULTS.values()} | ELSEWHERE == {entry.code for entry in ENTRIES}
