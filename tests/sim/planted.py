"""Kernels with one fault each: the code that is told, how many threads a block has, the body."""

from __future__ import annotations

from attrs import frozen

SHARED = """
.shared .align 16 .b8 cells[256]; .reg .b32 %v, %s, %n; .reg .u64 %to; .reg .pred %p;
mov.u32 %s, cells; shl.b32 %n, %t2, 2; add.u32 %s, %s, %n; mad.wide.u32 %to, %i, 4, %p0; setp.lt.u32 %p, %t2, 8;
"""


@frozen
class Planted:
    """A kernel and the code that its launch ends with."""

    code: str
    threads: int
    body: str


FAULTS: dict[str, Planted] = {
    "past the end": Planted("E-SIM-020", 32, SHARED + """
st.global.u32 [%to+4], %i;
"""),
    "before the start": Planted("E-SIM-020", 32, SHARED + """
ld.global.u32 %v, [%to+-4];
"""),
    "far away": Planted("E-SIM-020", 32, SHARED + """
mov.u64 %to, 4096;
ld.global.u32 %v, [%to];
"""),
    "half of a vector": Planted("E-SIM-020", 10, SHARED + """
mad.wide.u32 %to, %i, 16, %p0;
ld.global.v4.u32 {%v, _, _, _}, [%to];
"""),
    "an address of 32 bits": Planted("E-SIM-020", 32, SHARED + """
cvt.u32.u64 %v, %to;
ld.global.u32 %v, [%v];
"""),
    "past the end of shared memory": Planted("E-SIM-021", 32, SHARED + """
st.shared.u32 [%s+252], %v;
"""),
    "past the end of local memory": Planted("E-SIM-021", 32, SHARED + """
.local .b8 frame[8];
st.local.u32 [frame+8], %v;
"""),
    "a write to constants": Planted("E-SIM-021", 32, SHARED + """
mov.u64 %to, k_0;
cvta.param.u64 %to, %to;
st.u32 [%to], %v;
"""),
    "past the end of the parameters": Planted("E-SIM-021", 32, SHARED + """
ld.param.u32 %v, [k_0+8];
"""),
    "misaligned": Planted("E-SIM-022", 32, SHARED + """
ld.global.u32 %v, [%p0+2];
"""),
    "a misaligned vector": Planted("E-SIM-022", 32, SHARED + """
ld.global.v2.u32 {%v, %n}, [%to];
"""),
    "unwritten shared memory": Planted("E-SIM-023", 32, SHARED + """
@%p st.shared.u32 [%s], %v;
bar.sync 0;
ld.shared.u32 %v, [%s];
"""),
    "unwritten local memory": Planted("E-SIM-023", 32, SHARED + """
.local .b8 f[8];
st.local.u16 [f], 0;
ld.local.u32 %v, [f];
"""),
    "no barrier": Planted("E-SIM-024", 64, SHARED + """
st.shared.u32 [%s], %i;
xor.b32 %n, %s, 128;
ld.shared.u32 %v, [%n];
"""),
    "no barrier within a warp": Planted("E-SIM-024", 32, SHARED + """
st.shared.u32 [%s], %i;
xor.b32 %n, %s, 4;
ld.shared.u32 %v, [%n];
"""),
    "a write over what others still read": Planted("E-SIM-024", 64, SHARED + """
st.shared.u32 [%s], %i;
bar.sync 0;
xor.b32 %n, %s, 128;
ld.shared.u32 %v, [%n];
st.shared.u32 [%s], %v;
"""),
    "two warps write one place": Planted("E-SIM-024", 64, SHARED + """
st.shared.u32 [cells], %i;
"""),
    "an update among plain writes": Planted("E-SIM-024", 32, SHARED + """
st.shared.u32 [%s], 0;
atom.shared.add.u32 %v, [cells], 1;
"""),
    "threads of a block in global memory": Planted("E-SIM-024", 64, SHARED + """
st.global.u32 [%to], %i;
xor.b32 %n, %i, 32;
mad.wide.u32 %to, %n, 4, %p0;
ld.global.u32 %v, [%to];
"""),
    "a copy that nobody waited for": Planted("E-SIM-025", 32, SHARED + """
cp.async.ca.shared.global [%s], [%to], 4;
cp.async.commit_group;
ld.shared.u32 %v, [%s];
"""),
    "a write into a copy": Planted("E-SIM-025", 32, SHARED + """
cp.async.ca.shared.global [%s], [%to], 4;
cp.async.commit_group;
st.shared.u32 [%s], %v;
"""),
    "a copy seen by others without a barrier": Planted("E-SIM-024", 64, SHARED + """
cp.async.ca.shared.global [%s], [%to], 4;
cp.async.wait_all;
xor.b32 %n, %s, 128;
ld.shared.u32 %v, [%n];
"""),
    "a barrier that some skip": Planted("E-SIM-030", 64, SHARED + """
@%p bra A;
bar.sync 0;
A:
"""),
    "a barrier after some have left": Planted("E-SIM-030", 64, SHARED + """
@%p ret;
bar.sync 0;
"""),
    "a barrier after a warp has left": Planted("E-SIM-030", 64, SHARED + """
setp.lt.u32 %p, %t2, 32;
@%p ret;
bar.sync 0;
"""),
    "too few for the count": Planted("E-SIM-030", 64, """
bar.sync 0, 96;
"""),
    "a warp at two barriers": Planted("E-SIM-031", 64, SHARED + """
@%p bra A;
bar.sync 0;
bra B;
A:
bar.sync 0;
B:
"""),
    "no such barrier": Planted("E-SIM-032", 32, """
bar.sync 16;
"""),
    "a barrier for half a warp": Planted("E-SIM-032", 64, """
bar.sync 0, 48;
"""),
    "a shuffle that some skip": Planted("E-SIM-040", 32, SHARED + """
@!%p bra A;
shfl.sync.bfly.b32 %v, %i, 1, 31, -1;
A:
bar.sync 0;
"""),
    "a product of half a warp": Planted("E-SIM-040", 32, """
.reg .pred %p;
.reg .b32 %a<6>;
.reg .f32 %c<4>;
setp.lt.u32 %p, %t2, 8;
@%p ret;
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3},
  {%a4, %a5}, {%c0, %c1, %c2, %c3};
"""),
    "a shuffle from a lane that left": Planted("E-SIM-041", 32, SHARED + """
@%p ret;
shfl.sync.idx.b32 %v, %i, 0, 31, -1;
st.global.u32 [%to], %v;
"""),
    "a mask without the lane": Planted("E-SIM-042", 32, SHARED + """
@!%p bra A;
shfl.sync.bfly.b32 %v, %i, 1, 31, 0x7F;
A:
"""),
    "a trap": Planted("E-SIM-044", 32, SHARED + """
@%p trap;
"""),
    "outside the table": Planted("E-SIM-045", 32, """
T: .branchtargets A, A;
brx.idx %i, T;
A:
"""),
}  # fmt: skip
