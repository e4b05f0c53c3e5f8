// RUN: sexpgpu-opt %s --sx-fuse=target=cpu | FileCheck %s

// What is computed again for the gradients stays out of the groups that run before them, though it reads the same
// tensors, and joins its first gradient.
// CHECK-LABEL: func.func @train(
// CHECK-NEXT: %[[F:.*]] = call @pointwise_1(%arg0)
// CHECK-NEXT: %[[P:.*]] = "sx.matmul"(%[[F]], %arg1)
// CHECK-NEXT: %[[G:.*]] = call @pointwise_2({{.*}}%[[P]]
// CHECK-NEXT: return %[[P]], %[[G]]
func.func @train(%x: tensor<128x128xf32>, %w: tensor<128x128xf32>) -> (tensor<128x128xf32>, tensor<128x128xf32>) {
  %a = "sx.sin"(%x) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %b = "sx.exp"(%a) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %p = "sx.matmul"(%b, %w) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %c = "sx.sin"(%x) {sx.recompute = 1 : i64} : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %d = "sx.exp"(%c) {sx.recompute = 1 : i64} : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %g = "sx.mul"(%p, %d) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %p, %g : tensor<128x128xf32>, tensor<128x128xf32>
}

// CHECK: func.func private @pointwise_2(
// CHECK-NEXT: "sx.sin"(%{{.*}}) {sx.recompute = 1 : i64}
// CHECK-NEXT: "sx.exp"(%{{.*}}) {sx.recompute = 1 : i64}
// CHECK-NEXT: "sx.mul"
