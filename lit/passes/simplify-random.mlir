// RUN: sexpgpu-opt %s --sx-simplify | FileCheck %s

// Numbers of one key and one counter are the same numbers: one operation makes them. Those of another key are others, and
// although a constant counter decides them all, none is folded: they would be stored where they can be drawn.
// CHECK-LABEL: func.func @drawn(
// CHECK: %[[C:.*]] = "sx.constant"
// CHECK-NEXT: %[[A:.*]] = "sx.random_bits"(%[[C]]) {key = 7 : i64
// CHECK-NEXT: %[[B:.*]] = "sx.random_bits"(%[[C]]) {key = 8 : i64
// CHECK-NEXT: %[[S:.*]] = "sx.add"(%arg0, %[[A]])
// CHECK-NEXT: return %[[S]], %[[A]], %[[B]]
func.func @drawn(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {
  %c = "sx.constant"() {value = dense<[1, 2, 3]> : tensor<3xi32>} : () -> tensor<3xi32>
  %a = "sx.random_bits"(%c) {key = 7 : i64, shape = array<i64: 4>} : (tensor<3xi32>) -> tensor<4xi32>
  %b = "sx.random_bits"(%c) {key = 7 : i64, shape = array<i64: 4>} : (tensor<3xi32>) -> tensor<4xi32>
  %d = "sx.random_bits"(%c) {key = 8 : i64, shape = array<i64: 4>} : (tensor<3xi32>) -> tensor<4xi32>
  %s = "sx.add"(%x, %a) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %s, %b, %d : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}

// What recompute cloned stands apart from what it repeats, or nothing would be saved; two equal clones are one.
// CHECK-LABEL: func.func @cloned(
// CHECK-NEXT: "sx.exp"(%arg0) :
// CHECK-NEXT: "sx.exp"(%arg0) {sx.recompute = 1 : i64}
// CHECK-NEXT: "sx.exp"(%arg0) {sx.recompute = 2 : i64}
// CHECK-NEXT: "sx.add"(%1, %1)
func.func @cloned(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = "sx.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = "sx.exp"(%x) {sx.recompute = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %c = "sx.exp"(%x) {sx.recompute = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %d = "sx.exp"(%x) {sx.recompute = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %s = "sx.add"(%b, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %s, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
