// RUN: sexpgpu-opt %s --sx-stack --split-input-file | FileCheck %s

// The body is there once a microbatch; the cast of the weight, which all share, is there once. Gradients are added
// right behind their makers. The graph of one microbatch stays, for batches that are shorter.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: attributes {sx.graph = "train", sx.rows = 4 : i64}
// CHECK-LABEL: func.func @train_stacked_2(
// CHECK-SAME: %[[W:.*]]: tensor<4xf32> {sx.param = "w"}
// CHECK-SAME: %[[S:.*]]: tensor<i32> {sx.ctx = "step"}
// CHECK-SAME: %[[X0:.*]]: tensor<4xf32> {sx.field = "x", sx.part = 0 : i64}
// CHECK-SAME: %[[M0:.*]]: tensor<i32> {sx.ctx = "microbatch", sx.part = 0 : i64}
// CHECK-SAME: %[[X1:.*]]: tensor<4xf32> {sx.field = "x", sx.part = 1 : i64}
// CHECK-SAME: %[[M1:.*]]: tensor<i32> {sx.ctx = "microbatch", sx.part = 1 : i64}
// CHECK-SAME: -> (tensor<f32> {sx.loss = "loss", sx.part = 0 : i64}, tensor<f32> {sx.loss = "loss", sx.part = 1 : i64}, tensor<4xf32> {sx.grad = "w"})
// CHECK-SAME: attributes {sx.graph = "train stacked 2", sx.rows = 4 : i64, sx.stacked = 2 : i64}
// CHECK-NEXT: %[[E:.*]] = "sx.exp"(%[[W]])
// CHECK-NEXT: %[[T0:.*]] = "sx.add"(%[[S]], %[[M0]])
// CHECK-NEXT: %[[F0:.*]] = "sx.cast"(%[[T0]])
// CHECK-NEXT: %[[G0:.*]] = "sx.mul"(%[[E]], %[[X0]])
// CHECK-NEXT: %[[L0:.*]] = "sx.sum"(%[[X0]])
// CHECK-NEXT: %[[K0:.*]] = "sx.mul"(%[[L0]], %[[F0]])
// CHECK-NEXT: %[[T1:.*]] = "sx.add"(%[[S]], %[[M1]])
// CHECK-NEXT: %[[F1:.*]] = "sx.cast"(%[[T1]])
// CHECK-NEXT: %[[G1:.*]] = "sx.mul"(%[[E]], %[[X1]])
// CHECK-NEXT: %[[G:.*]] = "sx.add"(%[[G0]], %[[G1]])
// CHECK-NEXT: %[[L1:.*]] = "sx.sum"(%[[X1]])
// CHECK-NEXT: %[[K1:.*]] = "sx.mul"(%[[L1]], %[[F1]])
// CHECK-NEXT: return %[[K0]], %[[K1]], %[[G]]
func.func @train(%w: tensor<4xf32> {sx.param = "w"}, %x: tensor<4xf32> {sx.field = "x"}, %s: tensor<i32> {sx.ctx = "step"},
    %m: tensor<i32> {sx.ctx = "microbatch"}) -> (tensor<f32> {sx.loss = "loss"}, tensor<4xf32> {sx.grad = "w"})
    attributes {sx.graph = "train", sx.rows = 4 : i64, sx.stack = array<i64: 1, 2>} {
  %e = "sx.exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %t = "sx.add"(%s, %m) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %f = "sx.cast"(%t) {dtype = f32} : (tensor<i32>) -> tensor<f32>
  %g = "sx.mul"(%e, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = "sx.sum"(%x) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  %k = "sx.mul"(%l, %f) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %k, %g : tensor<f32>, tensor<4xf32>
}

// -----

// Buffers: of `own` each microbatch has its own, the others are shared. A gradient that no microbatch changes is added
// up all the same, as the loop does with calls. Degrees come in the order asked for.
// CHECK-LABEL: func.func @train(
// CHECK-LABEL: func.func @train_stacked_2(
// CHECK-LABEL: func.func @train_stacked_3(
// CHECK-SAME: %[[W:.*]]: tensor<f32> {sx.param = "w"}, %[[C:.*]]: tensor<f32> {sx.buffer = "centre"}
// CHECK-SAME: %[[B0:.*]]: tensor<f32> {sx.buffer = "memory", sx.part = 0 : i64}
// CHECK-SAME: %[[B1:.*]]: tensor<f32> {sx.buffer = "memory", sx.part = 1 : i64}
// CHECK-SAME: %[[B2:.*]]: tensor<f32> {sx.buffer = "memory", sx.part = 2 : i64}
// CHECK-NEXT: %[[G0:.*]] = "sx.neg"(%[[W]])
// CHECK-NEXT: %[[N0:.*]] = "sx.add"(%[[B0]], %[[C]])
// CHECK-NEXT: %[[N1:.*]] = "sx.add"(%[[B1]], %[[C]])
// CHECK-NEXT: %[[G1:.*]] = "sx.add"(%[[G0]], %[[G0]])
// CHECK-NEXT: %[[N2:.*]] = "sx.add"(%[[B2]], %[[C]])
// CHECK-NEXT: %[[G2:.*]] = "sx.add"(%[[G1]], %[[G0]])
// CHECK-NEXT: return %[[N0]], %[[N1]], %[[N2]], %[[G2]]
func.func @train(%w: tensor<f32> {sx.param = "w"}, %b: tensor<f32> {sx.buffer = "memory"}, %c: tensor<f32> {sx.buffer = "centre"})
    -> (tensor<f32> {sx.buffer = "memory"}, tensor<f32> {sx.grad = "w"})
    attributes {sx.graph = "train", sx.stack = array<i64: 1, 2, 3>, sx.own = ["memory"]} {
  %g = "sx.neg"(%w) : (tensor<f32>) -> tensor<f32>
  %n = "sx.add"(%b, %c) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %n, %g : tensor<f32>, tensor<f32>
}

// -----

// A gradient may be an argument as it is: the field that a weight is multiplied with.
// CHECK-LABEL: func.func @train_stacked_2(
// CHECK-SAME: %[[W:.*]]: tensor<4xf32> {sx.param = "w"}, %[[X0:.*]]: tensor<4xf32> {sx.field = "x", sx.part = 0 : i64}, %[[X1:.*]]: tensor<4xf32> {sx.field = "x", sx.part = 1 : i64}
// CHECK-NEXT: %[[G:.*]] = "sx.add"(%[[X0]], %[[X1]])
// CHECK-NEXT: return %[[G]]
func.func @train(%w: tensor<4xf32> {sx.param = "w"}, %x: tensor<4xf32> {sx.field = "x"}) -> (tensor<4xf32> {sx.grad = "w"})
    attributes {sx.graph = "train", sx.stack = array<i64: 1, 2>} {
  return %x : tensor<4xf32>
}
