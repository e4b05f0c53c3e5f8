// RUN: sexpgpu-opt %s --sx-fuse=target=cpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda | FileCheck %s --check-prefix=CUDA

// The gradients of a norm's scale and of a bias: sums over the first axes, with what is computed for them alone. They
// read the same tensor, so both are one group; on the CPU the sums of the tiles are added up.
// CHECK-LABEL: func.func @gradients(
// CHECK-NEXT: %[[R:.*]]:2 = call @column_1(%arg0, %arg1)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
// CUDA-LABEL: func.func @gradients(
// CUDA-NEXT: %[[R:.*]]:2 = call @column_1(%arg0, %arg1)
func.func @gradients(%g: tensor<48x64x128xf32>, %n: tensor<48x64x128xf32>) -> (tensor<128xf32>, tensor<128xf32>) {
  %m = "sx.mul"(%g, %n) : (tensor<48x64x128xf32>, tensor<48x64x128xf32>) -> tensor<48x64x128xf32>
  %a = "sx.sum"(%m) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<48x64x128xf32>) -> tensor<128xf32>
  %b = "sx.sum"(%g) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<48x64x128xf32>) -> tensor<128xf32>
  return %a, %b : tensor<128xf32>, tensor<128xf32>
}

// On the CPU a column's sum rides with the rows that read the same tensors; a GPU's rows know no columns.
// CHECK-LABEL: func.func @both(
// CHECK-NEXT: call @row_1(%arg0, %arg1)
// CHECK-NEXT: return
// CUDA-LABEL: func.func @both(
// CUDA-DAG: call @column_2(%arg0, %arg1)
// CUDA-DAG: call @row_1(%arg0)
func.func @both(%g: tensor<48x64x128xf32>, %n: tensor<48x64x128xf32>) -> (tensor<128xf32>, tensor<48x64x128xf32>) {
  %m = "sx.mul"(%g, %n) : (tensor<48x64x128xf32>, tensor<48x64x128xf32>) -> tensor<48x64x128xf32>
  %a = "sx.sum"(%m) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<48x64x128xf32>) -> tensor<128xf32>
  %s = "sx.sum"(%g) {axes = array<i64: 2>, keepdims = true} : (tensor<48x64x128xf32>) -> tensor<48x64x1xf32>
  %w = "sx.broadcast"(%s) {shape = array<i64: 48, 64, 128>} : (tensor<48x64x1xf32>) -> tensor<48x64x128xf32>
  %y = "sx.sub"(%g, %w) : (tensor<48x64x128xf32>, tensor<48x64x128xf32>) -> tensor<48x64x128xf32>
  return %a, %y : tensor<128xf32>, tensor<48x64x128xf32>
}

// A greatest of all, folded by taking the greatest of the tiles; what reads it comes after the last tile.
// CHECK-LABEL: func.func @norm(
// CHECK: %[[M:.*]] = call @column_2(%arg0)
// CHECK: call @pointwise_1({{.*}}%[[M]]
func.func @norm(%x: tensor<256x1024xf32>) -> tensor<256x1024xf32> {
  %a = "sx.abs"(%x) : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %m = "sx.amax"(%a) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<256x1024xf32>) -> tensor<f32>
  %w = "sx.broadcast"(%m) {shape = array<i64: 256, 1024>} : (tensor<f32>) -> tensor<256x1024xf32>
  %d = "sx.div"(%x, %w) : (tensor<256x1024xf32>, tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %y = "sx.tanh"(%d) : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  return %y : tensor<256x1024xf32>
}

// CHECK: func.func private @column_1(
// CHECK-SAME: sx.fold = ["add", "add"], sx.group = "column", sx.tile = array<i64: 4>, sx.tiled = array<i64: 1, 1, 0, 0>
// CHECK: func.func private @row_1(
// CHECK-SAME: sx.fold = ["add", ""], sx.group = "row", sx.tile = array<i64: 4>, sx.tiled = array<i64: 1, 1, 0, 1>
// CHECK: func.func private @column_2(
// CHECK-SAME: sx.fold = ["max"], sx.group = "column", sx.tile = array<i64: 32>, sx.tiled = array<i64: 1, 0>
