// RUN: sexpgpu-opt %s --sx-verify --split-input-file --verify-diagnostics

func.func @f(%h: tensor<3xf32>, %xs: tensor<5x3xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{body changes the type of a state}}
  %r = call @loop(%h, %xs) : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}
func.func private @loop(tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
    attributes {sx.body = @body, sx.states = 1 : i64, sx.items = array<i64: 0>, sx.outs = array<i64>}
func.func private @body(%h: tensor<3xf32>, %x: tensor<3xf32>) -> tensor<3x1xf32> {
  %n = "sx.reshape"(%h) {shape = array<i64: 3, 1>} : (tensor<3xf32>) -> tensor<3x1xf32>
  return %n : tensor<3x1xf32>
}

// -----

func.func @f(%h: tensor<3xf32>, %xs: tensor<5x3xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{body takes other types than the loop passes}}
  %r = call @loop(%h, %xs) : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}
func.func private @loop(tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
    attributes {sx.body = @body, sx.states = 1 : i64, sx.items = array<i64: 1>, sx.outs = array<i64>}
func.func private @body(%h: tensor<3xf32>, %x: tensor<3xf32>) -> tensor<3xf32> {
  return %h : tensor<3xf32>
}
