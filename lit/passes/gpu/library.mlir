// RUN: sexpgpu-opt %s --sx-to-gpu | FileCheck %s

// What cuDNN can compute is said beside the kernels: where each tensor lies in the step's buffers.
// CHECK-LABEL: func.func @packed
// CHECK: func.func private @attention_1
// CHECK-SAME: sx.library = {backward = false, causal = true, graph = "attention", scale = 2.500000e-01 : f64, tensors = [
// CHECK-SAME: {argument = 0 : i64, role = "q", strides = array<i64: 1536, 16, 96, 1>, type = tensor<2x2x16x16xbf16>}
// CHECK-SAME: {argument = 1 : i64, offset = 32 : i64, role = "k", strides = array<i64: 1536, 16, 96, 1>
// CHECK-SAME: {argument = 3 : i64, role = "y", strides = array<i64: 512, 16, 32, 1>
// CHECK-SAME: {argument = 4 : i64, role = "lse", strides = array<i64: 32, 16, 1>, type = tensor<2x2x16xf32>}
func.func @packed(%x: tensor<2x16x96xbf16>) -> (tensor<2x2x16x16xbf16>, tensor<2x2x16xf32>) attributes {sx.graph = "train"} {
  %0 = "sx.slice"(%x) {start = array<i64: 0, 0, 0>, stop = array<i64: 2, 16, 32>, step = array<i64: 1, 1, 1>} : (tensor<2x16x96xbf16>) -> tensor<2x16x32xbf16>
  %1 = "sx.reshape"(%0) {shape = array<i64: 2, 16, 2, 16>} : (tensor<2x16x32xbf16>) -> tensor<2x16x2x16xbf16>
  %q = "sx.transpose"(%1) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x2x16xbf16>) -> tensor<2x2x16x16xbf16>
  %2 = "sx.slice"(%x) {start = array<i64: 0, 0, 32>, stop = array<i64: 2, 16, 64>, step = array<i64: 1, 1, 1>} : (tensor<2x16x96xbf16>) -> tensor<2x16x32xbf16>
  %3 = "sx.reshape"(%2) {shape = array<i64: 2, 16, 2, 16>} : (tensor<2x16x32xbf16>) -> tensor<2x16x2x16xbf16>
  %k = "sx.transpose"(%3) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x2x16xbf16>) -> tensor<2x2x16x16xbf16>
  %4 = "sx.slice"(%x) {start = array<i64: 0, 0, 64>, stop = array<i64: 2, 16, 96>, step = array<i64: 1, 1, 1>} : (tensor<2x16x96xbf16>) -> tensor<2x16x32xbf16>
  %5 = "sx.reshape"(%4) {shape = array<i64: 2, 16, 2, 16>} : (tensor<2x16x32xbf16>) -> tensor<2x16x2x16xbf16>
  %v = "sx.transpose"(%5) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x2x16xbf16>) -> tensor<2x2x16x16xbf16>
  %y:2 = "sx.attention"(%q, %k, %v) {causal = true, rounded = true, scale = 2.500000e-01 : f64, window = 0 : i64} : (tensor<2x2x16x16xbf16>, tensor<2x2x16x16xbf16>, tensor<2x2x16x16xbf16>) -> (tensor<2x2x16x16xbf16>, tensor<2x2x16xf32>)
  return %y#0, %y#1 : tensor<2x2x16x16xbf16>, tensor<2x2x16xf32>
}

// In f32 there is only the kernel.
// CHECK: func.func private @attention_2
// CHECK-NOT: sx.library
// CHECK-SAME: {
func.func @f32(%q: tensor<2x2x16x16xf32>, %k: tensor<2x2x16x16xf32>, %v: tensor<2x2x16x16xf32>) -> tensor<2x2x16x16xf32> attributes {sx.graph = "eval"} {
  %y:2 = "sx.attention"(%q, %k, %v) {causal = true, rounded = false, scale = 2.500000e-01 : f64, window = 0 : i64} : (tensor<2x2x16x16xf32>, tensor<2x2x16x16xf32>, tensor<2x2x16x16xf32>) -> (tensor<2x2x16x16xf32>, tensor<2x2x16xf32>)
  return %y#0 : tensor<2x2x16x16xf32>
}
