// RUN: sexpgpu-opt %s --sx-precision | FileCheck %s
// RUN: sexpgpu-opt %s --sx-precision=policy=bf16 | FileCheck %s --check-prefix=BOTH

// Without an option the module's own policy holds, and a mark is for its operation alone: bf16 within an f32 module.
// CHECK: module attributes {sx.precision = "f32"}
module attributes {sx.precision = "f32"} {
// CHECK-LABEL: func.func @one(
// CHECK: %[[X:.*]] = "sx.cast"(%arg0) {dtype = bf16, sx.policy}
// CHECK: %[[P:.*]] = "sx.matmul"(%[[X]], %[[X]]) {sx.numerics = "bf16"} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: %[[W:.*]] = "sx.cast"(%[[P]]) {dtype = f32, sx.policy}
// CHECK: "sx.matmul"(%[[W]], %[[W]]) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// BOTH-LABEL: func.func @one(
// BOTH: "sx.matmul"({{.*}}) {sx.numerics = "bf16"}
// BOTH-NOT: "sx.cast"({{.*}}) {dtype = f32
// BOTH: "sx.matmul"({{.*}}) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
func.func @one(%x: tensor<4x4xf32> {sx.field = "x"}) -> (tensor<4x4xf32> {sx.metric = "y"}) {
  %p = "sx.matmul"(%x, %x) {sx.numerics = "bf16"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = "sx.matmul"(%p, %p) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %q : tensor<4x4xf32>
}

// A loop's body follows the mark of its call, and keeps the types of what goes in and comes out.
// CHECK-LABEL: func.func @looped(
// CHECK: call @loop(%arg0, %arg1) {sx.numerics = "bf16"} : (tensor<4x4xf32>, tensor<5x4x4xf32>) -> tensor<4x4xf32>
// CHECK: func.func private @body(%arg0: tensor<4x4xf32>, %arg1: tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[P:.*]] = "sx.matmul"({{.*}}) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: %[[R:.*]] = "sx.cast"(%[[P]]) {dtype = f32, sx.policy}
// CHECK: return %[[R]] : tensor<4x4xf32>
func.func @looped(%h: tensor<4x4xf32> {sx.field = "h"}, %xs: tensor<5x4x4xf32> {sx.field = "xs"}) -> (tensor<4x4xf32> {sx.metric = "y"}) {
  %r = call @loop(%h, %xs) {sx.numerics = "bf16"} : (tensor<4x4xf32>, tensor<5x4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
func.func private @body(%h: tensor<4x4xf32>, %x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %n = "sx.matmul"(%h, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %n : tensor<4x4xf32>
}
func.func private @loop(tensor<4x4xf32>, tensor<5x4x4xf32>) -> tensor<4x4xf32>
    attributes {sx.body = @body, sx.states = 1 : i64, sx.items = array<i64: 0>, sx.outs = array<i64>}
}
