// RUN: sexpgpu-opt %s --sx-raise | FileCheck %s

// The library's form: the log-probability is gathered, negated per row, and averaged, which stays.
// CHECK-LABEL: func.func @gather(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x5xf32>, %[[L:[^:]*]]: tensor<4xi32>
// CHECK-NEXT: %[[T:.*]]:2 = "sx.cross_entropy"(%[[X]], %[[L]])
// CHECK-SAME: {outside = "error", sx.as = "gather of log-probabilities, negated per row"}
// CHECK-NEXT: "sx.sum"(%[[T]]#0)
// CHECK-NOT: sx.neg
// CHECK: return
func.func @gather(%x: tensor<4x5xf32>, %l: tensor<4xi32>) -> tensor<f32> {
  %p = "sx.log_softmax"(%x) {axis = 1 : i64} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %c = "sx.reshape"(%l) {shape = array<i64: 4, 1>} : (tensor<4xi32>) -> tensor<4x1xi32>
  %t = "sx.take_along_axis"(%p, %c) {axis = 1 : i64} : (tensor<4x5xf32>, tensor<4x1xi32>) -> tensor<4x1xf32>
  %r = "sx.reshape"(%t) {shape = array<i64: 4>} : (tensor<4x1xf32>) -> tensor<4xf32>
  %n = "sx.neg"(%r) : (tensor<4xf32>) -> tensor<4xf32>
  %s = "sx.sum"(%n) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  %q = "sx.constant"() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %y = "sx.mul"(%s, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// A one-hot sum over all of the log-probabilities: a label that is no class counts nothing.
// CHECK-LABEL: func.func @one_hot(
// CHECK: %[[T:.*]]:2 = "sx.cross_entropy"
// CHECK-SAME: {outside = "zero", sx.as = "one-hot sum of log-probabilities, negated after the reduction"}
// CHECK-NEXT: %[[S:.*]] = "sx.sum"(%[[T]]#0) {axes = array<i64: 0>, keepdims = false}
// CHECK-NEXT: return %[[S]]
func.func @one_hot(%x: tensor<4x5xf32>, %l: tensor<4xi32>) -> tensor<f32> {
  %p = "sx.log_softmax"(%x) {axis = 1 : i64} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %c = "sx.reshape"(%l) {shape = array<i64: 4, 1>} : (tensor<4xi32>) -> tensor<4x1xi32>
  %b = "sx.broadcast"(%c) {shape = array<i64: 4, 5>} : (tensor<4x1xi32>) -> tensor<4x5xi32>
  %i = "sx.iota"() {axis = 1 : i64, dtype = i32, shape = array<i64: 4, 5>} : () -> tensor<4x5xi32>
  %h = "sx.eq"(%b, %i) : (tensor<4x5xi32>, tensor<4x5xi32>) -> tensor<4x5xi1>
  %o = "sx.cast"(%h) {dtype = f32} : (tensor<4x5xi1>) -> tensor<4x5xf32>
  %m = "sx.mul"(%o, %p) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %s = "sx.sum"(%m) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x5xf32>) -> tensor<f32>
  %y = "sx.neg"(%s) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// logsumexp less the gathered logit, of bf16 logits whose cast nobody else reads.
// CHECK-LABEL: func.func @shifted(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x5xbf16>, %[[L:[^:]*]]: tensor<4x1xi32>
// CHECK: "sx.cross_entropy"(%[[X]], %{{.*}}) {outside = "error", sx.as = "gather of shifted logits, negated per row"}
// CHECK-SAME: (tensor<4x5xbf16>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
func.func @shifted(%x: tensor<4x5xbf16>, %c: tensor<4x1xi32>) -> tensor<4x1xf32> {
  %w = "sx.cast"(%x) {dtype = f32, sx.policy} : (tensor<4x5xbf16>) -> tensor<4x5xf32>
  %l = "sx.logsumexp"(%w) {axis = 1 : i64, keepdims = true} : (tensor<4x5xf32>) -> tensor<4x1xf32>
  %t = "sx.take_along_axis"(%w, %c) {axis = 1 : i64} : (tensor<4x5xf32>, tensor<4x1xi32>) -> tensor<4x1xf32>
  %y = "sx.sub"(%l, %t) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  return %y : tensor<4x1xf32>
}

// Label smoothing reads the log-probabilities once more.
// CHECK-LABEL: func.func @smoothed(
// CHECK: sx.log_softmax
// CHECK: "sx.neg"({{.*}}) {sx.fell_back = "cross_entropy: another operation reads the log_softmax inside"}
func.func @smoothed(%x: tensor<4x5xf32>, %c: tensor<4x1xi32>) -> (tensor<4x1xf32>, tensor<4x1xf32>) {
  %p = "sx.log_softmax"(%x) {axis = 1 : i64} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %t = "sx.take_along_axis"(%p, %c) {axis = 1 : i64} : (tensor<4x5xf32>, tensor<4x1xi32>) -> tensor<4x1xf32>
  %y = "sx.neg"(%t) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %s = "sx.sum"(%p) {axes = array<i64: 1>, keepdims = true} : (tensor<4x5xf32>) -> tensor<4x1xf32>
  return %y, %s : tensor<4x1xf32>, tensor<4x1xf32>
}
