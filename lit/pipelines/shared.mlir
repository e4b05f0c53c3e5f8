// RUN: sexpgpu-opt %s --pipeline shared | FileCheck %s
// RUN: sexpgpu-opt %s --pipeline shared | sexpgpu-opt - --sx-verify | FileCheck %s

// A layer, a hand-written log-softmax and the label's place in it: raised, differentiated from what was saved, and
// simplified. No exponential is left outside the two composites.
module attributes {sx.precision = "f32"} {
// CHECK-LABEL: func.func @train(
// CHECK-SAME: -> (tensor<f32> {sx.loss = "loss"}, tensor<3x5xf32> {sx.grad = "w"})
// CHECK: %[[P:.*]] = "sx.matmul"(%arg0, %arg1)
// CHECK-NOT: sx.exp
// CHECK: %[[L:.*]]:2 = "sx.cross_entropy"(%[[P]], %arg2) {outside = "error", sx.as =
// CHECK: "sx.reshape"(%[[L]]#0)
// CHECK: %[[G:.*]] = "sx.cross_entropy_grad"({{.*}}%[[P]], %arg2, %[[L]]#1)
// CHECK-NOT: sx.exp
// CHECK: "sx.transpose"(%arg0)
// CHECK: %[[W:.*]] = "sx.matmul"({{.*}}%[[G]])
// CHECK-NEXT: return {{.*}}%[[W]]
func.func @train(%x: tensor<4x3xf32> {sx.field = "x"}, %w: tensor<3x5xf32> {sx.param = "w"}, %t: tensor<4xi32> {sx.field = "t"})
    -> (tensor<f32> {sx.loss = "loss"}) attributes {sx.graph = "train"} {
  %p = "sx.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %m = "sx.amax"(%p) {axes = array<i64: 1>, keepdims = true} : (tensor<4x5xf32>) -> tensor<4x1xf32>
  %mw = "sx.broadcast"(%m) {shape = array<i64: 4, 5>} : (tensor<4x1xf32>) -> tensor<4x5xf32>
  %c = "sx.sub"(%p, %mw) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %e = "sx.exp"(%c) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %s = "sx.sum"(%e) {axes = array<i64: 1>, keepdims = true} : (tensor<4x5xf32>) -> tensor<4x1xf32>
  %l = "sx.log"(%s) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %lw = "sx.broadcast"(%l) {shape = array<i64: 4, 5>} : (tensor<4x1xf32>) -> tensor<4x5xf32>
  %q = "sx.sub"(%c, %lw) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %i = "sx.reshape"(%t) {shape = array<i64: 4, 1>} : (tensor<4xi32>) -> tensor<4x1xi32>
  %k = "sx.take_along_axis"(%q, %i) {axis = 1 : i64} : (tensor<4x5xf32>, tensor<4x1xi32>) -> tensor<4x1xf32>
  %n = "sx.neg"(%k) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %r = "sx.sum"(%n) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x1xf32>) -> tensor<f32>
  return %r : tensor<f32>
}
}
