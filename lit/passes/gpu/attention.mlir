// RUN: sexpgpu-opt %s --sx-to-gpu > %t
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=LAUNCH < %t
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm=chip=sm_90 --sx-to-ptx | FileCheck %s --check-prefix=PTX

// Blocks of 128 queries, of which the last of a causal mask begin first; the shared memory is what the kernel takes.
// LAUNCH: sx.kernels = [{{.*}}grid = array<i64: 768, 1, 1>, how = "mma 128x64 d64", kernel = @attention_1, shared = 55296
func.func @forward(%q: tensor<8x12x1024x64xbf16>, %k: tensor<8x4x1024x64xbf16>, %v: tensor<8x4x1024x64xbf16>) -> (tensor<8x12x1024x64xbf16>, tensor<8x12x1024xf32>) {
  %y:2 = "sx.attention"(%q, %k, %v) {causal = true, rounded = true, scale = 1.250000e-01 : f64, window = 0 : i64} : (tensor<8x12x1024x64xbf16>, tensor<8x4x1024x64xbf16>, tensor<8x4x1024x64xbf16>) -> (tensor<8x12x1024x64xbf16>, tensor<8x12x1024xf32>)
  return %y#0, %y#1 : tensor<8x12x1024x64xbf16>, tensor<8x12x1024xf32>
}

// dq apart from dk and dv, each block the only one to add to its sums.
// LAUNCH: how = "warps: D", kernel = @attention_2}
// LAUNCH-SAME: how = "mma 64x32 d128: dq", kernel = @attention_2_2,
// LAUNCH-SAME: how = "mma 64x32 d128: dk, dv", kernel = @attention_2_3,
func.func @backward(%g: tensor<1x8x512x128xbf16>, %h: tensor<1x8x512xf32>, %q: tensor<1x8x512x128xbf16>, %k: tensor<1x8x512x128xbf16>, %v: tensor<1x8x512x128xbf16>, %y: tensor<1x8x512x128xbf16>, %lse: tensor<1x8x512xf32>) -> (tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>) {
  %d:3 = "sx.attention_grad"(%g, %h, %q, %k, %v, %y, %lse) {causal = false, rounded = true, scale = 1.250000e-01 : f64, window = 0 : i64} : (tensor<1x8x512x128xbf16>, tensor<1x8x512xf32>, tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x8x512xf32>) -> (tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>)
  return %d#0, %d#1, %d#2 : tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>
}

// LAUNCH: how = "warps: f32", kernel = @attention_3}
func.func @f32(%q: tensor<1x2x64x64xf32>, %k: tensor<1x2x64x64xf32>, %v: tensor<1x2x64x64xf32>) -> (tensor<1x2x64x64xf32>, tensor<1x2x64xf32>) {
  %y:2 = "sx.attention"(%q, %k, %v) {causal = true, rounded = false, scale = 1.250000e-01 : f64, window = 0 : i64} : (tensor<1x2x64x64xf32>, tensor<1x2x64x64xf32>, tensor<1x2x64x64xf32>) -> (tensor<1x2x64x64xf32>, tensor<1x2x64xf32>)
  return %y#0, %y#1 : tensor<1x2x64x64xf32>, tensor<1x2x64xf32>
}

// While a tile is worked on the next one is on its way. The products of 64 keys are 128 instructions, 64 of them with v.
// CHECK: gpu.func @attention_1(
// CHECK: scf.for
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK-NEXT: gpu.barrier
// CHECK: scf.if
// CHECK-COUNT-8: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: nvvm.ldmatrix
// CHECK-COUNT-64: nvvm.mma.sync
// The mask is applied to tiles on the diagonal alone.
// CHECK: scf.if {{.*}} -> (f32, f32
// CHECK: llvm.nvvm.ex2.approx.ftz
// CHECK-COUNT-64: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
// CHECK: gpu.func @attention_2(
// CHECK-NOT: nvvm.mma.sync
// CHECK: gpu.func @attention_2_2(
// CHECK-COUNT-96: nvvm.mma.sync
// CHECK: gpu.func @attention_2_3(
// CHECK-COUNT-128: nvvm.mma.sync
// CHECK: gpu.func @attention_3(
// CHECK-NOT: nvvm.mma.sync
// CHECK: gpu.shuffle

// NVVM-LABEL: llvm.func @attention_1(
// NVVM: nvvm.cp.async.shared.global
// NVVM: nvvm.ldmatrix
// NVVM: nvvm.mma.sync
// NVVM-LABEL: llvm.func @attention_2_3(
// NVVM: nvvm.mma.sync
// NVVM-LABEL: llvm.func @attention_3(
// NVVM-NOT: nvvm.mma.sync
// NVVM: llvm.return

// PTX-NOT: .local
// PTX-DAG: .entry attention_1(
// PTX-DAG: cp.async.cg.shared.global
// PTX-DAG: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX-DAG: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// PTX-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// PTX-DAG: cvt.rn.bf16x2.f32
// PTX-DAG: ex2.approx.ftz.f32
// PTX-NOT: .local
// PTX-NOT: atom.
// PTX-NOT: {{[^a]}}red.global
// The turns of a product with a row stay apart: many at once would not fit into registers.
// PTX-DAG: .pragma {{.*}}nounroll
