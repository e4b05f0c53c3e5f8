// RUN: sexpgpu-opt %s --sx-fuse=target=cpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda | FileCheck %s --check-prefix=CUDA

// A norm: two reductions along the last axis, the elements before, between and behind them. The residual sum leaves too.
// CHECK-LABEL: func.func @norm(
// CHECK-NEXT: %[[R:.*]]:2 = call @row_1(%arg0, %arg1, %arg2)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
// CUDA-LABEL: func.func @norm(
// CUDA-NEXT: %[[R:.*]]:2 = call @row_1(%arg0, %arg1, %arg2)
func.func @norm(%x: tensor<12x64x128xf32>, %r: tensor<12x64x128xf32>, %g: tensor<128xf32>) -> (tensor<12x64x128xf32>, tensor<12x64x128xf32>) {
  %n = "sx.constant"() {value = dense<7.8125e-03> : tensor<12x64x1xf32>} : () -> tensor<12x64x1xf32>
  %a = "sx.add"(%x, %r) : (tensor<12x64x128xf32>, tensor<12x64x128xf32>) -> tensor<12x64x128xf32>
  %s = "sx.sum"(%a) {axes = array<i64: 2>, keepdims = true} : (tensor<12x64x128xf32>) -> tensor<12x64x1xf32>
  %m = "sx.mul"(%s, %n) : (tensor<12x64x1xf32>, tensor<12x64x1xf32>) -> tensor<12x64x1xf32>
  %mw = "sx.broadcast"(%m) {shape = array<i64: 12, 64, 128>} : (tensor<12x64x1xf32>) -> tensor<12x64x128xf32>
  %c = "sx.sub"(%a, %mw) : (tensor<12x64x128xf32>, tensor<12x64x128xf32>) -> tensor<12x64x128xf32>
  %q = "sx.square"(%c) : (tensor<12x64x128xf32>) -> tensor<12x64x128xf32>
  %v = "sx.sum"(%q) {axes = array<i64: 2>, keepdims = true} : (tensor<12x64x128xf32>) -> tensor<12x64x1xf32>
  %d = "sx.rsqrt"(%v) : (tensor<12x64x1xf32>) -> tensor<12x64x1xf32>
  %dw = "sx.broadcast"(%d) {shape = array<i64: 12, 64, 128>} : (tensor<12x64x1xf32>) -> tensor<12x64x128xf32>
  %y = "sx.mul"(%c, %dw) : (tensor<12x64x128xf32>, tensor<12x64x128xf32>) -> tensor<12x64x128xf32>
  %gw = "sx.broadcast"(%g) {shape = array<i64: 12, 64, 128>} : (tensor<128xf32>) -> tensor<12x64x128xf32>
  %z = "sx.mul"(%y, %gw) : (tensor<12x64x128xf32>, tensor<12x64x128xf32>) -> tensor<12x64x128xf32>
  return %a, %z : tensor<12x64x128xf32>, tensor<12x64x128xf32>
}

// A masked softmax: the mask of the last two axes is read in full by each tile, so only the first two are cut.
// CHECK-LABEL: func.func @masked(
// CHECK: %[[M:.*]] = call @pointwise_1
// CHECK: call @row_2(%[[M]], %arg0)
func.func @masked(%x: tensor<12x4x256x256xf32>, %i: tensor<256x256xi32>, %j: tensor<256x256xi32>) -> tensor<12x4x256x256xf32> {
  %k = "sx.sub"(%i, %j) : (tensor<256x256xi32>, tensor<256x256xi32>) -> tensor<256x256xi32>
  %g = "sx.ge"(%k, %j) : (tensor<256x256xi32>, tensor<256x256xi32>) -> tensor<256x256xi1>
  %b = "sx.broadcast"(%g) {shape = array<i64: 12, 4, 256, 256>} : (tensor<256x256xi1>) -> tensor<12x4x256x256xi1>
  %c = "sx.constant"() {value = dense<0xFF800000> : tensor<12x4x256x256xf32>} : () -> tensor<12x4x256x256xf32>
  %w = "sx.where"(%b, %x, %c) : (tensor<12x4x256x256xi1>, tensor<12x4x256x256xf32>, tensor<12x4x256x256xf32>) -> tensor<12x4x256x256xf32>
  %s = "sx.softmax"(%w) {axis = 3 : i64} : (tensor<12x4x256x256xf32>) -> tensor<12x4x256x256xf32>
  return %s : tensor<12x4x256x256xf32>
}

// Where even one place would be too large for a tile, the mask is repeated outside, which is a view, and read by parts.
// CHECK-LABEL: func.func @wide(
// CHECK: %[[B:.*]] = "sx.broadcast"(%arg1)
// CHECK: call @row_3(%[[B]], %arg0)
// CUDA-LABEL: func.func @wide(
// CUDA-NEXT: call @row_{{.*}}(%arg1, %arg0)
func.func @wide(%x: tensor<2x512x512xf32>, %g: tensor<512x512xi1>) -> tensor<2x512x512xf32> {
  %b = "sx.broadcast"(%g) {shape = array<i64: 2, 512, 512>} : (tensor<512x512xi1>) -> tensor<2x512x512xi1>
  %c = "sx.constant"() {value = dense<0xFF800000> : tensor<2x512x512xf32>} : () -> tensor<2x512x512xf32>
  %w = "sx.where"(%b, %x, %c) : (tensor<2x512x512xi1>, tensor<2x512x512xf32>, tensor<2x512x512xf32>) -> tensor<2x512x512xf32>
  %s = "sx.softmax"(%w) {axis = 2 : i64} : (tensor<2x512x512xf32>) -> tensor<2x512x512xf32>
  return %s : tensor<2x512x512xf32>
}

// The tail of a cross-entropy and its derivative: indexing along lines stays within them.
// CHECK-LABEL: func.func @tail(
// CHECK: call @row_4(%arg0, %arg1)
func.func @tail(%x: tensor<512x1000xf32>, %t: tensor<512x1xi32>) -> (tensor<512x1xf32>, tensor<512x1000xf32>) {
  %l = "sx.log_softmax"(%x) {axis = 1 : i64} : (tensor<512x1000xf32>) -> tensor<512x1000xf32>
  %p = "sx.take_along_axis"(%l, %t) {axis = 1 : i64} : (tensor<512x1000xf32>, tensor<512x1xi32>) -> tensor<512x1xf32>
  %n = "sx.neg"(%p) : (tensor<512x1xf32>) -> tensor<512x1xf32>
  %e = "sx.exp"(%l) : (tensor<512x1000xf32>) -> tensor<512x1000xf32>
  return %n, %e : tensor<512x1xf32>, tensor<512x1000xf32>
}

// CHECK: func.func private @row_1(
// CHECK-SAME: sx.group = "row", sx.tile = array<i64: 6>, sx.tiled = array<i64: 1, 1, 0, 1, 1>
// CHECK: func.func private @row_2(
// CHECK-SAME: sx.group = "row", sx.tile = array<i64: 1, 1>, sx.tiled = array<i64: 0, 1, 1>
// CHECK: func.func private @row_3(
// CHECK-SAME: sx.group = "row", sx.tile = array<i64: 1, 128>, sx.tiled = array<i64: 1, 1, 1>
// CHECK: func.func private @row_4(
// CHECK-SAME: sx.group = "row", sx.tile = array<i64: 64>, sx.tiled = array<i64: 1, 1, 1, 1>
