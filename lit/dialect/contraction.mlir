// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/contraction.py parses, verifies and prints as it was: the matrix product.

// CHECK-LABEL: @matmul(
func.func @matmul(%x: tensor<2x3xf64>, %y: tensor<3x4xf64>) -> tensor<2x4xf64> {
  // CHECK: "sx.matmul"({{.*}}) : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
  %0 = "sx.matmul"(%x, %y) : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}

// CHECK-LABEL: @matmul_wide(
// CHECK: "sx.matmul_wide"({{.*}}) : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>
func.func @matmul_wide(%x: tensor<2x3xbf16>, %y: tensor<3x4xbf16>) -> tensor<2x4xf32> {
  %0 = "sx.matmul_wide"(%x, %y) : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
