// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/norm.py parses, verifies and prints as it was: norms with what their derivatives read.

// CHECK-LABEL: @layer_norm(
func.func @layer_norm(%x: tensor<2x3xf64>, %weight: tensor<3xf64>, %bias: tensor<3xf64>) -> (tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x1xf64>) {
  // CHECK: "sx.layer_norm"({{.*}}) {eps = 2.500000e-01 : f64} : (tensor<2x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x1xf64>)
  %0:3 = "sx.layer_norm"(%x, %weight, %bias) {eps = 2.500000e-01 : f64} : (tensor<2x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x1xf64>)
  return %0#0, %0#1, %0#2 : tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x1xf64>
}

// CHECK-LABEL: @layer_norm_grad(
func.func @layer_norm_grad(%g: tensor<2x3xf64>, %x: tensor<2x3xf64>, %mean: tensor<2x1xf64>, %r: tensor<2x1xf64>, %weight: tensor<3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.layer_norm_grad"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x1xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  %0 = "sx.layer_norm_grad"(%g, %x, %mean, %r, %weight) : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x1xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @layer_norm_gain(
func.func @layer_norm_gain(%g: tensor<2x3xf64>, %x: tensor<2x3xf64>, %mean: tensor<2x1xf64>, %r: tensor<2x1xf64>) -> tensor<3xf64> {
  // CHECK: "sx.layer_norm_gain"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x1xf64>) -> tensor<3xf64>
  %0 = "sx.layer_norm_gain"(%g, %x, %mean, %r) : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x1xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}

// CHECK-LABEL: @rms_norm(
func.func @rms_norm(%x: tensor<2x3xf64>, %weight: tensor<3xf64>) -> (tensor<2x3xf64>, tensor<2x1xf64>) {
  // CHECK: "sx.rms_norm"({{.*}}) {eps = 2.500000e-01 : f64} : (tensor<2x3xf64>, tensor<3xf64>) -> (tensor<2x3xf64>, tensor<2x1xf64>)
  %0:2 = "sx.rms_norm"(%x, %weight) {eps = 2.500000e-01 : f64} : (tensor<2x3xf64>, tensor<3xf64>) -> (tensor<2x3xf64>, tensor<2x1xf64>)
  return %0#0, %0#1 : tensor<2x3xf64>, tensor<2x1xf64>
}

// CHECK-LABEL: @rms_norm_grad(
func.func @rms_norm_grad(%g: tensor<2x3xf64>, %x: tensor<2x3xf64>, %r: tensor<2x1xf64>, %weight: tensor<3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.rms_norm_grad"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x1xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  %0 = "sx.rms_norm_grad"(%g, %x, %r, %weight) : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x1xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @rms_norm_gain(
func.func @rms_norm_gain(%g: tensor<2x3xf64>, %x: tensor<2x3xf64>, %r: tensor<2x1xf64>) -> tensor<3xf64> {
  // CHECK: "sx.rms_norm_gain"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<3xf64>
  %0 = "sx.rms_norm_gain"(%g, %x, %r) : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
