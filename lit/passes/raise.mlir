// RUN: sexpgpu-opt %s --sx-raise --print-locations | FileCheck %s
// RUN: sexpgpu-opt %s --sx-raise --sx-raise | FileCheck %s --check-prefix=TWICE

// A composite stands where the last operation of its region stood, at its location, and says how it was written.
// CHECK-LABEL: func.func @located(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
// CHECK-NEXT: "sx.silu"(%[[X]]) {sx.as = "x times sigmoid(x)"} : (tensor<4xf32>) -> tensor<4xf32> loc(#[[AT:.*]])
// CHECK-NEXT: return
// TWICE-LABEL: func.func @located(
// TWICE-NEXT: sx.silu
// TWICE-NEXT: return
func.func @located(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = "sx.sigmoid"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("gate.sx":3:5)
  %y = "sx.mul"(%s, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("gate.sx":4:7)
  return %y : tensor<4xf32>
}

// A region that something outside looks into stays, and its last operation says why.
// CHECK-LABEL: func.func @observed(
// CHECK: sx.sigmoid
// CHECK: "sx.mul"({{.*}}) {sx.fell_back = "silu: another operation reads the sigmoid inside"}
func.func @observed(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = "sx.sigmoid"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %y = "sx.mul"(%s, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y, %s : tensor<4xf32>, tensor<4xf32>
}

// What `(checkpoint ...)` marked stays marked.
// CHECK-LABEL: func.func @marked(
// CHECK: "sx.silu"({{.*}}) {sx.as = "x times sigmoid(x)", sx.checkpoint = 2 : i64}
func.func @marked(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = "sx.sigmoid"(%x) {sx.checkpoint = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %y = "sx.mul"(%s, %x) {sx.checkpoint = 2 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// A closed function, an initializer, runs once and is left as it is.
// CHECK-LABEL: func.func @closed(
// CHECK: sx.sigmoid
// CHECK: sx.mul
func.func @closed() -> tensor<4xf32> {
  %x = "sx.constant"() {value = dense<2.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %s = "sx.sigmoid"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %y = "sx.mul"(%s, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// CHECK: #[[AT]] = loc("gate.sx":4:7)
