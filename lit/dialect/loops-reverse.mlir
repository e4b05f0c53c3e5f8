// RUN: sexpgpu-opt %s --sx-verify | FileCheck %s
// RUN: sexpgpu-opt %s --sx-verify | sexpgpu-opt - --sx-verify | FileCheck %s

// A loop that starts at the last place, over axis 1 of one item and axis 0 of another, with a shared value, one state and
// two outs on other axes: each part survives printing.
// CHECK-LABEL: func.func @f(
// CHECK-NEXT: %[[R:.*]]:3 = call @back(%arg0, %arg1, %arg2, %arg3)
// CHECK-SAME: (tensor<3xf32>, tensor<3x5xf32>, tensor<5xi32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<5x3xf32>, tensor<3x5xf32>)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1, %[[R]]#2
// CHECK: func.func private @cell(
// CHECK: func.func private @back(
// CHECK-SAME: sx.body = @cell, sx.items = array<i64: 1, 0>, sx.outs = array<i64: 0, 1>, sx.reverse, sx.states = 1 : i64
func.func @f(%h: tensor<3xf32>, %xs: tensor<3x5xf32>, %ts: tensor<5xi32>, %w: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<5x3xf32>, tensor<3x5xf32>) {
  %r:3 = call @back(%h, %xs, %ts, %w) : (tensor<3xf32>, tensor<3x5xf32>, tensor<5xi32>, tensor<3xf32>)
      -> (tensor<3xf32>, tensor<5x3xf32>, tensor<3x5xf32>)
  return %r#0, %r#1, %r#2 : tensor<3xf32>, tensor<5x3xf32>, tensor<3x5xf32>
}
func.func private @cell(%h: tensor<3xf32>, %x: tensor<3xf32>, %t: tensor<i32>, %w: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %f = "sx.cast"(%t) {dtype = f32} : (tensor<i32>) -> tensor<f32>
  %b = "sx.broadcast"(%f) {shape = array<i64: 3>} : (tensor<f32>) -> tensor<3xf32>
  %n = "sx.mul"(%h, %w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %o = "sx.add"(%x, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %n, %o, %h : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
func.func private @back(tensor<3xf32>, tensor<3x5xf32>, tensor<5xi32>, tensor<3xf32>)
    -> (tensor<3xf32>, tensor<5x3xf32>, tensor<3x5xf32>)
    attributes {sx.body = @cell, sx.states = 1 : i64, sx.items = array<i64: 1, 0>, sx.outs = array<i64: 0, 1>, sx.reverse}
