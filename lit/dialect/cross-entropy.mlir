// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/cross_entropy.py parses, verifies and prints as it was: the tail of a classifier and its derivative.

// CHECK-LABEL: @cross_entropy(
func.func @cross_entropy(%logits: tensor<3x4xf64>, %labels: tensor<3xi32>) -> (tensor<3xf64>, tensor<3xf64>) {
  // CHECK: "sx.cross_entropy"({{.*}}) {outside = "error"} : (tensor<3x4xf64>, tensor<3xi32>) -> (tensor<3xf64>, tensor<3xf64>)
  %0:2 = "sx.cross_entropy"(%logits, %labels) {outside = "error"} : (tensor<3x4xf64>, tensor<3xi32>) -> (tensor<3xf64>, tensor<3xf64>)
  return %0#0, %0#1 : tensor<3xf64>, tensor<3xf64>
}

// CHECK-LABEL: @cross_entropy_grad(
func.func @cross_entropy_grad(%g: tensor<3xf64>, %h: tensor<3xf64>, %logits: tensor<3x4xf64>, %labels: tensor<3xi32>, %lse: tensor<3xf64>) -> tensor<3x4xf64> {
  // CHECK: "sx.cross_entropy_grad"({{.*}}) {outside = "error"} : (tensor<3xf64>, tensor<3xf64>, tensor<3x4xf64>, tensor<3xi32>, tensor<3xf64>) -> tensor<3x4xf64>
  %0 = "sx.cross_entropy_grad"(%g, %h, %logits, %labels, %lse) {outside = "error"} : (tensor<3xf64>, tensor<3xf64>, tensor<3x4xf64>, tensor<3xi32>, tensor<3xf64>) -> tensor<3x4xf64>
  return %0 : tensor<3x4xf64>
}
