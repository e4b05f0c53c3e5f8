// RUN: sexpgpu-opt %s --sx-autodiff --sx-verify | FileCheck %s --check-prefixes=CHECK,BARE
// RUN: sexpgpu-opt %s --sx-simplify --sx-raise --sx-autodiff --sx-accumulate --sx-fuse --sx-verify | FileCheck %s
// RUN: sexpgpu-opt %s --sx-raise --sx-autodiff --sx-recompute --sx-plan-memory --sx-verify | FileCheck %s
// RUN: sexpgpu-opt %s --sx-raise --sx-autodiff --sx-fuse --sx-schedule --sx-verify | FileCheck %s
// RUN: sexpgpu-opt %s --sx-autodiff --sx-schedule --sx-fuse --sx-plan-memory --sx-simplify --sx-verify | FileCheck %s

// Every pass but autodiff may be left out: a valid module with the same signature comes out. In the first line no pass
// cleans up after autodiff; in the last, fuse follows schedule.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: %arg0: tensor<128x64xf32> {sx.field = "x"}, %arg1: tensor<64x32xf32> {sx.param = "w"})
// CHECK-SAME: -> (tensor<f32> {sx.loss = "loss"}, tensor<64x32xf32> {sx.grad = "w"})
// BARE: sx.exp
// BARE: sx.checkpoint
func.func @train(%x: tensor<128x64xf32> {sx.field = "x"}, %w: tensor<64x32xf32> {sx.param = "w"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %p = "sx.matmul"(%x, %w) : (tensor<128x64xf32>, tensor<64x32xf32>) -> tensor<128x32xf32>
  %e = "sx.exp"(%p) {sx.checkpoint = 1} : (tensor<128x32xf32>) -> tensor<128x32xf32>
  %s = "sx.sigmoid"(%e) {sx.checkpoint = 1} : (tensor<128x32xf32>) -> tensor<128x32xf32>
  %g = "sx.mul"(%e, %s) {sx.checkpoint = 1} : (tensor<128x32xf32>, tensor<128x32xf32>) -> tensor<128x32xf32>
  %l = "sx.sum"(%g) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<128x32xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
