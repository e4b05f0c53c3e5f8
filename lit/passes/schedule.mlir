// RUN: sexpgpu-opt %s --sx-schedule | FileCheck %s

// Each sum frees what it reads: the other order keeps both exponentials.
// CHECK-LABEL: func.func @two_sums
// CHECK: %[[A:.*]] = "sx.exp"(%arg0)
// CHECK-NEXT: %[[S:.*]] = "sx.sum"(%[[A]])
// CHECK-NEXT: %[[B:.*]] = "sx.exp"(%arg1)
// CHECK-NEXT: %[[T:.*]] = "sx.sum"(%[[B]])
// CHECK-NEXT: "sx.add"(%[[S]], %[[T]])
func.func @two_sums(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<f32> {
  %a = "sx.exp"(%x) : (tensor<1024xf32>) -> tensor<1024xf32>
  %b = "sx.exp"(%y) : (tensor<1024xf32>) -> tensor<1024xf32>
  %s = "sx.sum"(%a) {axes = array<i64: 0>, keepdims = false} : (tensor<1024xf32>) -> tensor<f32>
  %t = "sx.sum"(%b) {axes = array<i64: 0>, keepdims = false} : (tensor<1024xf32>) -> tensor<f32>
  %r = "sx.add"(%s, %t) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return %r : tensor<f32>
}

// Nothing is gained, so what was written first stays first.
// CHECK-LABEL: func.func @as_written
// CHECK: "sx.exp"(%arg0)
// CHECK-NEXT: "sx.neg"(%arg0)
// CHECK-NEXT: "sx.add"
func.func @as_written(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = "sx.exp"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = "sx.neg"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %c = "sx.add"(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return %c : tensor<8xf32>
}

// A clone would lower the peak if it came first; it stays behind what it was put behind.
// CHECK-LABEL: func.func @clones_come_late
// CHECK: %[[K:.*]] = "sx.exp"(%arg0)
// CHECK-NEXT: "sx.sum"(%[[K]])
// CHECK-NEXT: "sx.tanh"(%arg1) {sx.recompute = 1
func.func @clones_come_late(%x: tensor<64xf32>, %y: tensor<8xf32>) -> (tensor<f32>, tensor<f32>) {
  %k = "sx.exp"(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %s = "sx.sum"(%k) {axes = array<i64: 0>, keepdims = false} : (tensor<64xf32>) -> tensor<f32>
  %c = "sx.tanh"(%y) {sx.recompute = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  %d = "sx.sum"(%c) {axes = array<i64: 0>, keepdims = false} : (tensor<8xf32>) -> tensor<f32>
  func.return %s, %d : tensor<f32>, tensor<f32>
}
