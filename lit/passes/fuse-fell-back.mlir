// RUN: sexpgpu-opt %s --sx-fuse=target=cpu | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda | FileCheck %s --check-prefixes=CHECK,CUDA

// CHECK-LABEL: func.func @alone(
// CHECK: "sx.exp"(%arg0) {sx.fell_back = "alone: nothing beside it is computed by elements or lines"}
func.func @alone(%x: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %e = "sx.exp"(%x) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %e : tensor<128x128xf32>
}

// Leading axes that differ: no part of the one is a part of the other.
// CHECK-LABEL: func.func @apart(
// CHECK: "sx.exp"
// CHECK: "sx.sum"
// CHECK-SAME: sx.fell_back = "shape: it shares no leading axis with the group"
func.func @apart(%x: tensor<64x128x256xf32>) -> tensor<128xf32> {
  %e = "sx.exp"(%x) : (tensor<64x128x256xf32>) -> tensor<64x128x256xf32>
  %t = "sx.transpose"(%e) {perm = array<i64: 1, 0, 2>} : (tensor<64x128x256xf32>) -> tensor<128x64x256xf32>
  %s = "sx.sum"(%t) {axes = array<i64: 1, 2>, keepdims = false} : (tensor<128x64x256xf32>) -> tensor<128xf32>
  return %s : tensor<128xf32>
}

// One line that is all there is leaves nothing to cut.
// CHECK-LABEL: func.func @line(
// CHECK: "sx.softmax"(%{{.*}}) {axis = 0 : i64, sx.fell_back = "shape: its lines of 100000 elements are too long for a part, or the only one"}
func.func @line(%x: tensor<100000xf32>) -> tensor<100000xf32> {
  %e = "sx.neg"(%x) : (tensor<100000xf32>) -> tensor<100000xf32>
  %s = "sx.softmax"(%e) {axis = 0 : i64} : (tensor<100000xf32>) -> tensor<100000xf32>
  return %s : tensor<100000xf32>
}

// What reads a sum over all tiles waits for the last of them; a lone GPU column is left to the generic kernel.
// CHECK-LABEL: func.func @sum(
// CPU: %[[S:.*]] = call @column_1(%arg0)
// CPU: "sx.neg"(%[[S]]) {sx.fell_back = "shape: it reads a sum that is complete after the last part only"}
// CUDA: %[[S:.*]] = call @column_1(%arg0)
// CUDA: "sx.neg"(%[[S]]) {sx.fell_back = "alone: {{.*}}"}
func.func @sum(%x: tensor<64x1024xf32>) -> tensor<1024xf32> {
  %e = "sx.exp"(%x) : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  %s = "sx.sum"(%e) {axes = array<i64: 0>, keepdims = false} : (tensor<64x1024xf32>) -> tensor<1024xf32>
  %n = "sx.neg"(%s) : (tensor<1024xf32>) -> tensor<1024xf32>
  return %n : tensor<1024xf32>
}

// The parts of a bf16 sum would be rounded one after the other.
// CHECK-LABEL: func.func @rounded(
// CPU: "sx.sum"{{.*}}sx.fell_back = "dtype: the parts of a bf16 sum would be rounded one by one"
// CUDA: call @column_2(%arg0)
func.func @rounded(%x: tensor<64x1024xbf16>) -> tensor<1024xbf16> {
  %e = "sx.exp"(%x) : (tensor<64x1024xbf16>) -> tensor<64x1024xbf16>
  %s = "sx.sum"(%e) {axes = array<i64: 0>, keepdims = false} : (tensor<64x1024xbf16>) -> tensor<1024xbf16>
  return %s : tensor<1024xbf16>
}

// A GPU's rows are the last axes, and running sums are kernels of their own.
// CHECK-LABEL: func.func @middle(
// CPU: call @row_1(%arg0)
// CUDA: "sx.softmax"{{.*}}sx.fell_back = "shape: what it works along is neither the last axes nor the first"
// CUDA: "sx.cumsum"{{.*}}sx.fell_back = "shape: an element comes from all before it"
func.func @middle(%x: tensor<64x32x128xf32>) -> tensor<64x32x128xf32> {
  %s = "sx.softmax"(%x) {axis = 1 : i64} : (tensor<64x32x128xf32>) -> tensor<64x32x128xf32>
  %c = "sx.cumsum"(%s) {axis = 2 : i64} : (tensor<64x32x128xf32>) -> tensor<64x32x128xf32>
  return %c : tensor<64x32x128xf32>
}

// Joining the first group would make it read what is made of it.
// CHECK-LABEL: func.func @cycle(
// CHECK: call @pointwise_{{[0-9]+}}(%arg0)
// CHECK: "sx.sort"
// CHECK: "sx.add"{{.*}}sx.fell_back = "other readers: what the group makes is read before all that it would need is made"
func.func @cycle(%x: tensor<64x1024xf32>) -> tensor<64x1024xf32> {
  %e = "sx.exp"(%x) : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  %n = "sx.tanh"(%e) : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  %s = "sx.sort"(%n) {axis = 1 : i64} : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  %y = "sx.add"(%s, %n) : (tensor<64x1024xf32>, tensor<64x1024xf32>) -> tensor<64x1024xf32>
  return %y : tensor<64x1024xf32>
}

// A product read in another order than it is made.
// CHECK-LABEL: func.func @turned(
// CHECK: "sx.matmul"
// CUDA: "sx.exp"{{.*}}sx.fell_back = "shape: it reads the product in another order than it is made"
func.func @turned(%x: tensor<256x64xf32>, %w: tensor<64x128xf32>) -> tensor<128x256xf32> {
  %p = "sx.matmul"(%x, %w) : (tensor<256x64xf32>, tensor<64x128xf32>) -> tensor<256x128xf32>
  %t = "sx.transpose"(%p) {perm = array<i64: 1, 0>} : (tensor<256x128xf32>) -> tensor<128x256xf32>
  %e = "sx.exp"(%t) : (tensor<128x256xf32>) -> tensor<128x256xf32>
  return %e : tensor<128x256xf32>
}
