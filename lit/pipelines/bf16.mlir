// RUN: sexpgpu-opt %s --pipeline shared --pipeline cpu | FileCheck %s
// RUN: sexpgpu-opt %s --pipeline shared --pipeline cpu --sx-verify > /dev/null

// From a graph as it is traced to one that a device runs, under the policy that the module states: bf16 products, an f32
// gradient from the sums, the elementwise rest in groups, all of it in an arena.
module attributes {sx.precision = "bf16"} {
// CHECK: module attributes {sx.precision = "bf16"}
// CHECK-LABEL: func.func @train(
// CHECK-SAME: -> (tensor<f32> {sx.loss = "loss"}, tensor<64x32xf32> {sx.grad = "w"})
// CHECK-SAME: sx.arena = {{[0-9]+}} : i64
// CHECK: "sx.matmul"({{.*}}) {sx.at = array<i64: {{[0-9]+}}>} : (tensor<128x64xbf16>, tensor<64x32xbf16>) -> tensor<128x32xbf16>
// CHECK: call @{{[a-z]+}}_{{[0-9]+}}
// CHECK: %[[W:.*]] = "sx.matmul_wide"({{.*}}) : (tensor<64x128xbf16>, tensor<128x32xbf16>) -> tensor<64x32xf32>
// CHECK: return {{.*}}%[[W]]
func.func @train(%x: tensor<128x64xf32> {sx.field = "x"}, %w: tensor<64x32xf32> {sx.param = "w"})
    -> (tensor<f32> {sx.loss = "loss"}) attributes {sx.graph = "train"} {
  %p = "sx.matmul"(%x, %w) : (tensor<128x64xf32>, tensor<64x32xf32>) -> tensor<128x32xf32>
  %r = "sx.relu"(%p) : (tensor<128x32xf32>) -> tensor<128x32xf32>
  %q = "sx.square"(%r) : (tensor<128x32xf32>) -> tensor<128x32xf32>
  %l = "sx.sum"(%q) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<128x32xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
}
