// RUN: sexpgpu-opt %s --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm --sx-to-ptx --ptx | FileCheck %s --check-prefix=PTX

// A thread for each result; the four elements of its window stay in registers.
// CHECK-LABEL: gpu.func @window_1(
// CHECK-SAME: known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 1568, 1, 1>
// CHECK-COUNT-4: llvm.load {{.*}} -> f32
// CHECK: llvm.store
// CHECK: gpu.return

// The derivative: a thread for each element of the operand asks the windows that it lies in, so nothing is scattered.
// CHECK-LABEL: gpu.func @window_2(
// CHECK-SAME: known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 6272, 1, 1>
// CHECK: llvm.store
// CHECK: gpu.return

// NVVM-LABEL: llvm.func @window_1(
// NVVM-LABEL: llvm.func @window_2(
// NVVM-NOT: llvm.atomicrmw

// PTX-LABEL: .visible .entry window_1(
// PTX-NOT: .local
// PTX-COUNT-4: ld.global.nc.b32
// PTX: st.global.b32
// PTX-LABEL: .visible .entry window_2(
// PTX-NOT: atom
// PTX-NOT: .local
// PTX: st.global.b32

func.func @pool(%x: tensor<64x32x28x28xf32>) -> tensor<64x32x14x14xf32> {
  %y = "sx.pool_max"(%x) {high = array<i64: 0, 0>, kernel = array<i64: 2, 2>, low = array<i64: 0, 0>, stride = array<i64: 2, 2>} : (tensor<64x32x28x28xf32>) -> tensor<64x32x14x14xf32>
  return %y : tensor<64x32x14x14xf32>
}

func.func @gradient(%g: tensor<64x32x14x14xf32>, %x: tensor<64x32x28x28xf32>) -> tensor<64x32x28x28xf32> {
  %y = "sx.pool_max_grad"(%g, %x) {high = array<i64: 0, 0>, kernel = array<i64: 2, 2>, low = array<i64: 0, 0>, stride = array<i64: 2, 2>} : (tensor<64x32x14x14xf32>, tensor<64x32x28x28xf32>) -> tensor<64x32x28x28xf32>
  return %y : tensor<64x32x28x28xf32>
}
