// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu | FileCheck %s

// The gradients of queries, keys and values are parts of that of one product's result: the kernels write them there.
// CHECK-LABEL: func.func @train(
// CHECK-NEXT: %[[C:.*]] = "sx.constant"
// CHECK-NEXT: %[[D:.*]] = call @attention_1(
// CHECK-NEXT: return %[[D]]
// CHECK: func.func private @attention_1(
// CHECK-SAME: -> tensor<1x64x384xbf16>
// CHECK-NEXT: "sx.attention_grad"
func.func @train(%g: tensor<1x2x64x64xbf16>, %q: tensor<1x2x64x64xbf16>, %k: tensor<1x2x64x64xbf16>, %v: tensor<1x2x64x64xbf16>, %y: tensor<1x2x64x64xbf16>, %lse: tensor<1x2x64xf32>) -> tensor<1x64x384xbf16> {
  %h = "sx.constant"() {value = dense<0.0> : tensor<1x2x64xf32>} : () -> tensor<1x2x64xf32>
  %d:3 = "sx.attention_grad"(%g, %h, %q, %k, %v, %y, %lse) {causal = true, rounded = true, scale = 1.250000e-01 : f64, window = 0 : i64} : (tensor<1x2x64x64xbf16>, tensor<1x2x64xf32>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64xf32>) -> (tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>)
  %0 = "sx.transpose"(%d#2) {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x2x64x64xbf16>) -> tensor<1x64x2x64xbf16>
  %1 = "sx.reshape"(%0) {shape = array<i64: 1, 64, 128>} : (tensor<1x64x2x64xbf16>) -> tensor<1x64x128xbf16>
  %2 = "sx.pad"(%1) {low = array<i64: 0, 0, 256>, high = array<i64: 0, 0, 0>, value = 0 : i64} : (tensor<1x64x128xbf16>) -> tensor<1x64x384xbf16>
  %3 = "sx.transpose"(%d#1) {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x2x64x64xbf16>) -> tensor<1x64x2x64xbf16>
  %4 = "sx.reshape"(%3) {shape = array<i64: 1, 64, 128>} : (tensor<1x64x2x64xbf16>) -> tensor<1x64x128xbf16>
  %5 = "sx.pad"(%4) {low = array<i64: 0, 0, 128>, high = array<i64: 0, 0, 128>, value = 0 : i64} : (tensor<1x64x128xbf16>) -> tensor<1x64x384xbf16>
  %6 = "sx.add"(%2, %5) : (tensor<1x64x384xbf16>, tensor<1x64x384xbf16>) -> tensor<1x64x384xbf16>
  %7 = "sx.transpose"(%d#0) {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x2x64x64xbf16>) -> tensor<1x64x2x64xbf16>
  %8 = "sx.reshape"(%7) {shape = array<i64: 1, 64, 128>} : (tensor<1x64x2x64xbf16>) -> tensor<1x64x128xbf16>
  %9 = "sx.pad"(%8) {low = array<i64: 0, 0, 0>, high = array<i64: 0, 0, 256>, value = 0 : i64} : (tensor<1x64x128xbf16>) -> tensor<1x64x384xbf16>
  %10 = "sx.add"(%6, %9) : (tensor<1x64x384xbf16>, tensor<1x64x384xbf16>) -> tensor<1x64x384xbf16>
  return %10 : tensor<1x64x384xbf16>
}
