// RUN: sexpgpu-opt %s --sx-plan-memory | FileCheck %s

// A fused group needs room for what its tiles make on the way, here the sums of two lines; the second number is where
// that begins.
// CHECK-LABEL: func.func @grouped
// CHECK-SAME: sx.arena = 64 : i64
// CHECK: %[[R:.*]] = call @pointwise_1(%arg0) {sx.at = array<i64: -1, 0>}
// CHECK-NEXT: return %[[R]]
func.func @grouped(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %r = func.call @pointwise_1(%x) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  func.return %r : tensor<16x64xf32>
}
func.func private @pointwise_1(%x: tensor<16x64xf32>) -> tensor<16x64xf32>
    attributes {sx.group = "pointwise", sx.tile = array<i64: 2>, sx.tiled = array<i64: 1, 1>} {
  %a = "sx.sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<16x64xf32>) -> tensor<16x1xf32>
  %b = "sx.broadcast"(%a) {shape = array<i64: 16, 64>} : (tensor<16x1xf32>) -> tensor<16x64xf32>
  %c = "sx.sub"(%x, %b) : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  func.return %c : tensor<16x64xf32>
}

// A loop keeps two sets of its states beside the arena of its body, which needs none: exp is made in the next state.
// CHECK-LABEL: func.func @looped
// CHECK-SAME: sx.arena = 128 : i64
// CHECK: call @scan(%arg0, %arg1) {sx.at = array<i64: -1, 0>}
func.func @looped(%first: tensor<4xf32>, %items: tensor<10x4xf32>) -> tensor<4xf32> {
  %last = func.call @scan(%first, %items) : (tensor<4xf32>, tensor<10x4xf32>) -> tensor<4xf32>
  func.return %last : tensor<4xf32>
}
func.func private @cell(%state: tensor<4xf32>, %item: tensor<4xf32>) -> tensor<4xf32> {
  %a = "sx.exp"(%item) : (tensor<4xf32>) -> tensor<4xf32>
  %b = "sx.add"(%state, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}
func.func private @scan(tensor<4xf32>, tensor<10x4xf32>) -> tensor<4xf32>
    attributes {sx.body = @cell, sx.states = 1 : i64, sx.items = array<i64: 0>, sx.outs = array<i64>}
