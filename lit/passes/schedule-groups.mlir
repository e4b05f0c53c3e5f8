// RUN: sexpgpu-opt %s --sx-schedule --sx-plan-memory | FileCheck %s
// RUN: sexpgpu-opt %s --sx-plan-memory | FileCheck %s --check-prefix=WRITTEN

// A group counts with what it makes, as an operation does: each sum right after its group, and an arena of one tensor
// instead of two.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: sx.arena = [[ONE:[0-9]+]] : i64, sx.live = [[ONE]] : i64
// CHECK: %[[A:.*]] = call @pointwise_1(%arg0)
// CHECK-NEXT: "sx.sum"(%[[A]])
// CHECK-NEXT: %[[B:.*]] = call @pointwise_2(%arg1)
// CHECK-NEXT: "sx.sum"(%[[B]])
// WRITTEN: call @pointwise_1
// WRITTEN-NEXT: call @pointwise_2
func.func @train(%x: tensor<512x64xf32>, %y: tensor<512x64xf32>) -> tensor<f32> {
  %a = call @pointwise_1(%x) : (tensor<512x64xf32>) -> tensor<512x64xf32>
  %b = call @pointwise_2(%y) : (tensor<512x64xf32>) -> tensor<512x64xf32>
  %s = "sx.sum"(%a) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<512x64xf32>) -> tensor<f32>
  %t = "sx.sum"(%b) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<512x64xf32>) -> tensor<f32>
  %r = "sx.add"(%s, %t) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}

// The operations inside a group keep their order: a tile is too small for it to matter.
// CHECK-LABEL: func.func private @pointwise_1(
// CHECK-NEXT: sx.exp
// CHECK-NEXT: sx.neg
// CHECK-NEXT: sx.add
func.func private @pointwise_1(%x: tensor<512x64xf32>) -> tensor<512x64xf32>
    attributes {sx.group = "pointwise", sx.tile = array<i64: 64>, sx.tiled = array<i64: 1, 1>} {
  %a = "sx.exp"(%x) : (tensor<512x64xf32>) -> tensor<512x64xf32>
  %b = "sx.neg"(%x) : (tensor<512x64xf32>) -> tensor<512x64xf32>
  %c = "sx.add"(%a, %b) : (tensor<512x64xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
  return %c : tensor<512x64xf32>
}
func.func private @pointwise_2(%x: tensor<512x64xf32>) -> tensor<512x64xf32>
    attributes {sx.group = "pointwise", sx.tile = array<i64: 64>, sx.tiled = array<i64: 1, 1>} {
  %a = "sx.sin"(%x) : (tensor<512x64xf32>) -> tensor<512x64xf32>
  %b = "sx.neg"(%a) : (tensor<512x64xf32>) -> tensor<512x64xf32>
  return %b : tensor<512x64xf32>
}
