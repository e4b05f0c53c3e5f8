// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/composite.py parses, verifies and prints as it was: composites.

// CHECK-LABEL: @softmax(
func.func @softmax(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.softmax"({{.*}}) {axis = 1 : i64} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.softmax"(%x) {axis = 1 : i64} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @log_softmax(
func.func @log_softmax(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.log_softmax"({{.*}}) {axis = 1 : i64} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.log_softmax"(%x) {axis = 1 : i64} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @logsumexp(
func.func @logsumexp(%x: tensor<2x3xf64>) -> tensor<2xf64> {
  // CHECK: "sx.logsumexp"({{.*}}) {axis = 1 : i64, keepdims = false} : (tensor<2x3xf64>) -> tensor<2xf64>
  %0 = "sx.logsumexp"(%x) {axis = 1 : i64, keepdims = false} : (tensor<2x3xf64>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}

// CHECK-LABEL: @gelu(
func.func @gelu(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.gelu"({{.*}}) {approximate = "none"} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.gelu"(%x) {approximate = "none"} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @gelu_grad(
func.func @gelu_grad(%g: tensor<2x3xf64>, %x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.gelu_grad"({{.*}}) {approximate = "none"} : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.gelu_grad"(%g, %x) {approximate = "none"} : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @silu(
func.func @silu(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.silu"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.silu"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @softplus(
func.func @softplus(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.softplus"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.softplus"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}
