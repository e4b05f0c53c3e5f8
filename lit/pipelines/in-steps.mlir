// RUN: sexpgpu-opt %s --pipeline shared --pipeline cpu --print-locations > %t.whole
// RUN: sexpgpu-opt %s --pipeline shared --print-locations | sexpgpu-opt - --sx-fuse --print-locations | sexpgpu-opt - --sx-schedule --sx-plan-memory --print-locations > %t.steps
// RUN: diff %t.whole %t.steps
// RUN: FileCheck %s < %t.steps

// Everything that a later pass reads of an earlier one is in the module's text: recompute marks, what is backward, how
// composites were written, reasons, places. So a dumped stage can be gone on from.
// CHECK-LABEL: func.func @train(
// CHECK: sx.arena =
// CHECK: sx.recompute = 1 : i64
// CHECK: loc("net.sx":3:5
func.func @train(%x: tensor<128x64xf32> {sx.field = "x"}, %w: tensor<64xf32> {sx.param = "w"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %b = "sx.broadcast"(%w) {shape = array<i64: 128, 64>} : (tensor<64xf32>) -> tensor<128x64xf32>
  %p = "sx.mul"(%x, %b) {sx.checkpoint = 1} : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32> loc("net.sx":3:5)
  %e = "sx.exp"(%p) {sx.checkpoint = 1} : (tensor<128x64xf32>) -> tensor<128x64xf32> loc("net.sx":3:9)
  %s = "sx.sigmoid"(%e) {sx.checkpoint = 1} : (tensor<128x64xf32>) -> tensor<128x64xf32> loc("net.sx":4:9)
  %g = "sx.mul"(%e, %s) {sx.checkpoint = 1} : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32> loc("net.sx":4:5)
  %l = "sx.sum"(%g) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<128x64xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
