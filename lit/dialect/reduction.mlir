// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/reduction.py parses, verifies and prints as it was: reductions and the running sum.

// CHECK-LABEL: @sum(
func.func @sum(%x: tensor<2x3x4xf64>) -> tensor<2x4xf64> {
  // CHECK: "sx.sum"({{.*}}) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3x4xf64>) -> tensor<2x4xf64>
  %0 = "sx.sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3x4xf64>) -> tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}

// CHECK-LABEL: @prod(
func.func @prod(%x: tensor<2x3x4xf64>) -> tensor<2x4xf64> {
  // CHECK: "sx.prod"({{.*}}) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3x4xf64>) -> tensor<2x4xf64>
  %0 = "sx.prod"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3x4xf64>) -> tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}

// CHECK-LABEL: @amax(
func.func @amax(%x: tensor<2x3x4xf64>) -> tensor<2x4xf64> {
  // CHECK: "sx.amax"({{.*}}) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3x4xf64>) -> tensor<2x4xf64>
  %0 = "sx.amax"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3x4xf64>) -> tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}

// CHECK-LABEL: @amin(
func.func @amin(%x: tensor<2x3x4xf64>) -> tensor<2x4xf64> {
  // CHECK: "sx.amin"({{.*}}) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3x4xf64>) -> tensor<2x4xf64>
  %0 = "sx.amin"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3x4xf64>) -> tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}

// CHECK-LABEL: @any(
func.func @any(%x: tensor<2x3xi1>) -> tensor<2xi1> {
  // CHECK: "sx.any"({{.*}}) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3xi1>) -> tensor<2xi1>
  %0 = "sx.any"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3xi1>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}

// CHECK-LABEL: @all(
func.func @all(%x: tensor<2x3xi1>) -> tensor<2xi1> {
  // CHECK: "sx.all"({{.*}}) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3xi1>) -> tensor<2xi1>
  %0 = "sx.all"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3xi1>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}

// CHECK-LABEL: @argmax(
func.func @argmax(%x: tensor<2x3xf64>) -> tensor<2xi32> {
  // CHECK: "sx.argmax"({{.*}}) {axis = 1 : i64, keepdims = false} : (tensor<2x3xf64>) -> tensor<2xi32>
  %0 = "sx.argmax"(%x) {axis = 1 : i64, keepdims = false} : (tensor<2x3xf64>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// CHECK-LABEL: @argmin(
func.func @argmin(%x: tensor<2x3xf64>) -> tensor<2xi32> {
  // CHECK: "sx.argmin"({{.*}}) {axis = 1 : i64, keepdims = false} : (tensor<2x3xf64>) -> tensor<2xi32>
  %0 = "sx.argmin"(%x) {axis = 1 : i64, keepdims = false} : (tensor<2x3xf64>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// CHECK-LABEL: @cumsum(
func.func @cumsum(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.cumsum"({{.*}}) {axis = 1 : i64} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.cumsum"(%x) {axis = 1 : i64} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}
