// RUN: sexpgpu-opt %s --sx-prefixes=target=cuda --sx-simplify | FileCheck %s
// RUN: sexpgpu-opt %s --sx-prefixes | FileCheck %s --check-prefix=CPU
// RUN: sexpgpu-opt %s --sx-prefixes=target=cuda --sx-simplify --sx-autodiff --sx-simplify | FileCheck %s --check-prefix=BACK
// RUN: not sexpgpu-opt %s --sx-prefixes=target=tpu 2>&1 | FileCheck %s --check-prefix=TARGET

// Products of two places, combined by operations: on a GPU they are a loop from the first place along the others.
// CHECK-LABEL: func.func @products(
// CHECK-SAME: %[[X:.*]]: tensor<4x2xf32>
// CHECK-DAG: %[[FIRST:.*]] = "sx.slice"(%[[X]]) {start = array<i64: 0, 0>, step = array<i64: 1, 1>, stop = array<i64: 4, 1>}
// CHECK-DAG: %[[STATE:.*]] = "sx.reshape"(%[[FIRST]]) {shape = array<i64: 4>}
// CHECK-DAG: %[[REST:.*]] = "sx.slice"(%[[X]]) {start = array<i64: 0, 1>, step = array<i64: 1, 1>, stop = array<i64: 4, 2>}
// CHECK: %[[OUT:.*]]:2 = call @times.scan{{.*}}(%[[STATE]], %[[REST]])
// CHECK: %[[WHOLE:.*]] = "sx.concat"(%[[FIRST]], %[[OUT]]#1) {axis = 1 : i64}
// CHECK: "sx.sum"(%[[WHOLE]])
// CHECK-NOT: sx.prefixes

// A product of matrices looks at other elements: its operations stay, without their marks.
// CHECK-LABEL: func.func @matrices(
// CHECK-NOT: call
// CHECK: "sx.matmul"
// CHECK-NOT: sx.places

// What is computed on the way is read as well, by a derivative, say: the operations are needed anyway.
// CHECK-LABEL: func.func @looked_into(
// CHECK-NOT: call
// CHECK: return
// CHECK-LABEL: @times.scan
// CHECK-SAME: sx.associative
// CHECK-SAME: sx.items = array<i64: 1>, sx.outs = array<i64: 1>, sx.states = 1

// On the CPU the marks go, and what was combined with.
// CPU-NOT: func.func private
// CPU-LABEL: func.func @products(
// CPU-NOT: sx.places
// CPU-NOT: sx.prefixes
// CPU: "sx.concat"
// CPU-LABEL: func.func @matrices(
// CPU-LABEL: func.func @looked_into(
// CPU-NOT: func.func private

// The derivative reads the states that came in where the prefixes lie, so no loop writes them twice.
// BACK-LABEL: func.func @products(
// BACK: %[[WHOLE:.*]] = "sx.concat"
// BACK: %[[KEPT:.*]] = "sx.slice"(%[[WHOLE]]) {start = array<i64: 0, 0>, step = array<i64: 1, 1>, stop = array<i64: 4, 1>}
// BACK: call @times.turn{{.*}}.back{{.*}}(%{{.*}}, %[[KEPT]],

// TARGET: error[E-IR-011]: `sx-prefixes`: `tpu` is no value for `target`

func.func private @times(%a: tensor<4x1xf32>, %b: tensor<4x1xf32>) -> tensor<4x1xf32> {
  %p = "sx.mul"(%a, %b) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  return %p : tensor<4x1xf32>
}

func.func private @product(%a: tensor<1x2x2xf32>, %b: tensor<1x2x2xf32>) -> tensor<1x2x2xf32> {
  %p = "sx.matmul"(%a, %b) : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  return %p : tensor<1x2x2xf32>
}

func.func @products(%x: tensor<4x2xf32> {sx.param = "x"}) -> (tensor<f32> {sx.loss = "loss"}) attributes {sx.graph = "products"} {
  %a = "sx.slice"(%x) {start = array<i64: 0, 0>, step = array<i64: 1, 2>, stop = array<i64: 4, 1>, sx.places = [@times, 0, 1]} : (tensor<4x2xf32>) -> tensor<4x1xf32>
  %b = "sx.slice"(%x) {start = array<i64: 0, 1>, step = array<i64: 1, 2>, stop = array<i64: 4, 2>} : (tensor<4x2xf32>) -> tensor<4x1xf32>
  %p = "sx.mul"(%a, %b) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = "sx.concat"(%a, %p) {axis = 1 : i64, sx.prefixes = [@times, 0, 1]} : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  %s = "sx.sum"(%y) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x2xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

func.func @matrices(%x: tensor<2x2x2xf32>) -> tensor<2x2x2xf32> {
  %a = "sx.slice"(%x) {start = array<i64: 0, 0, 0>, step = array<i64: 2, 1, 1>, stop = array<i64: 1, 2, 2>, sx.places = [@product, 0, 0]} : (tensor<2x2x2xf32>) -> tensor<1x2x2xf32>
  %b = "sx.slice"(%x) {start = array<i64: 1, 0, 0>, step = array<i64: 2, 1, 1>, stop = array<i64: 2, 2, 2>} : (tensor<2x2x2xf32>) -> tensor<1x2x2xf32>
  %p = "sx.matmul"(%a, %b) : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  %y = "sx.concat"(%a, %p) {axis = 0 : i64, sx.prefixes = [@product, 0, 0]} : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<2x2x2xf32>
  return %y : tensor<2x2x2xf32>
}

func.func @looked_into(%x: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x1xf32>) {
  %a = "sx.slice"(%x) {start = array<i64: 0, 0>, step = array<i64: 1, 2>, stop = array<i64: 4, 1>, sx.places = [@factors, 0, 1]} : (tensor<4x2xf32>) -> tensor<4x1xf32>
  %b = "sx.slice"(%x) {start = array<i64: 0, 1>, step = array<i64: 1, 2>, stop = array<i64: 4, 2>} : (tensor<4x2xf32>) -> tensor<4x1xf32>
  %p = "sx.mul"(%a, %b) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = "sx.concat"(%a, %p) {axis = 1 : i64, sx.prefixes = [@factors, 0, 1]} : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  return %y, %p : tensor<4x2xf32>, tensor<4x1xf32>
}

func.func private @factors(%a: tensor<4x1xf32>, %b: tensor<4x1xf32>) -> tensor<4x1xf32> {
  %p = "sx.mul"(%a, %b) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  return %p : tensor<4x1xf32>
}
