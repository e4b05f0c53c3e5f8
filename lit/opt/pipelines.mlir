// RUN: sexpgpu-opt %s --pipeline shared --dump-pass-pipeline 2>&1 | FileCheck %s
// RUN: sexpgpu-opt %s --pipeline check --sx-verify --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=MORE
// RUN: not sexpgpu-opt %s --pipeline shard 2>&1 | FileCheck %s --check-prefix=NAME

// CHECK: // pipeline: {{.*}}--sx-simplify{{.*}}--sx-autodiff{{.*}}--sx-simplify
// CHECK: sx.grad = "w"
// MORE: // pipeline: {{.*}}--sx-autodiff --sx-verify
// NAME: E-IR-012
// NAME: help: `shared`
func.func @train(%w: tensor<f32> {sx.param = "w"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %l = "sx.tanh"(%w) : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
