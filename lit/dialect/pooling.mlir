// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/pooling.py parses, verifies and prints as it was: pools and what brings their cotangents back.

// CHECK-LABEL: @pool_max(
func.func @pool_max(%x: tensor<2x3x6xf64>) -> tensor<2x3x3xf64> {
  // CHECK: "sx.pool_max"({{.*}}) {high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 2>} : (tensor<2x3x6xf64>) -> tensor<2x3x3xf64>
  %0 = "sx.pool_max"(%x) {high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 2>} : (tensor<2x3x6xf64>) -> tensor<2x3x3xf64>
  return %0 : tensor<2x3x3xf64>
}

// CHECK-LABEL: @pool_argmax(
func.func @pool_argmax(%x: tensor<2x3x6xf64>) -> tensor<2x3x3xi32> {
  // CHECK: "sx.pool_argmax"({{.*}}) {high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 2>} : (tensor<2x3x6xf64>) -> tensor<2x3x3xi32>
  %0 = "sx.pool_argmax"(%x) {high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 2>} : (tensor<2x3x6xf64>) -> tensor<2x3x3xi32>
  return %0 : tensor<2x3x3xi32>
}

// CHECK-LABEL: @pool_max_grad(
func.func @pool_max_grad(%g: tensor<2x3x3xf64>, %x: tensor<2x3x6xf64>) -> tensor<2x3x6xf64> {
  // CHECK: "sx.pool_max_grad"({{.*}}) {high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 2>} : (tensor<2x3x3xf64>, tensor<2x3x6xf64>) -> tensor<2x3x6xf64>
  %0 = "sx.pool_max_grad"(%g, %x) {high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 2>} : (tensor<2x3x3xf64>, tensor<2x3x6xf64>) -> tensor<2x3x6xf64>
  return %0 : tensor<2x3x6xf64>
}

// CHECK-LABEL: @pool_mean(
func.func @pool_mean(%x: tensor<2x3x6xf64>) -> tensor<2x3x3xf64> {
  // CHECK: "sx.pool_mean"({{.*}}) {high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 2>} : (tensor<2x3x6xf64>) -> tensor<2x3x3xf64>
  %0 = "sx.pool_mean"(%x) {high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, stride = array<i64: 2>} : (tensor<2x3x6xf64>) -> tensor<2x3x3xf64>
  return %0 : tensor<2x3x3xf64>
}

// CHECK-LABEL: @pool_mean_grad(
func.func @pool_mean_grad(%g: tensor<2x3x3xf64>) -> tensor<2x3x6xf64> {
  // CHECK: "sx.pool_mean_grad"({{.*}}) {high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, size = array<i64: 6>, stride = array<i64: 2>} : (tensor<2x3x3xf64>) -> tensor<2x3x6xf64>
  %0 = "sx.pool_mean_grad"(%g) {high = array<i64: 0>, kernel = array<i64: 2>, low = array<i64: 0>, size = array<i64: 6>, stride = array<i64: 2>} : (tensor<2x3x3xf64>) -> tensor<2x3x6xf64>
  return %0 : tensor<2x3x6xf64>
}
