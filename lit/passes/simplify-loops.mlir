// RUN: sexpgpu-opt %s --sx-simplify --sx-verify | FileCheck %s

// The shared value and the item that the body does not read go, and so does the state that only feeds itself; one item
// stays, since it says how often the body runs.
// CHECK-LABEL: func.func @train(
// CHECK: %[[R:.*]] = call @[[LOOP:[a-z_0-9]+]](%arg0, %arg2) : (tensor<3xf32>, tensor<5x2xf32>) -> tensor<3xf32>
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @[[BODY:[a-z_0-9]+]](%arg0: tensor<3xf32>, %arg1: tensor<2xf32>) -> tensor<3xf32>
// CHECK-NEXT: %[[N:.*]] = "sx.sin"(%arg0)
// CHECK-NEXT: return %[[N]]
// CHECK: func.func private @[[LOOP]](
// CHECK-SAME: sx.body = @[[BODY]], sx.items = array<i64: 0>, sx.outs = array<i64>, sx.states = 1 : i64
func.func @train(%h: tensor<3xf32>, %c: tensor<i32>, %xs: tensor<5x2xf32>, %ys: tensor<5x3xf32>, %w: tensor<3xf32>) -> tensor<3xf32> {
  %r:2 = call @loop(%h, %c, %xs, %ys, %w) : (tensor<3xf32>, tensor<i32>, tensor<5x2xf32>, tensor<5x3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<i32>)
  return %r#0 : tensor<3xf32>
}
func.func private @body(%h: tensor<3xf32>, %c: tensor<i32>, %x: tensor<2xf32>, %y: tensor<3xf32>, %w: tensor<3xf32>) -> (tensor<3xf32>, tensor<i32>) {
  %n = "sx.sin"(%h) : (tensor<3xf32>) -> tensor<3xf32>
  %p = "sx.add"(%c, %c) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %n, %p : tensor<3xf32>, tensor<i32>
}
func.func private @loop(tensor<3xf32>, tensor<i32>, tensor<5x2xf32>, tensor<5x3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<i32>)
    attributes {sx.body = @body, sx.states = 2 : i64, sx.items = array<i64: 0, 0>, sx.outs = array<i64>}

// A private function that nothing names goes.
// CHECK-NOT: @orphan
func.func private @orphan(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
