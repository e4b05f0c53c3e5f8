// RUN: sexpgpu-opt %s --sx-fuse=target=cuda | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cpu | FileCheck %s --check-prefix=CPU

// A GPU takes all of an update at once, numbers that are the same for every element included.
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[T:.*]]: tensor<i32> {sx.ctx = "step"}, %[[P:.*]]: tensor<2048x128xf32> {sx.param = "param"}, %[[G:.*]]: tensor<2048x128xf32>
// CHECK-NEXT: %[[R:.*]]:2 = call @update_1(%[[T]], %[[G]], %[[P]])
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1

// The CPU computes these numbers once, and the elements by tiles.
// CPU-LABEL: func.func @update(
// CPU-NEXT: %[[S:.*]] = call @pointwise_1(%arg0)
// CPU-NEXT: %[[P:.*]] = call @pointwise_2({{.*}}%[[S]]
// CPU: return %[[S]], %[[P]]
func.func @update(%t: tensor<i32> {sx.ctx = "step"}, %p: tensor<2048x128xf32> {sx.param = "param"}, %g: tensor<2048x128xf32> {sx.grad = "grad"})
    -> (tensor<f32>, tensor<2048x128xf32>) {
  %h = "sx.constant"() {value = dense<1.0e-01> : tensor<f32>} : () -> tensor<f32>
  %f = "sx.cast"(%t) {dtype = f32} : (tensor<i32>) -> tensor<f32>
  %s = "sx.div"(%h, %f) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %w = "sx.broadcast"(%s) {shape = array<i64: 2048, 128>} : (tensor<f32>) -> tensor<2048x128xf32>
  %d = "sx.mul"(%w, %g) : (tensor<2048x128xf32>, tensor<2048x128xf32>) -> tensor<2048x128xf32>
  %n = "sx.sub"(%p, %d) : (tensor<2048x128xf32>, tensor<2048x128xf32>) -> tensor<2048x128xf32>
  return %s, %n : tensor<f32>, tensor<2048x128xf32>
}

// CHECK: func.func private @update_1(
// CHECK-SAME: attributes {sx.group = "update"}
// CPU: func.func private @pointwise_1(
// CPU-SAME: sx.tile = array<i64>, sx.tiled = array<i64: 0, 0>
// CPU: func.func private @pointwise_2(
// CPU-SAME: sx.tile = array<i64: 512>, sx.tiled = array<i64: 0, 1, 1, 1>
