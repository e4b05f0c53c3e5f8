// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/ordering.py parses, verifies and prints as it was: lines put in order.

// CHECK-LABEL: @sort(
func.func @sort(%x: tensor<3x4xf64>) -> tensor<3x4xf64> {
  // CHECK: "sx.sort"({{.*}}) {axis = 1 : i64} : (tensor<3x4xf64>) -> tensor<3x4xf64>
  %0 = "sx.sort"(%x) {axis = 1 : i64} : (tensor<3x4xf64>) -> tensor<3x4xf64>
  return %0 : tensor<3x4xf64>
}

// CHECK-LABEL: @argsort(
func.func @argsort(%x: tensor<3x4xf64>) -> tensor<3x4xi32> {
  // CHECK: "sx.argsort"({{.*}}) {axis = 1 : i64} : (tensor<3x4xf64>) -> tensor<3x4xi32>
  %0 = "sx.argsort"(%x) {axis = 1 : i64} : (tensor<3x4xf64>) -> tensor<3x4xi32>
  return %0 : tensor<3x4xi32>
}

// CHECK-LABEL: @top_k(
func.func @top_k(%x: tensor<3x4xf64>) -> (tensor<3x2xf64>, tensor<3x2xi32>) {
  // CHECK: "sx.top_k"({{.*}}) {k = 2 : i64} : (tensor<3x4xf64>) -> (tensor<3x2xf64>, tensor<3x2xi32>)
  %0:2 = "sx.top_k"(%x) {k = 2 : i64} : (tensor<3x4xf64>) -> (tensor<3x2xf64>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf64>, tensor<3x2xi32>
}
