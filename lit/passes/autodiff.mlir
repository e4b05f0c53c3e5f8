// RUN: sexpgpu-opt %s --sx-autodiff --sx-simplify | FileCheck %s

// d/dw mean((w x)^2): one gradient for each trained parameter, none for fields or frozen parameters.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: %[[W:.*]]: tensor<4xf32> {sx.param = "model.w"}
// CHECK-SAME: %[[X:.*]]: tensor<4xf32> {sx.field = "x"}
// CHECK-SAME: -> (tensor<f32> {sx.loss = "train/loss"}, tensor<4xf32> {sx.grad = "model.w"})
// CHECK: %[[P:.*]] = "sx.mul"(%[[W]], %[[X]])
// CHECK: %[[L:.*]] = "sx.sum"
// CHECK: %[[G:.*]] = "sx.mul"(%{{.*}}, %[[X]])
// CHECK: return %[[L]], %[[G]]
func.func @train(%w: tensor<4xf32> {sx.param = "model.w"}, %x: tensor<4xf32> {sx.field = "x"}, %f: tensor<4xf32> {sx.param = "model.f", sx.frozen})
    -> (tensor<f32> {sx.loss = "train/loss"}) attributes {sx.graph = "train"} {
  %p = "sx.mul"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = "sx.add"(%p, %f) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = "sx.square"(%q) : (tensor<4xf32>) -> tensor<4xf32>
  %l = "sx.sum"(%s) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// A tied parameter gets the sum of its cotangents; an unused one gets zeros.
// CHECK-LABEL: func.func @tied(
// CHECK-SAME: tensor<2x2xf32> {sx.grad = "w"}, tensor<3xf32> {sx.grad = "unused"}
// CHECK: sx.matmul
// CHECK: %[[Z:.*]] = "sx.constant"() {value = dense<0.000000e+00> : tensor<3xf32>}
// CHECK: return %{{.*}}, %{{.*}}, %[[Z]]
func.func @tied(%w: tensor<2x2xf32> {sx.param = "w"}, %u: tensor<3xf32> {sx.param = "unused"})
    -> (tensor<f32> {sx.loss = "loss"}) {
  %a = "sx.matmul"(%w, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %l = "sx.sum"(%a) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x2xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// Nothing flows through a gradient stop, and it is gone afterwards.
// CHECK-LABEL: func.func @stopped(
// CHECK-NOT: sx.stop_gradient
// CHECK: %[[ONE:.*]] = "sx.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK: return %{{.*}}, %[[ONE]]
func.func @stopped(%w: tensor<f32> {sx.param = "w"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %s = "sx.stop_gradient"(%w) : (tensor<f32>) -> tensor<f32>
  %e = "sx.exp"(%s) : (tensor<f32>) -> tensor<f32>
  %l = "sx.add"(%w, %e) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// A graph without a loss is left alone.
// CHECK-LABEL: func.func @val(
// CHECK-NEXT: sx.exp
// CHECK-NEXT: return
func.func @val(%w: tensor<f32> {sx.param = "w"}) -> (tensor<f32> {sx.metric = "val/loss", sx.reduce = "mean"}) {
  %e = "sx.exp"(%w) : (tensor<f32>) -> tensor<f32>
  return %e : tensor<f32>
}
