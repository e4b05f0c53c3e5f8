// RUN: sexpgpu-opt %s --sx-autodiff --sx-simplify --sx-verify | FileCheck %s

// A loop forwards that keeps what the derivative reads, and one backwards over what it kept. The shared weight's gradient
// is a state that adds up; the items' gradients are outs.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: tensor<3xf32> {sx.grad = "w"}
// CHECK: %[[F:.*]]:2 = call @[[FORWARD:[a-z_.0-9]+]](%{{.*}}) : ({{.*}}) -> (tensor<3xf32>, tensor<5x3xf32>)
// CHECK: "sx.sum"(%[[F]]#0)
// CHECK: %[[B:.*]]:2 = call @[[BACK:[a-z_.0-9]+]]({{.*}}%[[F]]#1{{.*}})
// CHECK: return %{{.*}}, %[[B]]#1
// CHECK-DAG: func.func private @[[FORWARD]]({{.*}}sx.states = 1 : i64
// CHECK-DAG: func.func private @[[BACK]]({{.*}}sx.reverse
func.func @train(%h: tensor<3xf32> {sx.field = "h"}, %xs: tensor<5x3xf32> {sx.field = "xs"}, %w: tensor<3xf32> {sx.param = "w"})
    -> (tensor<f32> {sx.loss = "loss"}) {
  %r = call @loop(%h, %xs, %w) : (tensor<3xf32>, tensor<5x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %l = "sx.sum"(%r) {axes = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
func.func private @cell(%h: tensor<3xf32>, %x: tensor<3xf32>, %w: tensor<3xf32>) -> tensor<3xf32> {
  %m = "sx.mul"(%h, %w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %n = "sx.add"(%m, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %n : tensor<3xf32>
}
func.func private @loop(tensor<3xf32>, tensor<5x3xf32>, tensor<3xf32>) -> tensor<3xf32>
    attributes {sx.body = @cell, sx.states = 1 : i64, sx.items = array<i64: 0>, sx.outs = array<i64>}
