// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/attention.py parses, verifies and prints as it was: attention and its derivatives.

// CHECK-LABEL: @attention(
func.func @attention(%q: tensor<1x2x3x2xf64>, %k: tensor<1x2x3x2xf64>, %v: tensor<1x2x3x4xf64>) -> (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>) {
  // CHECK: "sx.attention"({{.*}}) {causal = false, rounded = false, scale = 5.000000e-01 : f64, window = 0 : i64} : (tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>) -> (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>)
  %0:2 = "sx.attention"(%q, %k, %v) {causal = false, rounded = false, scale = 5.000000e-01 : f64, window = 0 : i64} : (tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>) -> (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>)
  return %0#0, %0#1 : tensor<1x2x3x4xf64>, tensor<1x2x3xf64>
}

// CHECK-LABEL: @attention_biased(
func.func @attention_biased(%q: tensor<1x2x3x2xf64>, %k: tensor<1x2x3x2xf64>, %v: tensor<1x2x3x4xf64>, %bias: tensor<1x2x3x3xf64>) -> (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>) {
  // CHECK: "sx.attention_biased"({{.*}}) {causal = false, rounded = false, scale = 5.000000e-01 : f64, window = 0 : i64} : (tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x3xf64>) -> (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>)
  %0:2 = "sx.attention_biased"(%q, %k, %v, %bias) {causal = false, rounded = false, scale = 5.000000e-01 : f64, window = 0 : i64} : (tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x3xf64>) -> (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>)
  return %0#0, %0#1 : tensor<1x2x3x4xf64>, tensor<1x2x3xf64>
}

// CHECK-LABEL: @attention_grad(
func.func @attention_grad(%g: tensor<1x2x3x4xf64>, %h: tensor<1x2x3xf64>, %q: tensor<1x2x3x2xf64>, %k: tensor<1x2x3x2xf64>, %v: tensor<1x2x3x4xf64>, %y: tensor<1x2x3x4xf64>, %lse: tensor<1x2x3xf64>) -> (tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>) {
  // CHECK: "sx.attention_grad"({{.*}}) {causal = false, rounded = false, scale = 5.000000e-01 : f64, window = 0 : i64} : (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3xf64>) -> (tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>)
  %0:3 = "sx.attention_grad"(%g, %h, %q, %k, %v, %y, %lse) {causal = false, rounded = false, scale = 5.000000e-01 : f64, window = 0 : i64} : (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3xf64>) -> (tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>)
  return %0#0, %0#1, %0#2 : tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>
}

// CHECK-LABEL: @attention_biased_grad(
func.func @attention_biased_grad(%g: tensor<1x2x3x4xf64>, %h: tensor<1x2x3xf64>, %q: tensor<1x2x3x2xf64>, %k: tensor<1x2x3x2xf64>, %v: tensor<1x2x3x4xf64>, %y: tensor<1x2x3x4xf64>, %lse: tensor<1x2x3xf64>, %bias: tensor<1x2x3x3xf64>) -> (tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>) {
  // CHECK: "sx.attention_biased_grad"({{.*}}) {causal = false, rounded = false, scale = 5.000000e-01 : f64, window = 0 : i64} : (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3xf64>, tensor<1x2x3x3xf64>) -> (tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>)
  %0:3 = "sx.attention_biased_grad"(%g, %h, %q, %k, %v, %y, %lse, %bias) {causal = false, rounded = false, scale = 5.000000e-01 : f64, window = 0 : i64} : (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3xf64>, tensor<1x2x3x3xf64>) -> (tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>)
  return %0#0, %0#1, %0#2 : tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>
}

// CHECK-LABEL: @attention_bias_grad(
func.func @attention_bias_grad(%g: tensor<1x2x3x4xf64>, %h: tensor<1x2x3xf64>, %q: tensor<1x2x3x2xf64>, %k: tensor<1x2x3x2xf64>, %v: tensor<1x2x3x4xf64>, %y: tensor<1x2x3x4xf64>, %lse: tensor<1x2x3xf64>, %bias: tensor<1x2x3x3xf64>) -> tensor<1x2x3x3xf64> {
  // CHECK: "sx.attention_bias_grad"({{.*}}) {causal = false, rounded = false, scale = 5.000000e-01 : f64, window = 0 : i64} : (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3xf64>, tensor<1x2x3x3xf64>) -> tensor<1x2x3x3xf64>
  %0 = "sx.attention_bias_grad"(%g, %h, %q, %k, %v, %y, %lse, %bias) {causal = false, rounded = false, scale = 5.000000e-01 : f64, window = 0 : i64} : (tensor<1x2x3x4xf64>, tensor<1x2x3xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3xf64>, tensor<1x2x3x3xf64>) -> tensor<1x2x3x3xf64>
  return %0 : tensor<1x2x3x3xf64>
}
