// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/indexing.py parses, verifies and prints as it was: gathers, scatters and updates.

// CHECK-LABEL: @gather(
func.func @gather(%x: tensor<5x3xf64>, %indices: tensor<4xi32>) -> tensor<4x3xf64> {
  // CHECK: "sx.gather"({{.*}}) {axis = 0 : i64} : (tensor<5x3xf64>, tensor<4xi32>) -> tensor<4x3xf64>
  %0 = "sx.gather"(%x, %indices) {axis = 0 : i64} : (tensor<5x3xf64>, tensor<4xi32>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
}

// CHECK-LABEL: @scatter_add(
func.func @scatter_add(%x: tensor<3x2xf64>, %indices: tensor<5xi32>, %updates: tensor<5x2xf64>) -> tensor<3x2xf64> {
  // CHECK: "sx.scatter_add"({{.*}}) {axis = 0 : i64} : (tensor<3x2xf64>, tensor<5xi32>, tensor<5x2xf64>) -> tensor<3x2xf64>
  %0 = "sx.scatter_add"(%x, %indices, %updates) {axis = 0 : i64} : (tensor<3x2xf64>, tensor<5xi32>, tensor<5x2xf64>) -> tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}

// CHECK-LABEL: @take_along_axis(
func.func @take_along_axis(%x: tensor<2x3xf64>, %indices: tensor<2x1xi32>) -> tensor<2x1xf64> {
  // CHECK: "sx.take_along_axis"({{.*}}) {axis = 1 : i64} : (tensor<2x3xf64>, tensor<2x1xi32>) -> tensor<2x1xf64>
  %0 = "sx.take_along_axis"(%x, %indices) {axis = 1 : i64} : (tensor<2x3xf64>, tensor<2x1xi32>) -> tensor<2x1xf64>
  return %0 : tensor<2x1xf64>
}

// CHECK-LABEL: @add_along_axis(
func.func @add_along_axis(%x: tensor<2x3xf64>, %indices: tensor<2x2xi32>, %updates: tensor<2x2xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.add_along_axis"({{.*}}) {axis = 1 : i64} : (tensor<2x3xf64>, tensor<2x2xi32>, tensor<2x2xf64>) -> tensor<2x3xf64>
  %0 = "sx.add_along_axis"(%x, %indices, %updates) {axis = 1 : i64} : (tensor<2x3xf64>, tensor<2x2xi32>, tensor<2x2xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @index_update(
func.func @index_update(%x: tensor<3x2xf64>, %indices: tensor<5xi32>, %updates: tensor<5x2xf64>) -> tensor<3x2xf64> {
  // CHECK: "sx.index_update"({{.*}}) {axis = 0 : i64} : (tensor<3x2xf64>, tensor<5xi32>, tensor<5x2xf64>) -> tensor<3x2xf64>
  %0 = "sx.index_update"(%x, %indices, %updates) {axis = 0 : i64} : (tensor<3x2xf64>, tensor<5xi32>, tensor<5x2xf64>) -> tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}
