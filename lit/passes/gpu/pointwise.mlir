// RUN: sexpgpu-opt %s --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm --sx-to-ptx | FileCheck %s --check-prefix=PTX

// 999 elements in vectors of four, whatever the last axis; a thread computes the three behind the last vector.
// CHECK-LABEL: gpu.func @pointwise_1(
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: math.exp {{.*}} : vector<4xf32>
// CHECK: scf.for
// CHECK: math.exp {{.*}} : f32
// CHECK: gpu.return

// Views cost nothing, so the copy is the reshape's. Tiles of 32 by 32 in rows that lie 33 apart: 8 rows at a time are
// read along the operand's last axis and 8 written along the result's.
// CHECK-LABEL: gpu.func @pointwise_2(
// CHECK-SAME: known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 48, 1, 1>
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr<1>
// CHECK: gpu.barrier
// CHECK-COUNT-4: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK: gpu.return

// NVVM-LABEL: llvm.func @pointwise_1(
// NVVM: llvm.load {{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.call @__nv_expf(
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// NVVM-LABEL: llvm.func @pointwise_2(
// NVVM: nvvm.barrier0

// PTX-NOT: .local
// PTX: .visible .entry pointwise_1(
// PTX-SAME: ld.global.nc.v4
// PTX-SAME: .shared .align 16 .b8 pointwise_2_shared_0[4224]

func.func @flat(%x: tensor<3x333xf32>) -> tensor<3x333xf32> {
  %y = "sx.exp"(%x) : (tensor<3x333xf32>) -> tensor<3x333xf32>
  return %y : tensor<3x333xf32>
}

func.func @copy(%x: tensor<2x128x192xf32>) -> tensor<49152xf32> {
  %t = "sx.transpose"(%x) {perm = array<i64: 0, 2, 1>} : (tensor<2x128x192xf32>) -> tensor<2x192x128xf32>
  %y = "sx.reshape"(%t) {shape = array<i64: 49152>} : (tensor<2x192x128xf32>) -> tensor<49152xf32>
  return %y : tensor<49152xf32>
}
