// RUN: sexpgpu-opt %s --sx-precision=policy=bf16 --sx-autodiff --sx-accumulate --sx-simplify | FileCheck %s

// The product of a gradient writes f32; that of a cotangent on its way stays bf16.
// CHECK-LABEL: func.func @train(
// CHECK: %[[H:.*]] = "sx.matmul"{{.*}} -> tensor<4x2xbf16>
// CHECK: "sx.matmul"({{.*}}) : (tensor<4x2xbf16>, tensor<2x2xbf16>) -> tensor<4x2xbf16>
// CHECK-DAG: %[[DV:.*]] = "sx.matmul_wide"({{.*}}) : (tensor<2x4xbf16>, tensor<4x2xbf16>) -> tensor<2x2xf32>
// CHECK-DAG: "sx.matmul"({{.*}}) : (tensor<4x2xbf16>, tensor<2x2xbf16>) -> tensor<4x2xbf16>
// CHECK-DAG: %[[DW:.*]] = "sx.matmul_wide"({{.*}}) : (tensor<3x4xbf16>, tensor<4x2xbf16>) -> tensor<3x2xf32>
// CHECK: return %{{.*}}, %[[DW]], %[[DV]]
func.func @train(%x: tensor<4x3xf32> {sx.field = "x"}, %w: tensor<3x2xf32> {sx.param = "w"}, %v: tensor<2x2xf32> {sx.param = "v"})
    -> (tensor<f32> {sx.loss = "loss"}) {
  %h = "sx.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %o = "sx.matmul"(%h, %v) : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %s = "sx.square"(%o) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %l = "sx.sum"(%s) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x2xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
