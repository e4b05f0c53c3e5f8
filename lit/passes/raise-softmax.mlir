// RUN: sexpgpu-opt %s --sx-raise | FileCheck %s

// e^(x - max) over its sum.
// CHECK-LABEL: func.func @shifted(
// CHECK-SAME: %[[X:[^:]*]]: tensor<3x5xf32>
// CHECK-NEXT: %[[P:.*]] = "sx.softmax"(%[[X]]) {axis = 1 : i64, sx.as = "shifted by the maximum"}
// CHECK-NEXT: return %[[P]]
func.func @shifted(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %m = "sx.amax"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<3x5xf32>) -> tensor<3x1xf32>
  %n = "sx.stop_gradient"(%m) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %b = "sx.broadcast"(%n) {shape = array<i64: 3, 5>} : (tensor<3x1xf32>) -> tensor<3x5xf32>
  %z = "sx.sub"(%x, %b) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %e = "sx.exp"(%z) : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %t = "sx.sum"(%e) {axes = array<i64: 1>, keepdims = true} : (tensor<3x5xf32>) -> tensor<3x1xf32>
  %u = "sx.broadcast"(%t) {shape = array<i64: 3, 5>} : (tensor<3x1xf32>) -> tensor<3x5xf32>
  %p = "sx.div"(%e, %u) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %p : tensor<3x5xf32>
}

// Lines along the first axis, whose sum comes back without a reshape.
// CHECK-LABEL: func.func @first_axis(
// CHECK-NEXT: "sx.softmax"(%{{.*}}) {axis = 0 : i64, sx.as = "not shifted"}
func.func @first_axis(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = "sx.exp"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = "sx.sum"(%e) {axes = array<i64: 0>, keepdims = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  %r = "sx.reciprocal"(%t) : (tensor<4xf32>) -> tensor<4xf32>
  %u = "sx.broadcast"(%r) {shape = array<i64: 4, 4>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %p = "sx.mul"(%u, %e) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %p : tensor<4x4xf32>
}

// The same sum taken along the other axis: what is divided by belongs to other lines.
// CHECK-LABEL: func.func @other_lines(
// CHECK-NOT: sx.softmax
// CHECK: return
func.func @other_lines(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = "sx.exp"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = "sx.sum"(%e) {axes = array<i64: 1>, keepdims = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  %u = "sx.broadcast"(%t) {shape = array<i64: 4, 4>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %p = "sx.div"(%e, %u) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %p : tensor<4x4xf32>
}

// logsumexp, and the log-softmax that subtracts it.
// CHECK-LABEL: func.func @logarithms(
// CHECK-SAME: %[[X:[^:]*]]: tensor<3x5xf32>, %[[Y:[^:]*]]: tensor<3x5xf32>
// CHECK-NEXT: %[[L:.*]] = "sx.logsumexp"(%[[X]]) {axis = 1 : i64, keepdims = false, sx.as = "shifted by the maximum"}
// CHECK-NEXT: %[[S:.*]] = "sx.log_softmax"(%[[Y]]) {axis = 1 : i64, sx.as = "less logsumexp"}
// CHECK-NEXT: return %[[L]], %[[S]]
func.func @logarithms(%x: tensor<3x5xf32>, %y: tensor<3x5xf32>) -> (tensor<3xf32>, tensor<3x5xf32>) {
  %m = "sx.amax"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<3x5xf32>) -> tensor<3xf32>
  %k = "sx.reshape"(%m) {shape = array<i64: 3, 1>} : (tensor<3xf32>) -> tensor<3x1xf32>
  %b = "sx.broadcast"(%k) {shape = array<i64: 3, 5>} : (tensor<3x1xf32>) -> tensor<3x5xf32>
  %z = "sx.sub"(%x, %b) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %e = "sx.exp"(%z) : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %t = "sx.sum"(%e) {axes = array<i64: 1>, keepdims = false} : (tensor<3x5xf32>) -> tensor<3xf32>
  %g = "sx.log"(%t) : (tensor<3xf32>) -> tensor<3xf32>
  %l = "sx.add"(%m, %g) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %f = "sx.logsumexp"(%y) {axis = 1 : i64, keepdims = true} : (tensor<3x5xf32>) -> tensor<3x1xf32>
  %h = "sx.broadcast"(%f) {shape = array<i64: 3, 5>} : (tensor<3x1xf32>) -> tensor<3x5xf32>
  %s = "sx.sub"(%y, %h) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %l, %s : tensor<3xf32>, tensor<3x5xf32>
}

// A shift by the mean keeps the softmax what it is, but not its exponentials from overflowing.
// CHECK-LABEL: func.func @shifted_by_the_mean(
// CHECK: "sx.div"({{.*}}) {sx.fell_back = "softmax: the shift is not the maximum of the line"}
func.func @shifted_by_the_mean(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %q = "sx.constant"() {value = dense<0.25> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %m = "sx.sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<3x4xf32>) -> tensor<3x1xf32>
  %n = "sx.mul"(%m, %q) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %b = "sx.broadcast"(%n) {shape = array<i64: 3, 4>} : (tensor<3x1xf32>) -> tensor<3x4xf32>
  %z = "sx.sub"(%x, %b) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %e = "sx.exp"(%z) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %t = "sx.sum"(%e) {axes = array<i64: 1>, keepdims = true} : (tensor<3x4xf32>) -> tensor<3x1xf32>
  %u = "sx.broadcast"(%t) {shape = array<i64: 3, 4>} : (tensor<3x1xf32>) -> tensor<3x4xf32>
  %p = "sx.div"(%e, %u) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %p : tensor<3x4xf32>
}
