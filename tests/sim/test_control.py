"""Branches, loops, tables, calls, scopes, predicated instructions."""

from __future__ import annotations

import numpy as np
import pytest

from sexpgpu.sim import Checks
from tests.sim.snippets import HEAD, entry, lanes, launch

COLLATZ = """
  .reg .pred %odd, %end; .reg .b32 %x, %y; mov.u32 %x, %v; mov.u32 %o, 0;
LOOP:
  setp.le.u32 %end, %x, 1; @%end bra DONE;
  and.b32 %y, %x, 1; setp.eq.u32 %odd, %y, 1; @%odd bra ODD;
  shr.u32 %x, %x, 1; bra.uni NEXT;
ODD:
  mad.lo.u32 %x, %x, 3, 1;
NEXT:
  add.u32 %o, %o, 1; bra LOOP;
DONE:
"""


def collatz(x: int) -> int:
    n = 0
    while x > 1:
        x, n = (3 * x + 1 if x & 1 else x // 2), n + 1
    return n


def test_lanes_that_loop_a_different_number_of_times() -> None:
    v = np.arange(1, 300, dtype=np.uint32)
    assert lanes(COLLATZ, {"o": "u4"}, v=v)["o"].tolist() == [collatz(int(x)) for x in v]


def test_divergence_is_counted() -> None:
    body = """
      .reg .pred %p; .reg .b32 %l; and.b32 %l, %t2, 1; setp.eq.u32 %p, %l, 1; @%p bra A; add.u32 %i, %i, 1;
    A: setp.lt.u32 %p, %t2, 32; @%p bra B; add.u32 %i, %i, 1;
    B:
    """
    report, _ = launch(entry(body), 4, block=64)
    assert report.divergent_branches == 2  # of the first branch, in both warps; the second goes one way in each
    assert report.efficiency < 1
    straight, _ = launch(entry(""), 4, block=64)
    assert (straight.divergent_branches, straight.efficiency) == (0, 1.0)


def test_a_table_of_targets() -> None:
    text = """
      .reg .b32 %k; and.b32 %k, %v, 3; mov.u32 %o, 0;
    T: .branchtargets A, B, C, A;
      brx.idx %k, T;
    A: add.u32 %o, %v, 100; bra E;
    B: add.u32 %o, %v, 200; bra E;
    C: add.u32 %o, %v, 300;
    E:
    """
    v = np.arange(64, dtype=np.uint32)
    wanted = [int(x) + (100, 200, 300, 100)[int(x) & 3] for x in v]
    assert lanes(text, {"o": "u4"}, v=v)["o"].tolist() == wanted


FUNCTIONS = """
.func (.param .b32 r) twice (.param .b32 a)
{
  .reg .b32 %x<3>; .reg .pred %p;
  ld.param.u32 %x0, [a]; setp.gt.u32 %p, %x0, 10; @%p bra BIG;
  add.u32 %x1, %x0, %x0; st.param.u32 [r], %x1; ret;
BIG:
  mov.u32 %x1, 7; st.param.u32 [r], %x1; ret;
}
.func (.param .align 8 .b8 r[8]) pair (.param .b32 a, .param .align 8 .b8 b[8])
{
  .reg .b32 %x<5>; .local .align 4 .b8 frame[4];
  ld.param.u32 %x0, [a]; ld.param.v2.b32 {%x1, %x2}, [b]; st.local.u32 [frame], %x0;
  { .param .b32 p0; st.param.b32 [p0], %x1; .param .b32 q0; call.uni (q0), twice, (p0); ld.param.b32 %x3, [q0]; }
  ld.local.u32 %x4, [frame]; add.u32 %x3, %x3, %x4; st.param.b32 [r], %x3; st.param.b32 [r+4], %x2;
  ret;
}
"""


def test_calls() -> None:
    body = """
      .reg .b32 %u, %v; .reg .u64 %to; mad.wide.u32 %to, %i, 8, %p0; .reg .pred %p; mov.u32 %u, 1; mov.u32 %v, 2;
      setp.ne.u32 %p, %i, 5;
      {
        .param .b32 param0; st.param.b32 [param0], %i; .param .align 8 .b8 param1[8];
        st.param.v2.b32 [param1], {%i, %t1}; .param .align 8 .b8 retval0[8];
        @%p call.uni (retval0), pair, (param0, param1);
        @%p ld.param.v2.b32 {%u, %v}, [retval0];
      }
      st.global.v2.b32 [%to], {%u, %v};
    """
    _, (found,) = launch(entry(body, before=FUNCTIONS), 256)
    wanted = [[i + (2 * i if i <= 10 else 7), 32] if i != 5 else [1, 2] for i in range(32)]
    assert found.view(np.uint32).reshape(-1, 2).tolist() == wanted


def test_names_of_inner_scopes() -> None:
    text = """
      .reg .b32 %x; mov.u32 %x, 1;
      { .reg .b32 %x; .reg .pred %p; mov.u32 %x, 5; setp.lt.u32 %p, %v, 3;
        @%p bra L; add.u32 %x, %x, 10;
      L: add.u32 %o, %x, 0; }
      { .reg .b32 %y<2>; mov.u32 %y0, 3; mov.u32 %y1, 4; bra L;
      L: add.u32 %o, %o, %y1; add.u32 %o, %o, %y0; }
      add.u32 %o, %o, %x;
    """
    v = np.arange(6, dtype=np.uint32)
    assert lanes(text, {"o": "u4"}, v=v)["o"].tolist() == [13, 13, 13, 23, 23, 23]


def test_predicated_instructions_keep_what_was() -> None:
    text = """
      .reg .pred %p, %never; setp.lt.u32 %p, %v, 3; setp.gt.u32 %never, %v, 999; mov.u32 %o, 9;
      @%p mov.u32 %o, 1; @!%p add.u32 %o, %o, %v; @%never mov.u32 %o, 0;
    """
    v = np.arange(6, dtype=np.uint32)
    assert lanes(text, {"o": "u4"}, v=v)["o"].tolist() == [1, 1, 1, 12, 13, 14]


def test_threads_that_leave_early_and_blocks_that_are_no_whole_warps() -> None:
    body = """
      .reg .pred %p; .reg .u64 %to; .reg .b32 %v; setp.ge.u32 %p, %i, 70; @%p ret;
      mad.wide.u32 %to, %i, 4, %p0; ld.global.u32 %v, [%to]; add.u32 %v, %v, 5; st.global.u32 [%to], %v;
    """
    source = np.arange(70, dtype=np.uint32)
    report, (found,) = launch(entry(body), source, grid=2, block=50)
    assert found.view(np.uint32).tolist() == (source + 5).tolist()
    assert (report.read, report.written) == (280, 280)


@pytest.mark.parametrize("race", [None, 0, 1])
def test_more_blocks_than_run_at_once(race: int | None) -> None:
    body = ".reg .u64 %to; mad.wide.u32 %to, %i, 4, %p0; st.global.u32 [%to], %i;"
    n = 1 << 17
    _, (found,) = launch(entry(body), 4 * n, grid=n // 256, block=256, checks=Checks(race=race))
    assert (found.view(np.uint32) == np.arange(n)).all()


def test_three_dimensions() -> None:
    text = f"""{HEAD}
    .visible .entry k(.param .u64 out) .reqntid 4, 3, 2
    {{
      .reg .u64 %p; .reg .b32 %a<13>;
      ld.param.u64 %p, [out];
      mov.u32 %a0, %tid.x; mov.u32 %a1, %tid.y; mov.u32 %a2, %tid.z; mov.u32 %a3, %ctaid.x; mov.u32 %a4, %ctaid.y;
      mov.u32 %a5, %ctaid.z; mad.lo.u32 %a6, %a2, 3, %a1; mad.lo.u32 %a6, %a6, 4, %a0;
      mad.lo.u32 %a7, %a5, 2, %a4; mad.lo.u32 %a7, %a7, 5, %a3; mad.lo.u32 %a8, %a7, 24, %a6;
      mad.wide.u32 %p, %a8, 4, %p; shl.b32 %a9, %a5, 20; shl.b32 %a10, %a4, 16; or.b32 %a9, %a9, %a10;
      shl.b32 %a10, %a3, 12; or.b32 %a9, %a9, %a10; shl.b32 %a10, %a2, 8; or.b32 %a9, %a9, %a10;
      shl.b32 %a10, %a1, 4; or.b32 %a9, %a9, %a10; or.b32 %a9, %a9, %a0; st.global.u32 [%p], %a9; ret;
    }}"""
    from sexpgpu.sim import Machine

    machine = Machine()
    at = machine.allocate(24 * 30 * 4)
    machine.launch(machine.load(text).kernel("k"), (5, 2, 3), (4, 3, 2), [at])
    found = machine.read(at, 24 * 30 * 4).view(np.uint32)
    places = np.ndindex(3, 2, 5, 2, 3, 4)
    assert found.tolist() == [c << 20 | b << 16 | a << 12 | z << 8 | y << 4 | x for c, b, a, z, y, x in places]
