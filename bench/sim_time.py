"""How long the simulated GPU takes for kernels of three kinds: in lock step, with every check, in random order.

`python -m bench.sim_time`: the median of seven launches, of processor time; the first launch, which decodes, is not
among them. The bound is on one million elements of a pointwise kernel in lock step.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import numpy as np
from attrs import frozen

from sexpgpu.sim import Checks, Machine

BOUND = 1000.0
"""Milliseconds for a million elements."""
RUNS = 7
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
INDEX = "mov.u32 %b, %ctaid.x; mov.u32 %w, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %b, %w, %t;"

POINTWISE = f"""{HEAD}
.visible .entry pointwise(.param .u64 x)
{{
  .reg .b32 %b, %w, %t, %i; .reg .f32 %f<3>; .reg .u64 %p;
  {INDEX} ld.param.u64 %p, [x]; mad.wide.u32 %p, %i, 4, %p; ld.global.f32 %f0, [%p];
  mul.f32 %f1, %f0, 0f3FB8AA3B; ex2.approx.ftz.f32 %f1, %f1; add.f32 %f1, %f1, 0f3F800000; rcp.rn.f32 %f1, %f1;
  fma.rn.f32 %f1, %f0, %f1, %f0; max.NaN.f32 %f1, %f1, 0f00000000; st.global.f32 [%p], %f1; ret;
}}
"""

SHUFFLES = "".join(f"shfl.sync.bfly.b32 %r, %s, {n}, 31, -1; add.f32 %s, %s, %r; " for n in (16, 8, 4, 2, 1))
REDUCTION = f"""{HEAD}
.visible .entry reduction(.param .u64 x)
{{
  .shared .align 4 .b8 sums[32]; .reg .b32 %b, %w, %t, %i, %a; .reg .f32 %s, %r; .reg .u64 %p; .reg .pred %q;
  {INDEX} ld.param.u64 %p, [x]; mad.wide.u32 %p, %i, 4, %p; ld.global.f32 %s, [%p];
  {SHUFFLES} and.b32 %a, %t, 31; setp.ne.u32 %q, %a, 0; mov.u32 %a, sums; shr.u32 %b, %t, 5; mad.lo.u32 %a, %b, 4, %a;
  @%q bra WAIT; st.shared.f32 [%a], %s;
WAIT:
  bar.sync 0; and.b32 %b, %t, 7; mov.u32 %a, sums; mad.lo.u32 %a, %b, 4, %a; ld.shared.f32 %s, [%a];
  shfl.sync.bfly.b32 %r, %s, 4, 31, -1; add.f32 %s, %s, %r; shfl.sync.bfly.b32 %r, %s, 2, 31, -1; add.f32 %s, %s, %r;
  shfl.sync.bfly.b32 %r, %s, 1, 31, -1; add.f32 %s, %s, %r; st.global.f32 [%p], %s; ret;
}}
"""

PRODUCT = f"""{HEAD}
.visible .entry product(.param .u64 x)
{{
  .shared .align 16 .b8 tile[4096]; .reg .b32 %b, %w, %t, %i, %s, %k, %r<8>;
  .reg .f32 %c<4>; .reg .u64 %p; .reg .pred %q;
  {INDEX} ld.param.u64 %p, [x]; mad.wide.u32 %p, %i, 16, %p; mov.u32 %s, tile; mad.lo.u32 %s, %t, 16, %s; mov.u32 %k, 0;
  mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0;
LOOP:
  cp.async.cg.shared.global [%s], [%p], 16; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r0, %r1, %r2, %r3}}, [%s];
  ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {{%r4, %r5}}, [%s];
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%c0, %c1, %c2, %c3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}},
    {{%c0, %c1, %c2, %c3}};
  bar.sync 0; add.u32 %k, %k, 1; setp.lt.u32 %q, %k, 16; @%q bra LOOP;
  st.global.v4.f32 [%p], {{%c0, %c1, %c2, %c3}}; ret;
}}
"""


@frozen
class Case:
    """A kernel, its grid, and the bytes that it reads and writes in place."""

    name: str
    text: str
    grid: int
    bytes: int


CASES = (
    Case("pointwise", POINTWISE, 4096, 4 << 20),
    Case("reduction", REDUCTION, 1024, 1 << 20),
    Case("product", PRODUCT, 16, 1 << 16),
)
BLOCK = 256
WAYS = {"lock step": Checks(), "every check": Checks.every(), "random order": Checks.every(race=1)}


def measured(case: Case, checks: Checks) -> float:
    """Milliseconds of a launch."""
    machine = Machine(checks)
    address = machine.allocate(case.bytes, "data")
    machine.write(address, np.random.default_rng(0).standard_normal(case.bytes // 4).astype(np.float32))
    kernel = machine.load(case.text, case.name).kernel(case.name)
    times = []
    for _ in range(RUNS + 1):
        begin = time.process_time()
        machine.launch(kernel, (case.grid, 1, 1), (BLOCK, 1, 1), [address])
        times.append(1e3 * (time.process_time() - begin))
    return statistics.median(times[1:])


def main() -> int:
    table = {case.name: {way: measured(case, checks) for way, checks in WAYS.items()} for case in CASES}
    passed = table["pointwise"]["lock step"] < BOUND
    if "--json" in sys.argv[1:]:
        print(json.dumps({"milliseconds": table, "bound": BOUND, "passed": passed}, indent=1))
        return 0 if passed else 1
    print(f"{'':12}{'threads':>10}" + "".join(f"{way:>14}" for way in WAYS))
    for case in CASES:
        row = "".join(f"{table[case.name][way]:11.1f} ms" for way in WAYS)
        print(f"{case.name:12}{case.grid * BLOCK:>10}{row}")
    print(f"{'PASS' if passed else 'FAIL'}: a million elements in less than {BOUND:.0f} ms")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
