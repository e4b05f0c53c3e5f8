// RUN: sexpgpu-opt %s --sx-autodiff --sx-simplify | FileCheck %s

// The derivative of a composite reads what the composite saved: no exponential, mean or deviation is made twice.
// CHECK-LABEL: func.func @attended(
// CHECK: %[[Y:.*]]:2 = "sx.attention"(%arg0, %arg1, %arg2)
// CHECK: "sx.attention_grad"(%{{[^,]*}}, %{{[^,]*}}, %arg0, %arg1, %arg2, %[[Y]]#0, %[[Y]]#1)
// CHECK-NOT: sx.exp
// CHECK-NOT: sx.softmax
// CHECK: return
func.func @attended(%q: tensor<1x2x3x4xf32> {sx.param = "q"}, %k: tensor<1x2x3x4xf32> {sx.param = "k"}, %v: tensor<1x2x3x4xf32> {sx.param = "v"})
    -> (tensor<f32> {sx.loss = "loss"}) {
  %y:2 = "sx.attention"(%q, %k, %v) {causal = true, rounded = false, scale = 5.0e-01 : f64, window = 0 : i64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  %s = "sx.square"(%y#0) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %l = "sx.sum"(%s) {axes = array<i64: 0, 1, 2, 3>, keepdims = false} : (tensor<1x2x3x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// CHECK-LABEL: func.func @normed(
// CHECK: %[[N:.*]]:3 = "sx.layer_norm"(%arg0, %arg1, %arg2)
// CHECK-DAG: "sx.layer_norm_grad"(%{{.*}}, %arg0, %[[N]]#1, %[[N]]#2, %arg1)
// CHECK-DAG: "sx.layer_norm_gain"(%{{.*}}, %arg0, %[[N]]#1, %[[N]]#2)
// CHECK-NOT: sx.rsqrt
// CHECK: return
func.func @normed(%x: tensor<3x8xf32> {sx.param = "x"}, %g: tensor<8xf32> {sx.param = "g"}, %b: tensor<8xf32> {sx.param = "b"})
    -> (tensor<f32> {sx.loss = "loss"}) {
  %y:3 = "sx.layer_norm"(%x, %g, %b) {eps = 1.0e-05 : f64} : (tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>, tensor<3x1xf32>)
  %s = "sx.square"(%y#0) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %l = "sx.sum"(%s) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<3x8xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// Softmax is differentiated from its result.
// CHECK-LABEL: func.func @soft(
// CHECK: %[[P:.*]] = "sx.softmax"(%arg0)
// CHECK-NOT: sx.exp
// CHECK-NOT: "sx.softmax"
// CHECK: "sx.mul"({{.*}}%[[P]]
// CHECK: return
func.func @soft(%x: tensor<3x8xf32> {sx.param = "x"}, %t: tensor<3x8xf32> {sx.field = "t"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %p = "sx.softmax"(%x) {axis = 1 : i64} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %m = "sx.mul"(%p, %t) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %l = "sx.sum"(%m) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<3x8xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// Of a biased attention whose bias is data, the bias's derivative is not computed.
// CHECK-LABEL: func.func @masked(
// CHECK: "sx.attention_biased_grad"
// CHECK-NOT: "sx.attention_bias_grad"
// CHECK: return
func.func @masked(%q: tensor<1x1x3x2xf32> {sx.param = "q"}, %k: tensor<1x1x3x2xf32> {sx.field = "k"}, %b: tensor<1x1x3x3xf32> {sx.field = "b"})
    -> (tensor<f32> {sx.loss = "loss"}) {
  %y:2 = "sx.attention_biased"(%q, %k, %k, %b) {causal = false, rounded = false, scale = 1.0 : f64, window = 0 : i64} : (tensor<1x1x3x2xf32>, tensor<1x1x3x2xf32>, tensor<1x1x3x2xf32>, tensor<1x1x3x3xf32>) -> (tensor<1x1x3x2xf32>, tensor<1x1x3xf32>)
  %l = "sx.sum"(%y#0) {axes = array<i64: 0, 1, 2, 3>, keepdims = false} : (tensor<1x1x3x2xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
