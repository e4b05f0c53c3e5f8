// RUN: sexpgpu-opt %s --sx-raise | FileCheck %s

// GELU with erf, the halves anywhere.
// CHECK-LABEL: func.func @gelu(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
// CHECK-NEXT: "sx.gelu"(%[[X]]) {approximate = "none", sx.as = "x times half of 1 + erf"}
// CHECK-NEXT: return
func.func @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = "sx.constant"() {value = dense<0.5> : tensor<4xf32>} : () -> tensor<4xf32>
  %one = "sx.constant"() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %root = "sx.constant"() {value = dense<1.41421354> : tensor<4xf32>} : () -> tensor<4xf32>
  %u = "sx.div"(%x, %root) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = "sx.erf"(%u) : (tensor<4xf32>) -> tensor<4xf32>
  %a = "sx.add"(%one, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %h = "sx.mul"(%half, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = "sx.mul"(%h, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// GELU with tanh, the cube by `pow`.
// CHECK-LABEL: func.func @gelu_tanh(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
// CHECK-NEXT: "sx.gelu"(%[[X]]) {approximate = "tanh", sx.as = "half of x, and of x tanh"}
func.func @gelu_tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = "sx.constant"() {value = dense<0.5> : tensor<4xf32>} : () -> tensor<4xf32>
  %three = "sx.constant"() {value = dense<3.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %a = "sx.constant"() {value = dense<0.044715> : tensor<4xf32>} : () -> tensor<4xf32>
  %c = "sx.constant"() {value = dense<0.797884583> : tensor<4xf32>} : () -> tensor<4xf32>
  %cube = "sx.pow"(%x, %three) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = "sx.mul"(%a, %cube) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = "sx.add"(%x, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %u = "sx.mul"(%c, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = "sx.tanh"(%u) : (tensor<4xf32>) -> tensor<4xf32>
  %h = "sx.mul"(%half, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %i = "sx.mul"(%h, %g) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = "sx.add"(%h, %i) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// A sigmoid is raised first, and the SiLU around it then.
// CHECK-LABEL: func.func @silu(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
// CHECK-NEXT: "sx.silu"(%[[X]])
// CHECK-NEXT: return
func.func @silu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = "sx.constant"() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %n = "sx.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %e = "sx.exp"(%n) : (tensor<4xf32>) -> tensor<4xf32>
  %t = "sx.add"(%e, %one) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = "sx.div"(%one, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = "sx.mul"(%x, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: func.func @softplus(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
// CHECK-NEXT: "sx.softplus"(%[[X]]) {sx.as = "max(x, 0) + log(1 + exp(-|x|))"}
// CHECK-NEXT: return
func.func @softplus(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "sx.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %a = "sx.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %n = "sx.neg"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %e = "sx.exp"(%n) : (tensor<4xf32>) -> tensor<4xf32>
  %l = "sx.log1p"(%e) : (tensor<4xf32>) -> tensor<4xf32>
  %y = "sx.add"(%r, %l) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// x sigmoid(1.702 x) is an approximation of GELU, but another function.
// CHECK-LABEL: func.func @quick(
// CHECK-NOT: sx.gelu
// CHECK-NOT: sx.silu
// CHECK: return
func.func @quick(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = "sx.constant"() {value = dense<1.702> : tensor<4xf32>} : () -> tensor<4xf32>
  %u = "sx.mul"(%c, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = "sx.sigmoid"(%u) : (tensor<4xf32>) -> tensor<4xf32>
  %y = "sx.mul"(%x, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
