// RUN: sexpgpu-opt %s --sx-plan-memory | FileCheck %s

// What the caller gives or gets takes no room: arguments, results, views of either; a graph of nothing else has an empty
// arena.
// CHECK-LABEL: func.func @none(
// CHECK-SAME: sx.arena = 0 : i64, sx.live = 0 : i64
// CHECK-NOT: sx.at
// CHECK: return
func.func @none(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %t = "sx.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = "sx.exp"(%t) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y, %x : tensor<64x64xf32>, tensor<64x64xf32>
}

// A result that later operations read as well is in the caller's memory all the same.
// CHECK-LABEL: func.func @read_again(
// CHECK-SAME: sx.arena = 16384 : i64
// CHECK: %[[Y:.*]] = "sx.exp"(%arg0) : (tensor<64x64xf32>)
// CHECK-NEXT: "sx.matmul"(%[[Y]], %[[Y]]) {sx.at = array<i64: 0>}
func.func @read_again(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %y = "sx.exp"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %p = "sx.matmul"(%y, %y) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = "sx.sum"(%p) {axes = array<i64: 0>, keepdims = false} : (tensor<64x64xf32>) -> tensor<64xf32>
  return %y, %s : tensor<64x64xf32>, tensor<64xf32>
}

// Nothing is written over an argument, which the caller keeps, though it dies here; nor over what a view still shows.
// CHECK-LABEL: func.func @kept(
// CHECK-SAME: sx.arena = 49152 : i64
// CHECK: %[[A:.*]] = "sx.neg"(%arg0) {sx.at = array<i64: 0>}
// CHECK-NEXT: %[[T:.*]] = "sx.transpose"(%[[A]])
// CHECK-NEXT: %[[B:.*]] = "sx.exp"(%[[A]]) {sx.at = array<i64: 16384>}
// CHECK-NEXT: "sx.matmul"(%[[B]], %[[T]]) {sx.at = array<i64: 32768>}
func.func @kept(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %a = "sx.neg"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %t = "sx.transpose"(%a) {perm = array<i64: 1, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = "sx.exp"(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %p = "sx.matmul"(%b, %t) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = "sx.sum"(%p) {axes = array<i64: 0>, keepdims = false} : (tensor<64x64xf32>) -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// Of an operation with two results each has an offset, one that is a result of the graph -1. Places are multiples of 64.
// CHECK-LABEL: func.func @two(
// CHECK: "sx.cross_entropy"(%{{.*}}, %arg1) {outside = "error", sx.at = array<i64: -1, 64>}
// CHECK: "sx.exp"(%{{.*}}) {sx.at = array<i64: 64>} : (tensor<3xf32>)
func.func @two(%x: tensor<3x5xf32>, %t: tensor<3xi32>) -> (tensor<3xf32>, tensor<f32>) {
  %n = "sx.neg"(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %l:2 = "sx.cross_entropy"(%n, %t) {outside = "error"} : (tensor<3x5xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xf32>)
  %e = "sx.exp"(%l#1) : (tensor<3xf32>) -> tensor<3xf32>
  %s = "sx.sum"(%e) {axes = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
  return %l#0, %s : tensor<3xf32>, tensor<f32>
}
