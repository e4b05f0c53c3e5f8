// RUN: sexpgpu-opt %s --sx-simplify | FileCheck %s

// A product that is only read transposed is made transposed: its operands are views, a transposed result a copy.
// CHECK-LABEL: func.func @transposed
// CHECK: %[[B:.*]] = "sx.transpose"(%arg1) {perm = array<i64: 1, 0>}
// CHECK-NEXT: %[[A:.*]] = "sx.transpose"(%arg0) {perm = array<i64: 1, 0>}
// CHECK-NEXT: %[[P:.*]] = "sx.matmul"(%[[B]], %[[A]])
// CHECK-NEXT: return %[[P]]
func.func @transposed(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<4x2xf32> {
  %p = "sx.matmul"(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %t = "sx.transpose"(%p) {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  func.return %t : tensor<4x2xf32>
}

// Read as it is too: nothing would be saved.
// CHECK-LABEL: func.func @read_twice
// CHECK: %[[P:.*]] = "sx.matmul"(%arg0, %arg1)
// CHECK-NEXT: "sx.transpose"(%[[P]])
func.func @read_twice(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> (tensor<4x2xf32>, tensor<2x4xf32>) {
  %p = "sx.matmul"(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %t = "sx.transpose"(%p) {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  func.return %t, %p : tensor<4x2xf32>, tensor<2x4xf32>
}

// Axes in front change places: that is no transposed product.
// CHECK-LABEL: func.func @other_axes
// CHECK: "sx.matmul"(%arg0, %arg1)
// CHECK-NEXT: "sx.transpose"
func.func @other_axes(%a: tensor<5x2x3xf32>, %b: tensor<5x3x4xf32>) -> tensor<2x5x4xf32> {
  %p = "sx.matmul"(%a, %b) : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  %t = "sx.transpose"(%p) {perm = array<i64: 1, 0, 2>} : (tensor<5x2x4xf32>) -> tensor<2x5x4xf32>
  func.return %t : tensor<2x5x4xf32>
}

// The gradient of a tied table: lines are added to what the product gave, not to zeros that are added to it.
// CHECK-LABEL: func.func @scattered
// CHECK-NOT: sx.constant
// CHECK: "sx.scatter_add"(%arg0, %arg1, %arg2) {axis = 0 : i64}
// CHECK-NOT: sx.add
// CHECK: return
func.func @scattered(%x: tensor<5x2xf32>, %i: tensor<3xi32>, %u: tensor<3x2xf32>) -> tensor<5x2xf32> {
  %z = "sx.constant"() {value = dense<0.0> : tensor<5x2xf32>} : () -> tensor<5x2xf32>
  %s = "sx.scatter_add"(%z, %i, %u) {axis = 0} : (tensor<5x2xf32>, tensor<3xi32>, tensor<3x2xf32>) -> tensor<5x2xf32>
  %r = "sx.add"(%s, %x) : (tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<5x2xf32>
  func.return %r : tensor<5x2xf32>
}
