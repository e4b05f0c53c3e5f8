// RUN: sexpgpu-opt %s --pipeline cpu | FileCheck %s
// RUN: sexpgpu-opt %s --pipeline cpu | sexpgpu-opt - --sx-verify | FileCheck %s

// The device's passes alone: both chains become groups, the graph says what moved and what its arena takes. The product is
// written where the result of the graph goes, which the group behind it may overwrite.
// CHECK-LABEL: func.func @val(
// CHECK-SAME: sx.arena = [[ARENA:[0-9]+]] : i64, sx.bytes_after = 327680 : i64, sx.bytes_before = 524288 : i64
// CHECK-SAME: sx.live = [[ARENA]] : i64
// CHECK: %[[A:.*]] = call @pointwise_1(%arg0) {sx.at = array<i64: 0, 0>}
// CHECK-NEXT: %[[P:.*]] = "sx.matmul"(%[[A]], %arg1) :
// CHECK-NEXT: %[[Y:.*]] = call @row_1(%[[P]]) {sx.at = array<i64: -1, 0>}
// CHECK-NEXT: return %[[Y]]
func.func @val(%x: tensor<128x64xf32> {sx.field = "x"}, %w: tensor<64x128xf32> {sx.param = "w"}) -> (tensor<128x128xf32> {sx.metric = "y"}) {
  %a = "sx.tanh"(%x) : (tensor<128x64xf32>) -> tensor<128x64xf32>
  %b = "sx.neg"(%a) : (tensor<128x64xf32>) -> tensor<128x64xf32>
  %p = "sx.matmul"(%b, %w) : (tensor<128x64xf32>, tensor<64x128xf32>) -> tensor<128x128xf32>
  %s = "sx.softmax"(%p) {axis = 1 : i64} : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %y = "sx.square"(%s) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %y : tensor<128x128xf32>
}

// What runs once has no groups and no arena.
// CHECK-LABEL: func.func @init()
// CHECK-NOT: sx.arena
// CHECK: sx.iota
// CHECK-NEXT: sx.exp
// CHECK-NEXT: sx.neg
// CHECK-NEXT: return
func.func @init() -> tensor<64x128xf32> {
  %i = "sx.iota"() {axis = 0 : i64, dtype = f32, shape = array<i64: 64, 128>} : () -> tensor<64x128xf32>
  %e = "sx.exp"(%i) : (tensor<64x128xf32>) -> tensor<64x128xf32>
  %n = "sx.neg"(%e) : (tensor<64x128xf32>) -> tensor<64x128xf32>
  return %n : tensor<64x128xf32>
}

// CHECK: func.func private @pointwise_1(
// CHECK: func.func private @row_1(
