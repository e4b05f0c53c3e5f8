// RUN: sexpgpu-opt %s --sx-verify --sx-simplify | FileCheck %s
// RUN: sexpgpu-opt %s --sx-autodiff --sx-simplify | FileCheck %s --check-prefix=GRAD

// A loop is a call of a declaration that names its body. An out that nobody reads goes, and what made it.
// CHECK-LABEL: func.func @train(
// CHECK: call @sum{{.*}}(%arg0, %arg1) : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
// CHECK-NOT: sx.exp
// GRAD-LABEL: func.func @train(
// GRAD: call @body{{.*}}.back(
// GRAD: func.func private @body{{.*}}.back(
// GRAD-SAME: sx.reverse
func.func @train(%h: tensor<3xf32> {sx.param = "h"}, %xs: tensor<5x3xf32> {sx.param = "xs"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %r:2 = call @sum(%h, %xs) : (tensor<3xf32>, tensor<5x3xf32>) -> (tensor<3xf32>, tensor<5x3xf32>)
  %l = "sx.sum"(%r#0) {axes = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
func.func private @sum(tensor<3xf32>, tensor<5x3xf32>) -> (tensor<3xf32>, tensor<5x3xf32>)
    attributes {sx.body = @body, sx.states = 1 : i64, sx.items = array<i64: 0>, sx.outs = array<i64: 0>}
func.func private @body(%h: tensor<3xf32>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %n = "sx.mul"(%h, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %y = "sx.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %n, %y : tensor<3xf32>, tensor<3xf32>
}
