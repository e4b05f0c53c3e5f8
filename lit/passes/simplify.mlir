// RUN: sexpgpu-opt %s --sx-simplify | FileCheck %s

// Neutral operands go, on either side where the operation commutes.
// CHECK-LABEL: func.func @neutral(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]] :
func.func @neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = "sx.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %one = "sx.constant"() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %a = "sx.add"(%x, %zero) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = "sx.mul"(%one, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = "sx.div"(%x, %one) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// 0 - x and 1 / x are something else.
// CHECK-LABEL: func.func @not_neutral(
// CHECK: sx.sub
// CHECK: sx.div
func.func @not_neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = "sx.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %one = "sx.constant"() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %a = "sx.sub"(%zero, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = "sx.div"(%one, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// Equal operations become one; what nobody uses goes.
// CHECK-LABEL: func.func @shared(
// CHECK: %[[E:.*]] = "sx.exp"
// CHECK-NOT: sx.exp
// CHECK-NOT: sx.tanh
// CHECK: "sx.add"(%[[E]], %[[E]])
func.func @shared(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "sx.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = "sx.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %unused = "sx.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = "sx.add"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}

// Constants fold; a splat that is broadcast stays a splat.
// CHECK-LABEL: func.func @folded(
// CHECK-NEXT: %[[C:.*]] = "sx.constant"() {value = dense<5.000000e+00> : tensor<2x3xf32>}
// CHECK-NEXT: return %[[C]]
func.func @folded(%x: tensor<f32>) -> tensor<2x3xf32> {
  %two = "sx.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %three = "sx.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %five = "sx.add"(%two, %three) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %wide = "sx.broadcast"(%five) {shape = array<i64: 2, 3>} : (tensor<f32>) -> tensor<2x3xf32>
  return %wide : tensor<2x3xf32>
}

// Movements compose and undo each other.
// CHECK-LABEL: func.func @moved(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>
// CHECK-NEXT: %[[R:.*]] = "sx.reshape"(%[[X]]) {shape = array<i64: 6>}
// CHECK-NEXT: return %[[R]], %[[X]]
func.func @moved(%x: tensor<2x3xf32>) -> (tensor<6xf32>, tensor<2x3xf32>) {
  %a = "sx.reshape"(%x) {shape = array<i64: 3, 2>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %b = "sx.reshape"(%a) {shape = array<i64: 6>} : (tensor<3x2xf32>) -> tensor<6xf32>
  %c = "sx.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %d = "sx.transpose"(%c) {perm = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %b, %d : tensor<6xf32>, tensor<2x3xf32>
}

// Division by a power of two is a product; by another number it stays, since the product would round differently.
// CHECK-LABEL: func.func @divided(
// CHECK: %[[Q:.*]] = "sx.constant"() {value = dense<2.500000e-01>
// CHECK: "sx.mul"(%{{.*}}, %[[Q]])
// CHECK: "sx.div"
func.func @divided(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %four = "sx.constant"() {value = dense<4.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %five = "sx.constant"() {value = dense<5.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %a = "sx.div"(%x, %four) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = "sx.div"(%x, %five) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// A closed graph, an initializer, runs once and is left as it is.
// CHECK-LABEL: func.func @closed(
// CHECK-COUNT-2: sx.constant
// CHECK: sx.add
func.func @closed() -> tensor<f32> {
  %two = "sx.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %three = "sx.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %five = "sx.add"(%two, %three) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %five : tensor<f32>
}

// Zeros of both signs are two numbers: what is divided by them tells them apart.
// CHECK-LABEL: func.func @zeros(
// CHECK: value = dense<[-0.000000e+00, 0.000000e+00]>
func.func @zeros(%x: tensor<2xf32>) -> tensor<2xf32> {
  %z = "sx.constant"() {value = dense<[0.0, -0.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %n = "sx.neg"(%z) : (tensor<2xf32>) -> tensor<2xf32>
  %q = "sx.div"(%x, %n) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %q : tensor<2xf32>
}
