// RUN: sexpgpu-opt %s --sx-autodiff | FileCheck %s
// RUN: sexpgpu-opt %s --sx-autodiff --sx-simplify | FileCheck %s --check-prefix=CLEAN

// Before anything cleans up: what no trained parameter reaches gets no cotangent. The exponential depends on the batch
// alone, the tanh on a frozen parameter alone.
// CHECK-LABEL: func.func @train(
// CHECK: %[[E:.*]] = "sx.exp"(%arg1)
// CHECK: %[[T:.*]] = "sx.tanh"(%arg2)
// CHECK: "sx.sum"
// CHECK: "sx.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK-NOT: "sx.mul"({{.*}}%[[T]]
// CHECK-NOT: "sx.exp"
// CHECK: return
// The gradient is a factor that the forward pass made: afterwards nothing is left to compute.
// CLEAN-LABEL: func.func @train(
// CLEAN: %[[C:.*]] = "sx.mul"(%0, %1)
// CLEAN: "sx.sum"
// CLEAN-NEXT: return %{{.*}}, %[[C]] : tensor<f32>, tensor<4xf32>
func.func @train(%w: tensor<4xf32> {sx.param = "w"}, %x: tensor<4xf32> {sx.field = "x"}, %f: tensor<4xf32> {sx.param = "f", sx.frozen})
    -> (tensor<f32> {sx.loss = "loss"}) {
  %e = "sx.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %t = "sx.tanh"(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %c = "sx.mul"(%e, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %p = "sx.mul"(%w, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = "sx.sum"(%p) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// A metric beside the loss gets no cotangent; integers and tests carry none.
// CHECK-LABEL: func.func @beside(
// CHECK: %[[M:.*]] = "sx.amax"
// CHECK: %[[ONE:.*]] = "sx.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK-NOT: "sx.eq"
// CHECK: "sx.where"(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK: return %[[M]]
func.func @beside(%w: tensor<4xf32> {sx.param = "w"}) -> (tensor<f32> {sx.metric = "m", sx.reduce = "max"}, tensor<f32> {sx.loss = "loss"}) {
  %z = "sx.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %g = "sx.gt"(%w, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %r = "sx.where"(%g, %w, %z) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %m = "sx.amax"(%w) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  %l = "sx.sum"(%r) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %m, %l : tensor<f32>, tensor<f32>
}
