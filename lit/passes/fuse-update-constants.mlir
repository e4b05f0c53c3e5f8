// RUN: sexpgpu-opt %s --sx-fuse=target=cuda | FileCheck %s

// A constant that an update gives is written by its kernel, with the parameter. One of a single number is kept.
// CHECK-LABEL: func.func @sets(
// CHECK-NEXT: %[[U:.*]]:2 = call @update_1(
// CHECK-NEXT: %[[ONE:.*]] = "sx.constant"
// CHECK-NEXT: return %[[U]]#0, %[[U]]#1, %[[ONE]]
// CHECK: func.func private @update_1(
// CHECK: "sx.cast"(%{{.*}}) {dtype = f32} : (tensor<64xf32>) -> tensor<64xf32>
func.func @sets(%p: tensor<64xf32> {sx.param = "param"}, %g: tensor<64xf32> {sx.grad = "grad"})
    -> (tensor<64xf32> {sx.param = "param"}, tensor<64xf32> {sx.state = "m"}, tensor<f32> {sx.state = "k"}) attributes {sx.graph = "update sets"} {
  %z = "sx.constant"() {value = dense<0.0> : tensor<64xf32>} : () -> tensor<64xf32>
  %k = "sx.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %n = "sx.sub"(%p, %g) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %n, %z, %k : tensor<64xf32>, tensor<64xf32>, tensor<f32>
}
