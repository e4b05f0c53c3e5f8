// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/convolution.py parses, verifies and prints as it was: a convolution and its transposes.

// CHECK-LABEL: @conv(
func.func @conv(%x: tensor<2x3x5xf64>, %w: tensor<4x3x2xf64>) -> tensor<2x4x4xf64> {
  // CHECK: "sx.conv"({{.*}}) {dilation = array<i64: 1>, groups = 1 : i64, high = array<i64: 0>, low = array<i64: 0>, stride = array<i64: 1>} : (tensor<2x3x5xf64>, tensor<4x3x2xf64>) -> tensor<2x4x4xf64>
  %0 = "sx.conv"(%x, %w) {dilation = array<i64: 1>, groups = 1 : i64, high = array<i64: 0>, low = array<i64: 0>, stride = array<i64: 1>} : (tensor<2x3x5xf64>, tensor<4x3x2xf64>) -> tensor<2x4x4xf64>
  return %0 : tensor<2x4x4xf64>
}

// CHECK-LABEL: @conv_input_grad(
func.func @conv_input_grad(%g: tensor<2x4x4xf64>, %w: tensor<4x3x2xf64>) -> tensor<2x3x5xf64> {
  // CHECK: "sx.conv_input_grad"({{.*}}) {dilation = array<i64: 1>, groups = 1 : i64, high = array<i64: 0>, low = array<i64: 0>, size = array<i64: 5>, stride = array<i64: 1>} : (tensor<2x4x4xf64>, tensor<4x3x2xf64>) -> tensor<2x3x5xf64>
  %0 = "sx.conv_input_grad"(%g, %w) {dilation = array<i64: 1>, groups = 1 : i64, high = array<i64: 0>, low = array<i64: 0>, size = array<i64: 5>, stride = array<i64: 1>} : (tensor<2x4x4xf64>, tensor<4x3x2xf64>) -> tensor<2x3x5xf64>
  return %0 : tensor<2x3x5xf64>
}

// CHECK-LABEL: @conv_weight_grad(
func.func @conv_weight_grad(%x: tensor<2x3x5xf64>, %g: tensor<2x4x4xf64>) -> tensor<4x3x2xf64> {
  // CHECK: "sx.conv_weight_grad"({{.*}}) {dilation = array<i64: 1>, groups = 1 : i64, high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 1>} : (tensor<2x3x5xf64>, tensor<2x4x4xf64>) -> tensor<4x3x2xf64>
  %0 = "sx.conv_weight_grad"(%x, %g) {dilation = array<i64: 1>, groups = 1 : i64, high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 1>} : (tensor<2x3x5xf64>, tensor<2x4x4xf64>) -> tensor<4x3x2xf64>
  return %0 : tensor<4x3x2xf64>
}

// CHECK-LABEL: @conv_weight_grad_wide(
func.func @conv_weight_grad_wide(%x: tensor<2x3x5xbf16>, %g: tensor<2x4x4xbf16>) -> tensor<4x3x2xf32> {
  // CHECK: "sx.conv_weight_grad_wide"({{.*}}) {dilation = array<i64: 1>, groups = 1 : i64, high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 1>} : (tensor<2x3x5xbf16>, tensor<2x4x4xbf16>) -> tensor<4x3x2xf32>
  %0 = "sx.conv_weight_grad_wide"(%x, %g) {dilation = array<i64: 1>, groups = 1 : i64, high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 1>} : (tensor<2x3x5xbf16>, tensor<2x4x4xbf16>) -> tensor<4x3x2xf32>
  return %0 : tensor<4x3x2xf32>
}
