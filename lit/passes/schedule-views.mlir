// RUN: sexpgpu-opt %s --sx-schedule | FileCheck %s

// A view frees nothing: as long as the transpose is read, so is the tensor that it shows. So the product that reads it
// comes before the other branch makes its own tensor.
// CHECK-LABEL: func.func @views(
// CHECK: %[[A:.*]] = "sx.exp"(%arg0)
// CHECK-NEXT: %[[T:.*]] = "sx.transpose"(%[[A]])
// CHECK-NEXT: %[[S:.*]] = "sx.sum"(%[[T]])
// CHECK-NEXT: "sx.exp"(%arg1)
func.func @views(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> tensor<32xf32> {
  %a = "sx.exp"(%x) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %b = "sx.exp"(%y) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %t = "sx.transpose"(%a) {perm = array<i64: 1, 0>} : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %s = "sx.sum"(%t) {axes = array<i64: 1>, keepdims = false} : (tensor<32x64xf32>) -> tensor<32xf32>
  %u = "sx.sum"(%b) {axes = array<i64: 0>, keepdims = false} : (tensor<64x32xf32>) -> tensor<32xf32>
  %r = "sx.add"(%s, %u) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %r : tensor<32xf32>
}

// A result of the graph is the caller's memory and weighs nothing, so the small tensor that lives on is made last.
// CHECK-LABEL: func.func @results(
// CHECK: "sx.exp"(%arg0)
// CHECK-NEXT: "sx.sum"
// CHECK-NEXT: "sx.cos"(%arg1)
// CHECK-NEXT: return
func.func @results(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<f32>) {
  %a = "sx.exp"(%x) : (tensor<1024xf32>) -> tensor<1024xf32>
  %s = "sx.sum"(%a) {axes = array<i64: 0>, keepdims = false} : (tensor<1024xf32>) -> tensor<f32>
  %b = "sx.cos"(%y) : (tensor<1024xf32>) -> tensor<1024xf32>
  return %b, %s : tensor<1024xf32>, tensor<f32>
}
