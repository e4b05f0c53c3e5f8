// RUN: sexpgpu-opt %s --sx-simplify --sx-autodiff --print-ir-after-all --timing 2>&1 | FileCheck %s

// CHECK: // after sx-simplify
// CHECK: func.func @train
// CHECK: // after sx-autodiff
// CHECK: sx.grad = "w"
// CHECK: pass {{.*}}ms {{.*}}before {{.*}}after  did
// CHECK: sx-simplify {{[0-9.]+ [0-9.]+}} 3 2
// CHECK: sx-autodiff {{[0-9.]+ [0-9.]+}} 2 7
// CHECK: total {{[0-9.]+}} 3 7
func.func @train(%w: tensor<f32> {sx.param = "w"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %unused = "sx.exp"(%w) : (tensor<f32>) -> tensor<f32>
  %l = "sx.tanh"(%w) : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
