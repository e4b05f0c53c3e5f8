// RUN: sexpgpu-opt %s --sx-verify | FileCheck %s
// RUN: sexpgpu-opt %s --sx-verify | sexpgpu-opt - --sx-verify | FileCheck %s
// RUN: sexpgpu-opt %s --sx-simplify | FileCheck %s --check-prefix=KEPT

// A group is a call of a private function that says its family; what it is cut by and folded with stays beside it.
// CHECK-LABEL: func.func @train(
// CHECK-NEXT: %[[Y:.*]]:2 = call @column_1(%arg0, %arg1) : (tensor<64x8xf32>, tensor<8xf32>) -> (tensor<64x8xf32>, tensor<8xf32>)
// CHECK-NEXT: return %[[Y]]#0, %[[Y]]#1
// CHECK: func.func private @column_1(%arg0: tensor<64x8xf32>, %arg1: tensor<8xf32>) -> (tensor<64x8xf32>, tensor<8xf32>)
// CHECK-SAME: sx.fold = ["", "add"], sx.group = "column", sx.tile = array<i64: 16>, sx.tiled = array<i64: 1, 0, 1, 0>
// CHECK-NEXT: "sx.broadcast"
// CHECK-NEXT: "sx.mul"
// CHECK-NEXT: "sx.sum"

// A pass that knows no groups sees calls, and keeps the function that two graphs name.
// KEPT-COUNT-2: call @column_1
// KEPT: func.func private @column_1
func.func @train(%x: tensor<64x8xf32>, %w: tensor<8xf32>) -> (tensor<64x8xf32>, tensor<8xf32>) {
  %y:2 = call @column_1(%x, %w) : (tensor<64x8xf32>, tensor<8xf32>) -> (tensor<64x8xf32>, tensor<8xf32>)
  return %y#0, %y#1 : tensor<64x8xf32>, tensor<8xf32>
}
func.func @val(%x: tensor<64x8xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
  %y:2 = call @column_1(%x, %w) : (tensor<64x8xf32>, tensor<8xf32>) -> (tensor<64x8xf32>, tensor<8xf32>)
  return %y#1 : tensor<8xf32>
}
func.func private @column_1(%x: tensor<64x8xf32>, %w: tensor<8xf32>) -> (tensor<64x8xf32>, tensor<8xf32>)
    attributes {sx.group = "column", sx.tile = array<i64: 16>, sx.tiled = array<i64: 1, 0, 1, 0>, sx.fold = ["", "add"]} {
  %b = "sx.broadcast"(%w) {shape = array<i64: 64, 8>} : (tensor<8xf32>) -> tensor<64x8xf32>
  %y = "sx.mul"(%x, %b) : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  %s = "sx.sum"(%y) {axes = array<i64: 0>, keepdims = false} : (tensor<64x8xf32>) -> tensor<8xf32>
  return %y, %s : tensor<64x8xf32>, tensor<8xf32>
}
