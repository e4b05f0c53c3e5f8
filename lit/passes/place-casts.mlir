// RUN: sexpgpu-opt %s --sx-place-casts | FileCheck %s

// A narrowing cast goes to what makes its operand, once for all views of it; it stays behind a broadcast.
// CHECK-LABEL: func.func @narrow(
// CHECK-NEXT: %[[W:.*]] = "sx.cast"(%arg0) {dtype = bf16} : (tensor<64x32xf32>) -> tensor<64x32xbf16>
// CHECK-NEXT: %[[T:.*]] = "sx.transpose"(%[[W]]) {{.*}} : (tensor<64x32xbf16>) -> tensor<32x64xbf16>
// CHECK-NEXT: %[[R:.*]] = "sx.reshape"(%[[W]]) {{.*}} : (tensor<64x32xbf16>) -> tensor<32x64xbf16>
// CHECK-NEXT: %[[B:.*]] = "sx.broadcast"(%arg1)
// CHECK-NEXT: %[[C:.*]] = "sx.cast"(%[[B]]) {dtype = bf16}
// CHECK-NEXT: return %[[T]], %[[R]], %[[C]]
func.func @narrow(%w: tensor<64x32xf32>, %b: tensor<64xf32>) -> (tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>) {
  %t = "sx.transpose"(%w) {perm = array<i64: 1, 0>} : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %a = "sx.cast"(%t) {dtype = bf16} : (tensor<32x64xf32>) -> tensor<32x64xbf16>
  %r = "sx.reshape"(%w) {shape = array<i64: 32, 64>} : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %c = "sx.cast"(%r) {dtype = bf16} : (tensor<32x64xf32>) -> tensor<32x64xbf16>
  %s = "sx.broadcast"(%b) {shape = array<i64: 32, 64>} : (tensor<64xf32>) -> tensor<32x64xf32>
  %d = "sx.cast"(%s) {dtype = bf16} : (tensor<32x64xf32>) -> tensor<32x64xbf16>
  return %a, %c, %d : tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>
}

// A widening cast goes behind the views that alone read it.
// CHECK-LABEL: func.func @widen(
// CHECK-NEXT: %[[R:.*]] = "sx.reshape"(%arg0) {{.*}} -> tensor<4x8x64xbf16>
// CHECK-NEXT: %[[S:.*]] = "sx.slice"(%[[R]]) {{.*}} -> tensor<4x8x32xbf16>
// CHECK-NEXT: %[[C:.*]] = "sx.cast"(%[[S]]) {dtype = f32}
// CHECK-NEXT: %[[D:.*]] = "sx.cast"(%arg0) {dtype = f32}
// CHECK-NEXT: %[[T:.*]] = "sx.transpose"(%[[D]])
// CHECK-NEXT: return %[[C]], %[[D]], %[[T]]
func.func @widen(%x: tensor<32x64xbf16>) -> (tensor<4x8x32xf32>, tensor<32x64xf32>, tensor<64x32xf32>) {
  %c = "sx.cast"(%x) {dtype = f32} : (tensor<32x64xbf16>) -> tensor<32x64xf32>
  %r = "sx.reshape"(%c) {shape = array<i64: 4, 8, 64>} : (tensor<32x64xf32>) -> tensor<4x8x64xf32>
  %s = "sx.slice"(%r) {start = array<i64: 0, 0, 0>, step = array<i64: 1, 1, 1>, stop = array<i64: 4, 8, 32>} : (tensor<4x8x64xf32>) -> tensor<4x8x32xf32>
  %d = "sx.cast"(%x) {dtype = f32} : (tensor<32x64xbf16>) -> tensor<32x64xf32>
  %t = "sx.transpose"(%d) {perm = array<i64: 1, 0>} : (tensor<32x64xf32>) -> tensor<64x32xf32>
  return %s, %d, %t : tensor<4x8x32xf32>, tensor<32x64xf32>, tensor<64x32xf32>
}

// Parts of it are cast each for itself, where they are no more than the whole.
// CHECK-LABEL: func.func @halves(
// CHECK-NEXT: %[[A:.*]] = "sx.slice"(%arg0) {{.*}} -> tensor<32x16xbf16>
// CHECK-NEXT: %[[B:.*]] = "sx.cast"(%[[A]]) {dtype = f32}
// CHECK-NEXT: %[[C:.*]] = "sx.slice"(%arg0) {{.*}} -> tensor<32x16xbf16>
// CHECK-NEXT: %[[D:.*]] = "sx.cast"(%[[C]]) {dtype = f32}
// CHECK-NEXT: return %[[B]], %[[D]]
func.func @halves(%x: tensor<32x32xbf16>) -> (tensor<32x16xf32>, tensor<32x16xf32>) {
  %c = "sx.cast"(%x) {dtype = f32} : (tensor<32x32xbf16>) -> tensor<32x32xf32>
  %a = "sx.slice"(%c) {start = array<i64: 0, 0>, step = array<i64: 1, 1>, stop = array<i64: 32, 16>} : (tensor<32x32xf32>) -> tensor<32x16xf32>
  %b = "sx.slice"(%c) {start = array<i64: 0, 16>, step = array<i64: 1, 1>, stop = array<i64: 32, 32>} : (tensor<32x32xf32>) -> tensor<32x16xf32>
  return %a, %b : tensor<32x16xf32>, tensor<32x16xf32>
}
