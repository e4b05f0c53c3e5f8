// RUN: sexpgpu-opt %s --sx-precision=policy=bf16 | FileCheck %s

// Integers and tests are no policy's; a comparison of bf16 values is made in bf16, its choice as well.
// CHECK-LABEL: func.func @masked(
// CHECK: %[[P:.*]] = "sx.matmul"({{.*}}) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: %[[G:.*]] = "sx.gt"(%[[P]], %{{.*}}) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xi1>
// CHECK: %[[W:.*]] = "sx.where"(%[[G]], %[[P]], %{{.*}}) : (tensor<4x4xi1>, tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: "sx.add"(%arg1, %arg1) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
// CHECK: "sx.gather"(%[[W]], %{{.*}}) {axis = 0 : i64} : (tensor<4x4xbf16>, tensor<4xi32>) -> tensor<4x4xbf16>
func.func @masked(%x: tensor<4x4xf32> {sx.field = "x"}, %i: tensor<4xi32> {sx.field = "i"}) -> (tensor<4x4xf32> {sx.metric = "y"}) {
  %p = "sx.matmul"(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = "sx.constant"() {value = dense<0.0> : tensor<4x4xf32>} : () -> tensor<4x4xf32>
  %g = "sx.gt"(%p, %z) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
  %w = "sx.where"(%g, %p, %z) : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %j = "sx.add"(%i, %i) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %r = "sx.gather"(%w, %j) {axis = 0 : i64} : (tensor<4x4xf32>, tensor<4xi32>) -> tensor<4x4xf32>
  %o = "sx.matmul"(%r, %r) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %o : tensor<4x4xf32>
}

// One value that two products read is rounded once.
// CHECK-LABEL: func.func @shared(
// CHECK-COUNT-1: "sx.cast"(%arg0) {dtype = bf16, sx.policy}
// CHECK-NOT: "sx.cast"(%arg0)
// CHECK: return
func.func @shared(%x: tensor<4x4xf32> {sx.field = "x"}) -> (tensor<4x4xf32> {sx.metric = "y"}) {
  %p = "sx.matmul"(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = "sx.matmul"(%p, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %q : tensor<4x4xf32>
}

// A value that two islands read stays where it is, in bf16, and each gets the one f32 copy.
// CHECK-LABEL: func.func @two_islands(
// CHECK: %[[R:.*]] = "sx.relu"(%{{.*}}) : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: %[[C:.*]] = "sx.cast"(%[[R]]) {dtype = f32, sx.policy}
// CHECK: "sx.exp"(%[[C]])
// CHECK: "sx.sigmoid"(%[[C]])
func.func @two_islands(%x: tensor<4x4xf32> {sx.field = "x"}) -> (tensor<4x4xf32> {sx.metric = "y"}) {
  %p = "sx.matmul"(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "sx.relu"(%p) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = "sx.exp"(%r) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = "sx.sigmoid"(%r) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = "sx.mul"(%a, %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// f64 is no float of the policy's.
// CHECK-LABEL: func.func @double(
// CHECK-NOT: bf16
// CHECK: return
func.func @double(%x: tensor<4x4xf64> {sx.field = "x"}) -> (tensor<4x4xf64> {sx.metric = "y"}) {
  %p = "sx.mul"(%x, %x) : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  return %p : tensor<4x4xf64>
}
