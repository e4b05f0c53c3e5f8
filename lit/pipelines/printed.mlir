// RUN: sexpgpu-opt %s --pipeline shared --pipeline cpu --sx-fuse=target=cuda --dump-pass-pipeline 2> %t.pipeline > %t.named
// RUN: FileCheck %s < %t.pipeline
// RUN: sed "s,^// pipeline: ,%s ," %t.pipeline | xargs sexpgpu-opt > %t.printed
// RUN: diff %t.named %t.printed

// What is printed as a pipeline is what the tool takes, options included, and gives the same module.
// CHECK: // pipeline: --sx-step-sums --sx-prefixes --sx-simplify --sx-precision --sx-raise --sx-autodiff --sx-accumulate --sx-recompute --sx-simplify --sx-fuse --sx-schedule --sx-plan-memory --sx-fuse=target=cuda
func.func @train(%x: tensor<128x64xf32> {sx.field = "x"}, %w: tensor<64xf32> {sx.param = "w"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %b = "sx.broadcast"(%w) {shape = array<i64: 128, 64>} : (tensor<64xf32>) -> tensor<128x64xf32>
  %p = "sx.mul"(%x, %b) : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32>
  %e = "sx.exp"(%p) : (tensor<128x64xf32>) -> tensor<128x64xf32>
  %l = "sx.sum"(%e) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<128x64xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
