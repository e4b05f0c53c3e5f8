// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu | FileCheck %s

// Two groups that are equal become one function and one kernel; the function keeps its body and says what runs.
// CHECK-LABEL: func.func @f
// CHECK: call @[[KERNEL:pointwise_[0-9]+]](
// CHECK: call @[[KERNEL]](

// CHECK: func.func private @[[KERNEL]](
// CHECK-SAME: sx.group = "pointwise", sx.kernels = [{args = array<i64: 0, 1, 2>, block = array<i64: 64, 1, 1>, grid = array<i64: 1, 1, 1>, kernel = @[[KERNEL]]}]
// CHECK: "sx.broadcast"
// CHECK: "sx.exp"

// A thread takes four elements at once; the vector that repeats is read by the last axis' coordinate.
// CHECK: gpu.module @kernels
// CHECK: gpu.func @[[KERNEL]](%arg0: !llvm.ptr<1>, %arg1: !llvm.ptr<1>, %arg2: !llvm.ptr<1>) kernel
// CHECK-SAME: known_block_size = array<i32: 64, 1, 1>
// CHECK: llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: arith.addf %{{.*}} : vector<4xf32>
// CHECK: math.exp %{{.*}} : vector<4xf32>
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>
// CHECK-NOT: gpu.func @pointwise

func.func @f(%x: tensor<32x8xf32>, %y: tensor<8xf32>) -> tensor<32x8xf32> attributes {sx.graph = "train"} {
  %0 = "sx.broadcast"(%y) {shape = array<i64: 32, 8>} : (tensor<8xf32>) -> tensor<32x8xf32>
  %1 = "sx.add"(%x, %0) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  %2 = "sx.exp"(%1) : (tensor<32x8xf32>) -> tensor<32x8xf32>
  %3 = "sx.sort"(%2) {axis = 1 : i64} : (tensor<32x8xf32>) -> tensor<32x8xf32>
  %4 = "sx.broadcast"(%y) {shape = array<i64: 32, 8>} : (tensor<8xf32>) -> tensor<32x8xf32>
  %5 = "sx.add"(%3, %4) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  %6 = "sx.exp"(%5) : (tensor<32x8xf32>) -> tensor<32x8xf32>
  return %6 : tensor<32x8xf32>
}
