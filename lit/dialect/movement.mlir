// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/movement.py parses, verifies and prints as it was: data movement and constants.

// CHECK-LABEL: @broadcast(
func.func @broadcast(%x: tensor<3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.broadcast"({{.*}}) {shape = array<i64: 2, 3>} : (tensor<3xf64>) -> tensor<2x3xf64>
  %0 = "sx.broadcast"(%x) {shape = array<i64: 2, 3>} : (tensor<3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @reshape(
func.func @reshape(%x: tensor<2x6xf64>) -> tensor<3x4xf64> {
  // CHECK: "sx.reshape"({{.*}}) {shape = array<i64: 3, 4>} : (tensor<2x6xf64>) -> tensor<3x4xf64>
  %0 = "sx.reshape"(%x) {shape = array<i64: 3, 4>} : (tensor<2x6xf64>) -> tensor<3x4xf64>
  return %0 : tensor<3x4xf64>
}

// CHECK-LABEL: @transpose(
func.func @transpose(%x: tensor<2x3xf64>) -> tensor<3x2xf64> {
  // CHECK: "sx.transpose"({{.*}}) {perm = array<i64: 1, 0>} : (tensor<2x3xf64>) -> tensor<3x2xf64>
  %0 = "sx.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<2x3xf64>) -> tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}

// CHECK-LABEL: @slice(
func.func @slice(%x: tensor<5x3xf64>) -> tensor<3x3xf64> {
  // CHECK: "sx.slice"({{.*}}) {start = array<i64: 1, 0>, step = array<i64: 1, 1>, stop = array<i64: 4, 3>} : (tensor<5x3xf64>) -> tensor<3x3xf64>
  %0 = "sx.slice"(%x) {start = array<i64: 1, 0>, step = array<i64: 1, 1>, stop = array<i64: 4, 3>} : (tensor<5x3xf64>) -> tensor<3x3xf64>
  return %0 : tensor<3x3xf64>
}

// CHECK-LABEL: @pad(
func.func @pad(%x: tensor<2x3xf64>) -> tensor<3x5xf64> {
  // CHECK: "sx.pad"({{.*}}) {high = array<i64: 0, 2>, low = array<i64: 1, 0>, value = 0 : i64} : (tensor<2x3xf64>) -> tensor<3x5xf64>
  %0 = "sx.pad"(%x) {high = array<i64: 0, 2>, low = array<i64: 1, 0>, value = 0 : i64} : (tensor<2x3xf64>) -> tensor<3x5xf64>
  return %0 : tensor<3x5xf64>
}

// CHECK-LABEL: @concat(
func.func @concat(%x: tensor<2x3xf64>, %y: tensor<2x1xf64>) -> tensor<2x4xf64> {
  // CHECK: "sx.concat"({{.*}}) {axis = 1 : i64} : (tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<2x4xf64>
  %0 = "sx.concat"(%x, %y) {axis = 1 : i64} : (tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}

// CHECK-LABEL: @flip(
func.func @flip(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.flip"({{.*}}) {axes = array<i64: 1>} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.flip"(%x) {axes = array<i64: 1>} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @iota(
func.func @iota() -> tensor<4xi32> {
  // CHECK: "sx.iota"() {axis = 0 : i64, dtype = i32, shape = array<i64: 4>} : () -> tensor<4xi32>
  %0 = "sx.iota"() {axis = 0 : i64, dtype = i32, shape = array<i64: 4>} : () -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// CHECK-LABEL: @constant(
func.func @constant() -> tensor<2x3xf32> {
  // CHECK: "sx.constant"() {value = dense<1.500000e+00> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %0 = "sx.constant"() {value = dense<1.500000e+00> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
