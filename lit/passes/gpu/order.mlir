// RUN: sexpgpu-opt %s --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm --sx-to-ptx --ptx | FileCheck %s --check-prefix=PTX

// A line of 100 in shared memory: its values and their places, sorted by a block as a network of exchanges.
// CHECK-LABEL: gpu.func @order_1(
// CHECK-SAME: known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4096, 1, 1>
// CHECK: gpu.barrier
// CHECK: scf.
// CHECK: gpu.barrier
// CHECK: gpu.return

// A line too long for that is sorted in memory.
// CHECK-LABEL: gpu.func @order_2(
// CHECK-SAME: known_block_size = array<i32: 512, 1, 1>, known_grid_size = array<i32: 64, 1, 1>
// CHECK: gpu.return

// NVVM-LABEL: llvm.func @order_1(
// NVVM: nvvm.barrier
// NVVM-LABEL: llvm.func @order_2(

// PTX-LABEL: .visible .entry order_1(
// PTX-NOT: .local
// PTX: .shared .align 16 .b8 order_1_shared_1[512];
// PTX: bar.sync
// PTX: st.shared.b32
// PTX-LABEL: .visible .entry order_2(
// PTX-NOT: .shared
// PTX-NOT: .local
// PTX: bar.sync
// PTX: st.global.b32

func.func @short(%x: tensor<4096x100xf32>) -> tensor<4096x100xf32> {
  %y = "sx.sort"(%x) {axis = 1 : i64} : (tensor<4096x100xf32>) -> tensor<4096x100xf32>
  return %y : tensor<4096x100xf32>
}

func.func @top(%x: tensor<64x50304xf32>) -> (tensor<64x8xf32>, tensor<64x8xi32>) {
  %y:2 = "sx.top_k"(%x) {k = 8 : i64} : (tensor<64x50304xf32>) -> (tensor<64x8xf32>, tensor<64x8xi32>)
  return %y#0, %y#1 : tensor<64x8xf32>, tensor<64x8xi32>
}
