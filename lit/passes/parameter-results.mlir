// RUN: sexpgpu-opt %s --sx-parameter-results | FileCheck %s

// Each parameter is read in bf16, however many casts there were; what is computed of others stays.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: %arg0: tensor<8x4xf32> {sx.param = "w"}, %arg1: tensor<8x4xf32> {sx.param = "v"}, %arg2: tensor<4xf32> {sx.param = "b"}, %arg3: tensor<2x8xbf16> {sx.field = "x"}
// CHECK-SAME: %arg4: tensor<8x4xbf16> {sx.narrow = "w"}, %arg5: tensor<8x4xbf16> {sx.narrow = "v"})
// CHECK-NEXT: %[[P:.*]] = "sx.matmul"(%arg3, %arg4)
// CHECK-NEXT: %[[Q:.*]] = "sx.matmul"(%arg3, %arg5)
// CHECK-NEXT: %[[R:.*]] = "sx.matmul"(%arg3, %arg4)
// CHECK-NEXT: "sx.broadcast"(%arg2)
// CHECK-NEXT: "sx.cast"
func.func @train(%w: tensor<8x4xf32> {sx.param = "w"}, %v: tensor<8x4xf32> {sx.param = "v"}, %b: tensor<4xf32> {sx.param = "b"}, %x: tensor<2x8xbf16> {sx.field = "x"}) -> (tensor<2x4xbf16> {sx.loss = "loss"}, tensor<2x4xbf16> {sx.value = "q"}, tensor<2x4xbf16> {sx.value = "r"}) attributes {sx.graph = "train"} {
  %a = "sx.cast"(%w) {dtype = bf16} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %p = "sx.matmul"(%x, %a) : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xbf16>
  %c = "sx.cast"(%v) {dtype = bf16} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %q = "sx.matmul"(%x, %c) : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xbf16>
  %d = "sx.cast"(%w) {dtype = bf16, sx.recompute = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %r = "sx.matmul"(%x, %d) : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xbf16>
  %e = "sx.broadcast"(%b) {shape = array<i64: 2, 4>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %f = "sx.cast"(%e) {dtype = bf16} : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  %s = "sx.add"(%r, %f) : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  return %p, %q, %s : tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<2x4xbf16>
}

// The update of their type gives them, too.
// CHECK-LABEL: func.func @update_matrices(
// CHECK-SAME: -> (tensor<8x4xf32> {sx.param = "param"}, tensor<8x4xbf16> {sx.narrow = "param"})
// CHECK-NEXT: %[[U:.*]] = "sx.sub"(%arg0, %arg1)
// CHECK-NEXT: %[[N:.*]] = "sx.cast"(%[[U]]) {dtype = bf16}
// CHECK-NEXT: return %[[U]], %[[N]]
func.func @update_matrices(%p: tensor<8x4xf32> {sx.param = "param"}, %g: tensor<8x4xf32> {sx.grad = "grad"}) -> (tensor<8x4xf32> {sx.param = "param"}) attributes {sx.graph = "update default f32[8, 4]"} {
  %u = "sx.sub"(%p, %g) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %u : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @update_vectors(
// CHECK-NEXT: %[[U:.*]] = "sx.sub"(%arg0, %arg1)
// CHECK-NEXT: return %[[U]] :
func.func @update_vectors(%p: tensor<4xf32> {sx.param = "param"}, %g: tensor<4xf32> {sx.grad = "grad"}) -> (tensor<4xf32> {sx.param = "param"}) attributes {sx.graph = "update default f32[4]"} {
  %u = "sx.sub"(%p, %g) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %u : tensor<4xf32>
}

// A graph for what no update has written.
// CHECK: func.func @narrow_1(%arg0: tensor<8x4xf32> {sx.param = "param"}) -> (tensor<8x4xbf16> {sx.narrow = "param"}) attributes {sx.graph = "narrow f32[8, 4]"}
// CHECK-NEXT: "sx.cast"(%arg0) {dtype = bf16}
