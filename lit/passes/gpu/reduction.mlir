// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm --sx-to-ptx | FileCheck %s --check-prefix=PTX

// A norm: a warp holds a line of 768 in vectors of four and reads it once; both reductions are shuffles alone.
// CHECK-LABEL: gpu.func @row_2(
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 256, 1, 1>
// CHECK-COUNT-6: llvm.load {{.*}} -> vector<4xf32>
// CHECK-NOT: scf.for
// CHECK-NOT: gpu.barrier
// CHECK: gpu.return

// Cross entropy and its derivative: a block walks three times along a line of 50304, of which it holds a half.
// CHECK-LABEL: gpu.func @row_1(
// CHECK-SAME: known_block_size = array<i32: 1024, 1, 1>, known_grid_size = array<i32: 1024, 1, 1>
// CHECK-COUNT-2: scf.for
// CHECK-COUNT-1: gpu.barrier
// CHECK-COUNT-2: scf.for
// CHECK-COUNT-1: gpu.barrier
// CHECK-COUNT-2: scf.for
// CHECK-NOT: gpu.barrier
// CHECK: gpu.return

// The gradients of a norm's gain and bias: 32 parts of the lines, then their sums, in order.
// CHECK-LABEL: gpu.func @column_1(
// CHECK-SAME: known_grid_size = array<i32: 192, 1, 1>
// CHECK: gpu.return
// CHECK-LABEL: gpu.func @column_1_2(
// CHECK-SAME: known_grid_size = array<i32: 6, 1, 1>
// CHECK: gpu.return

// NVVM-LABEL: llvm.func @row_2(
// NVVM-COUNT-6: llvm.load {{.*}} -> vector<4xf32>
// NVVM: nvvm.shfl.sync bfly
// NVVM-LABEL: llvm.func @row_1(
// NVVM-COUNT-2: nvvm.barrier0
// NVVM-LABEL: llvm.func @column_1(
// NVVM-LABEL: llvm.func @column_1_2(

// PTX-NOT: .local
// PTX: .visible .entry row_2(
// PTX-SAME: ld.global.nc.v4
// PTX-SAME: shfl.sync.bfly
// PTX-SAME: st.global.v4
// PTX-NOT: .local

func.func @f(%x: tensor<1024x768xf32>, %g: tensor<768xf32>, %b: tensor<768xf32>) -> tensor<1024x768xf32> {
  %y:3 = "sx.layer_norm"(%x, %g, %b) {eps = 1.0e-05 : f64} : (tensor<1024x768xf32>, tensor<768xf32>, tensor<768xf32>) -> (tensor<1024x768xf32>, tensor<1024x1xf32>, tensor<1024x1xf32>)
  return %y#0 : tensor<1024x768xf32>
}

func.func @loss(%x: tensor<1024x50304xf32>, %labels: tensor<1024xi32>) -> (tensor<1024xf32>, tensor<1024x50304xf32>) {
  %one = "sx.constant"() {value = dense<9.765625E-4> : tensor<1024xf32>} : () -> tensor<1024xf32>
  %none = "sx.constant"() {value = dense<0.0> : tensor<1024xf32>} : () -> tensor<1024xf32>
  %l:2 = "sx.cross_entropy"(%x, %labels) {outside = "error"} : (tensor<1024x50304xf32>, tensor<1024xi32>) -> (tensor<1024xf32>, tensor<1024xf32>)
  %d = "sx.cross_entropy_grad"(%one, %none, %x, %labels, %l#1) {outside = "error"} : (tensor<1024xf32>, tensor<1024xf32>, tensor<1024x50304xf32>, tensor<1024xi32>, tensor<1024xf32>) -> tensor<1024x50304xf32>
  return %l#0, %d : tensor<1024xf32>, tensor<1024x50304xf32>
}

func.func @gains(%g: tensor<1024x768xf32>, %x: tensor<1024x768xf32>, %mean: tensor<1024x1xf32>, %r: tensor<1024x1xf32>) -> (tensor<768xf32>, tensor<768xf32>) {
  %gain = "sx.layer_norm_gain"(%g, %x, %mean, %r) : (tensor<1024x768xf32>, tensor<1024x768xf32>, tensor<1024x1xf32>, tensor<1024x1xf32>) -> tensor<768xf32>
  %bias = "sx.sum"(%g) {axes = array<i64: 0>, keepdims = false} : (tensor<1024x768xf32>) -> tensor<768xf32>
  return %gain, %bias : tensor<768xf32>, tensor<768xf32>
}
