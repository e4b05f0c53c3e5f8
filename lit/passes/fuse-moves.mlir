// RUN: sexpgpu-opt %s --sx-fuse=target=cuda | FileCheck %s --check-prefixes=CHECK,CUDA
// RUN: sexpgpu-opt %s --sx-fuse=target=cpu | FileCheck %s --check-prefixes=CHECK,CPU

// Three cotangents laid beside each other: what padding makes is never written.
// CHECK-LABEL: func.func @beside(
// CUDA-NEXT: %[[Y:.*]] = call @pointwise_1(%arg0, %arg1, %arg2)
// CPU-NEXT: %[[Y:.*]] = call @row_1(%arg0, %arg1, %arg2)
// CHECK-NEXT: return %[[Y]]
func.func @beside(%q: tensor<12x64x128xf32>, %k: tensor<12x64x128xf32>, %v: tensor<12x64x128xf32>) -> tensor<12x64x384xf32> {
  %a = "sx.pad"(%q) {low = array<i64: 0, 0, 0>, high = array<i64: 0, 0, 256>, value = 0 : i64} : (tensor<12x64x128xf32>) -> tensor<12x64x384xf32>
  %b = "sx.pad"(%k) {low = array<i64: 0, 0, 128>, high = array<i64: 0, 0, 128>, value = 0 : i64} : (tensor<12x64x128xf32>) -> tensor<12x64x384xf32>
  %c = "sx.add"(%a, %b) : (tensor<12x64x384xf32>, tensor<12x64x384xf32>) -> tensor<12x64x384xf32>
  %d = "sx.pad"(%v) {low = array<i64: 0, 0, 256>, high = array<i64: 0, 0, 0>, value = 0 : i64} : (tensor<12x64x128xf32>) -> tensor<12x64x384xf32>
  %y = "sx.add"(%c, %d) : (tensor<12x64x384xf32>, tensor<12x64x384xf32>) -> tensor<12x64x384xf32>
  return %y : tensor<12x64x384xf32>
}

// A GPU's thread makes an element from elements at its own place: what is padded comes from outside. A tile of the CPU
// has whole lines.
// CHECK-LABEL: func.func @made(
// CUDA-NEXT: %[[E:.*]] = "sx.exp"(%arg0)
// CUDA-NEXT: call @pointwise_2(%[[E]])
// CPU-NEXT: call @row_2(%arg0)
func.func @made(%x: tensor<12x64x128xf32>) -> tensor<12x64x130xf32> {
  %e = "sx.exp"(%x) : (tensor<12x64x128xf32>) -> tensor<12x64x128xf32>
  %p = "sx.pad"(%e) {low = array<i64: 0, 0, 1>, high = array<i64: 0, 0, 1>, value = 0 : i64} : (tensor<12x64x128xf32>) -> tensor<12x64x130xf32>
  %n = "sx.neg"(%p) : (tensor<12x64x130xf32>) -> tensor<12x64x130xf32>
  return %n : tensor<12x64x130xf32>
}

// Views of what a group makes stay between its operations where they keep the leading axes, and outside where not.
// CPU-LABEL: func.func @views(
// CPU-NEXT: %[[A:.*]] = call @row_3(%arg0)
// CPU-NEXT: %[[T:.*]] = "sx.transpose"(%[[A]])
// CPU-NEXT: return %[[T]]
func.func @views(%x: tensor<64x4x256xf32>) -> tensor<256x4x64xf32> {
  %e = "sx.exp"(%x) : (tensor<64x4x256xf32>) -> tensor<64x4x256xf32>
  %t = "sx.transpose"(%e) {perm = array<i64: 0, 2, 1>} : (tensor<64x4x256xf32>) -> tensor<64x256x4xf32>
  %s = "sx.softmax"(%t) {axis = 2 : i64} : (tensor<64x256x4xf32>) -> tensor<64x256x4xf32>
  %u = "sx.transpose"(%s) {perm = array<i64: 0, 2, 1>} : (tensor<64x256x4xf32>) -> tensor<64x4x256xf32>
  %v = "sx.neg"(%u) : (tensor<64x4x256xf32>) -> tensor<64x4x256xf32>
  %w = "sx.transpose"(%v) {perm = array<i64: 2, 1, 0>} : (tensor<64x4x256xf32>) -> tensor<256x4x64xf32>
  return %w : tensor<256x4x64xf32>
}
