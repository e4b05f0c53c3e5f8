// RUN: sexpgpu-opt %s --sx-precision=policy=bf16 --split-input-file | FileCheck %s
// RUN: sexpgpu-opt %s --sx-precision=policy=f32 --split-input-file | FileCheck %s --check-prefix=F32

// F32-NOT: bf16
// A product takes and gives bf16; what follows it stays bf16 up to the sum, which is an island of f32.
// CHECK-LABEL: func.func @train(
// CHECK-DAG: %[[A:.*]] = "sx.cast"(%arg0) {dtype = bf16, sx.policy}
// CHECK-DAG: %[[B:.*]] = "sx.cast"(%arg1) {dtype = bf16, sx.policy}
// CHECK: %[[H:.*]] = "sx.matmul"({{.*}}) : (tensor<4x3xbf16>, tensor<3x2xbf16>) -> tensor<4x2xbf16>
// CHECK: %[[R:.*]] = "sx.relu"(%[[H]]) : (tensor<4x2xbf16>) -> tensor<4x2xbf16>
// CHECK: "sx.matmul"(%[[R]], {{.*}}) : (tensor<4x2xbf16>, tensor<2x2xbf16>) -> tensor<4x2xbf16>
// CHECK: %[[C:.*]] = "sx.cast"({{.*}}) {dtype = f32, sx.policy}
// CHECK: "sx.sum"(%[[C]])
// CHECK-SAME: -> tensor<f32>
func.func @train(%x: tensor<4x3xf32> {sx.field = "x"}, %w: tensor<3x2xf32> {sx.param = "w"}, %v: tensor<2x2xf32> {sx.param = "v"})
    -> (tensor<f32> {sx.loss = "loss"}) {
  %h = "sx.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %r = "sx.relu"(%h) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %o = "sx.matmul"(%r, %v) : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %l = "sx.sum"(%o) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x2xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// An island takes in what only it reads (the scale before the exponential) and what reads it (the division).
// CHECK-LABEL: func.func @island(
// CHECK: %[[P:.*]] = "sx.matmul"
// CHECK-SAME: -> tensor<4x4xbf16>
// CHECK: %[[W:.*]] = "sx.cast"(%[[P]]) {dtype = f32, sx.policy}
// CHECK: %[[M:.*]] = "sx.mul"(%[[W]], {{.*}}) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[E:.*]] = "sx.exp"(%[[M]]) : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[D:.*]] = "sx.add"(%[[E]], {{.*}}) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[N:.*]] = "sx.cast"(%[[D]]) {dtype = bf16, sx.policy}
// CHECK: "sx.matmul"(%[[N]], %[[N]])
func.func @island(%x: tensor<4x4xf32> {sx.field = "x"}, %s: tensor<4x4xf32> {sx.field = "s"}) -> (tensor<4x4xf32> {sx.metric = "y"}) {
  %p = "sx.matmul"(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = "sx.mul"(%p, %s) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = "sx.exp"(%m) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = "sx.add"(%e, %s) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %o = "sx.matmul"(%d, %d) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %o : tensor<4x4xf32>
}

// -----

// A mark of with-numerics wins over the policy.
// CHECK-LABEL: func.func @marked(
// CHECK-NOT: bf16
// CHECK: "sx.matmul"
// CHECK: return
func.func @marked(%x: tensor<4x4xf32> {sx.field = "x"}) -> (tensor<4x4xf32> {sx.metric = "y"}) {
  %p = "sx.matmul"(%x, %x) {sx.numerics = "f32"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %p : tensor<4x4xf32>
}

// -----

// What reads no batch is not the policy's: an update works in f32.
// CHECK-LABEL: func.func @update(
// CHECK-NOT: bf16
// CHECK: return
func.func @update(%p: tensor<4x4xf32> {sx.param = "param"}, %g: tensor<4x4xf32> {sx.grad = "grad"}) -> (tensor<4x4xf32> {sx.param = "param"}) {
  %n = "sx.matmul"(%p, %g) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %n : tensor<4x4xf32>
}
