// RUN: sexpgpu-opt %s --sx-autodiff --sx-recompute=budget=300000 --sx-simplify | FileCheck %s
// RUN: sexpgpu-opt %s --sx-autodiff --sx-recompute=budget=1000000 --sx-simplify | FileCheck %s --check-prefix=FITS
// RUN: sexpgpu-opt %s --sx-autodiff --sx-recompute=budget=1 --timing 2>&1 | FileCheck %s --check-prefix=OVER
// RUN: sexpgpu-opt %s --sx-recompute=budget=300000,target=cpu --sx-recompute --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=SPEC

// SPEC: --sx-recompute=budget=300000 --sx-recompute

// Within its budget the graph stays as it is.
// FITS-NOT: sx.recompute

// What costs least for its bytes goes first: the sine, made again from the exponential, which is kept. No product is.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: sx.budget = 300000
// CHECK-SAME: sx.kept_all =
// CHECK: %[[P:.*]] = "sx.matmul"(%arg0, %arg1)
// CHECK: %[[E:.*]] = "sx.exp"(%[[P]]) :
// CHECK: "sx.sin"(%[[E]]) :
// CHECK: "sx.sin"(%[[E]]) {sx.recompute = 1 : i64}
// CHECK-NOT: "sx.matmul"(%arg0, %arg1)
// CHECK-NOT: sx.recompute

// OVER: sx-recompute=budget=1 {{.*}} above the budget of 1
func.func @train(%x: tensor<128x64xf32> {sx.field = "x"}, %w: tensor<64x128xf32> {sx.param = "w"}, %v: tensor<128x256xf32> {sx.param = "v"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %p = "sx.matmul"(%x, %w) : (tensor<128x64xf32>, tensor<64x128xf32>) -> tensor<128x128xf32>
  %e = "sx.exp"(%p) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %s = "sx.sin"(%e) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %q = "sx.matmul"(%s, %v) : (tensor<128x128xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  %l = "sx.sum"(%q) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<128x256xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
