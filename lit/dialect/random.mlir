// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/random.py parses, verifies and prints as it was: random numbers.

// CHECK-LABEL: @random_bits(
func.func @random_bits(%counter: tensor<3xi32>) -> tensor<2x3xi32> {
  // CHECK: "sx.random_bits"({{.*}}) {key = 7 : i64, shape = array<i64: 2, 3>} : (tensor<3xi32>) -> tensor<2x3xi32>
  %0 = "sx.random_bits"(%counter) {key = 7 : i64, shape = array<i64: 2, 3>} : (tensor<3xi32>) -> tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}

// CHECK-LABEL: @random_uniform(
func.func @random_uniform(%counter: tensor<3xi32>) -> tensor<2x3xf32> {
  // CHECK: "sx.random_uniform"({{.*}}) {dtype = f32, key = 7 : i64, shape = array<i64: 2, 3>} : (tensor<3xi32>) -> tensor<2x3xf32>
  %0 = "sx.random_uniform"(%counter) {dtype = f32, key = 7 : i64, shape = array<i64: 2, 3>} : (tensor<3xi32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
