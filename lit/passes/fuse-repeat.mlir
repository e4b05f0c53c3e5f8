// RUN: sexpgpu-opt %s --sx-fuse=target=cpu | FileCheck %s

// The second group reads %x and %r already: it computes their product for itself, and the first does not write it.
// CHECK-LABEL: func.func @train(
// CHECK-NEXT: %[[A:.*]] = call @pointwise_1(%arg0, %arg1)
// CHECK-NEXT: %[[P:.*]] = "sx.matmul"(%[[A]], %arg2)
// CHECK-NEXT: %[[G:.*]] = call @pointwise_2({{.*}})
// CHECK-NEXT: return %[[G]]
func.func @train(%x: tensor<128x128xf32>, %r: tensor<128x128xf32>, %w: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %n = "sx.mul"(%x, %r) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %a = "sx.tanh"(%n) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %p = "sx.matmul"(%a, %w) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %h = "sx.mul"(%p, %x) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %i = "sx.add"(%h, %r) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %g = "sx.mul"(%i, %n) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %g : tensor<128x128xf32>
}

// An exponential costs more than reading its value.
// CHECK-LABEL: func.func @dear(
// CHECK-NEXT: %[[A:.*]]:2 = call @pointwise_3(%arg0)
func.func @dear(%x: tensor<128x128xf32>, %w: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %n = "sx.exp"(%x) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %a = "sx.tanh"(%n) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %p = "sx.matmul"(%a, %w) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %h = "sx.mul"(%p, %x) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %g = "sx.mul"(%h, %n) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %g : tensor<128x128xf32>
}

// CHECK: func.func private @pointwise_2(
// CHECK-SAME: -> tensor<128x128xf32>
// CHECK-NEXT: "sx.mul"(%arg0, %arg1)
