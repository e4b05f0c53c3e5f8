// RUN: sexpgpu-opt %s --sx-raise | FileCheck %s

// As the library writes it, with a weight; the bias that is missing is zeros.
// CHECK-LABEL: func.func @layer(
// CHECK-SAME: %[[X:[^:]*]]: tensor<3x8xf32>, %[[W:[^:]*]]: tensor<8xf32>
// CHECK-NEXT: %[[B:.*]] = "sx.constant"() {value = dense<0.000000e+00> : tensor<8xf32>}
// CHECK-NEXT: %[[Y:.*]]:3 = "sx.layer_norm"(%[[X]], %[[W]], %[[B]]) {eps = 9.99{{.*}}E-6 : f64, sx.as = "with weight"}
// CHECK-NEXT: return %[[Y]]#0
func.func @layer(%x: tensor<3x8xf32>, %w: tensor<8xf32>) -> tensor<3x8xf32> {
  %q = "sx.constant"() {value = dense<0.125> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %eps = "sx.constant"() {value = dense<1.0e-05> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %s = "sx.sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %m = "sx.mul"(%s, %q) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %n = "sx.broadcast"(%m) {shape = array<i64: 3, 8>} : (tensor<3x1xf32>) -> tensor<3x8xf32>
  %c = "sx.sub"(%x, %n) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %d = "sx.square"(%c) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %t = "sx.sum"(%d) {axes = array<i64: 1>, keepdims = true} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %v = "sx.mul"(%t, %q) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %e = "sx.add"(%v, %eps) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %r = "sx.rsqrt"(%e) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %i = "sx.broadcast"(%r) {shape = array<i64: 3, 8>} : (tensor<3x1xf32>) -> tensor<3x8xf32>
  %a = "sx.mul"(%c, %i) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %u = "sx.broadcast"(%w) {shape = array<i64: 3, 8>} : (tensor<8xf32>) -> tensor<3x8xf32>
  %y = "sx.mul"(%a, %u) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}

// Divided by the root of the mean square, without a weight.
// CHECK-LABEL: func.func @rms(
// CHECK-SAME: %[[X:[^:]*]]: tensor<3x8xf32>
// CHECK: %[[Y:.*]]:2 = "sx.rms_norm"(%[[X]], %{{.*}}) {eps = 2.500000e-01 : f64, sx.as = "alone"}
// CHECK-NEXT: return %[[Y]]#0
func.func @rms(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %l = "sx.constant"() {value = dense<8.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %eps = "sx.constant"() {value = dense<0.25> : tensor<3xf32>} : () -> tensor<3xf32>
  %d = "sx.mul"(%x, %x) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %t = "sx.sum"(%d) {axes = array<i64: 1>, keepdims = false} : (tensor<3x8xf32>) -> tensor<3xf32>
  %v = "sx.div"(%t, %l) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %e = "sx.add"(%eps, %v) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %r = "sx.sqrt"(%e) : (tensor<3xf32>) -> tensor<3xf32>
  %k = "sx.reshape"(%r) {shape = array<i64: 3, 1>} : (tensor<3xf32>) -> tensor<3x1xf32>
  %i = "sx.broadcast"(%k) {shape = array<i64: 3, 8>} : (tensor<3x1xf32>) -> tensor<3x8xf32>
  %y = "sx.div"(%x, %i) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}

// eps added to the root is another function.
// CHECK-LABEL: func.func @eps_outside(
// CHECK-NOT: sx.rms_norm
// CHECK: return
func.func @eps_outside(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %q = "sx.constant"() {value = dense<0.125> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %eps = "sx.constant"() {value = dense<0.25> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %d = "sx.square"(%x) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %t = "sx.sum"(%d) {axes = array<i64: 1>, keepdims = true} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %v = "sx.mul"(%t, %q) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %r = "sx.sqrt"(%v) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %e = "sx.add"(%r, %eps) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %i = "sx.broadcast"(%e) {shape = array<i64: 3, 8>} : (tensor<3x1xf32>) -> tensor<3x8xf32>
  %y = "sx.div"(%x, %i) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}
