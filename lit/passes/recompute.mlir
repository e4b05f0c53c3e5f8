// RUN: sexpgpu-opt %s --sx-autodiff --sx-recompute --sx-simplify | FileCheck %s

// The exponentials of the region are computed again before their first gradient; %b, which the sum after it reads, is not.
// CHECK-LABEL: func.func @train(
// CHECK: %[[A:.*]] = "sx.sin"(%arg0) : (tensor<4xf32>)
// CHECK: %[[B:.*]] = "sx.exp"(%[[A]]) : (tensor<4xf32>)
// CHECK: %[[L:.*]] = "sx.sum"
// CHECK: %[[C:.*]] = "sx.cos"
// CHECK-NOT: "sx.exp"
// CHECK: return %[[L]]
func.func @train(%w: tensor<4xf32> {sx.param = "w"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %a = "sx.sin"(%w) {sx.checkpoint = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "sx.exp"(%a) {sx.checkpoint = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %l = "sx.sum"(%b) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// The first exponential feeds the second alone: only its copy lives on into the gradients.
// CHECK-LABEL: func.func @deep(
// CHECK: %[[A:.*]] = "sx.exp"(%arg0) : (tensor<4xf32>)
// CHECK: "sx.exp"(%[[A]]) : (tensor<4xf32>)
// CHECK: "sx.sum"
// CHECK: %[[R:.*]] = "sx.exp"(%arg0) {sx.recompute = 1 : i64}
// CHECK: "sx.mul"({{.*}}%[[R]])
// CHECK-NOT: sx.backward
// CHECK-NOT: sx.checkpoint
func.func @deep(%w: tensor<4xf32> {sx.param = "w"}) -> (tensor<f32> {sx.loss = "loss"}) attributes {sx.graph = "deep"} {
  %a = "sx.exp"(%w) {sx.checkpoint = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "sx.exp"(%a) {sx.checkpoint = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %l = "sx.sum"(%b) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
