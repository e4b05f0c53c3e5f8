// RUN: sexpgpu-opt %s --sx-step-sums | FileCheck %s

// The share of a microbatch is computed by a graph of its own that reads the batch alone.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: {sx.param = "w"}
// CHECK-SAME: {sx.field = "x"}
// CHECK-SAME: {sx.step_sum = "n"}
// CHECK-SAME: -> (tensor<f32> {sx.loss = "loss"})
// CHECK-LABEL: func.func @train_sums(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32> {sx.field = "x"}) -> (tensor<f32> {sx.step_term = "n"}) attributes {sx.graph = "train sums"}
// CHECK-NEXT: %[[N:.*]] = "sx.sum"(%[[X]])
// CHECK-NEXT: return %[[N]]
func.func @train(%w: tensor<4xf32> {sx.param = "w"}, %x: tensor<4xf32> {sx.field = "x"}, %n: tensor<f32> {sx.step_sum = "n"})
    -> (tensor<f32> {sx.step_term = "n"}, tensor<f32> {sx.loss = "loss"}) attributes {sx.graph = "train"} {
  %k = "sx.sum"(%x) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  %p = "sx.mul"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = "sx.sum"(%p) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  %l = "sx.div"(%s, %n) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %k, %l : tensor<f32>, tensor<f32>
}
