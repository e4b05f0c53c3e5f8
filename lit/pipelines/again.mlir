// RUN: sexpgpu-opt %s --sx-simplify > %t.once
// RUN: sexpgpu-opt %t.once --sx-simplify | diff %t.once -
// RUN: sexpgpu-opt %s --pipeline shared > %t.shared
// RUN: sexpgpu-opt %t.shared --sx-step-sums --sx-simplify --sx-raise --sx-autodiff --sx-accumulate --sx-recompute | diff %t.shared -
// RUN: sexpgpu-opt %s --pipeline cpu > %t.cpu
// RUN: sexpgpu-opt %t.cpu --sx-schedule --sx-plan-memory | diff %t.cpu -
// RUN: FileCheck %s < %t.shared

// A pass that has done its work finds nothing more to do: one sweep of simplify is enough, a differentiated graph is not
// differentiated again, and the same arena is laid out twice.
// CHECK: sx.grad = "w"
func.func @train(%x: tensor<128x64xf32> {sx.field = "x"}, %w: tensor<64xf32> {sx.param = "w"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %two = "sx.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %half = "sx.reciprocal"(%two) : (tensor<f32>) -> tensor<f32>
  %one = "sx.mul"(%two, %half) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %ones = "sx.broadcast"(%one) {shape = array<i64: 64>} : (tensor<f32>) -> tensor<64xf32>
  %v = "sx.mul"(%w, %ones) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %r = "sx.reshape"(%v) {shape = array<i64: 1, 64>} : (tensor<64xf32>) -> tensor<1x64xf32>
  %b = "sx.broadcast"(%r) {shape = array<i64: 128, 64>} : (tensor<1x64xf32>) -> tensor<128x64xf32>
  %p = "sx.mul"(%x, %b) : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32>
  %n = "sx.neg"(%p) : (tensor<128x64xf32>) -> tensor<128x64xf32>
  %m = "sx.neg"(%n) : (tensor<128x64xf32>) -> tensor<128x64xf32>
  %s = "sx.softmax"(%m) {axis = 1 : i64} : (tensor<128x64xf32>) -> tensor<128x64xf32>
  %q = "sx.square"(%s) : (tensor<128x64xf32>) -> tensor<128x64xf32>
  %l = "sx.sum"(%q) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<128x64xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
