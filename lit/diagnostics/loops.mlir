// RUN: sexpgpu-opt %s --split-input-file --verify-diagnostics

// What a loop says of its body, and what the body is, beside the types in lit/dialect/loops-errors.mlir.
func.func @lengths(%h: tensor<3xf32>, %xs: tensor<5x3xf32>, %ys: tensor<4x3xf32>) {
  // expected-error@+1 {{the items of the loop over body differ in length}}
  %r = call @loop(%h, %xs, %ys) : (tensor<3xf32>, tensor<5x3xf32>, tensor<4x3xf32>) -> tensor<3xf32>
  return
}
func.func private @loop(tensor<3xf32>, tensor<5x3xf32>, tensor<4x3xf32>) -> tensor<3xf32>
    attributes {sx.body = @body, sx.states = 1 : i64, sx.items = array<i64: 0, 0>, sx.outs = array<i64>}
func.func private @body(%h: tensor<3xf32>, %x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  return %h : tensor<3xf32>
}

// -----

// Without an item nothing says how often the body runs.
func.func @endless(%h: tensor<3xf32>) {
  // expected-error@+1 {{the loop over body has other states, items or outs than its body and operands}}
  %r = call @loop(%h) : (tensor<3xf32>) -> tensor<3xf32>
  return
}
func.func private @loop(tensor<3xf32>) -> tensor<3xf32>
    attributes {sx.body = @body, sx.states = 1 : i64, sx.items = array<i64>, sx.outs = array<i64>}
func.func private @body(%h: tensor<3xf32>) -> tensor<3xf32> {
  return %h : tensor<3xf32>
}

// -----

// The body gives an out, and the loop has no axis for it.
func.func @outs(%h: tensor<3xf32>, %xs: tensor<5x3xf32>) {
  // expected-error@+1 {{the loop over body has other states, items or outs than its body and operands}}
  %r:2 = call @loop(%h, %xs) : (tensor<3xf32>, tensor<5x3xf32>) -> (tensor<3xf32>, tensor<5x3xf32>)
  return
}
func.func private @loop(tensor<3xf32>, tensor<5x3xf32>) -> (tensor<3xf32>, tensor<5x3xf32>)
    attributes {sx.body = @body, sx.states = 1 : i64, sx.items = array<i64: 0>, sx.outs = array<i64>}
func.func private @body(%h: tensor<3xf32>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  return %h, %x : tensor<3xf32>, tensor<3xf32>
}

// -----

// Five turns make five outs.
func.func @results(%h: tensor<3xf32>, %xs: tensor<5x3xf32>) {
  // expected-error@+1 {{the loop over body gives other types than its body makes}}
  %r:2 = call @loop(%h, %xs) : (tensor<3xf32>, tensor<5x3xf32>) -> (tensor<3xf32>, tensor<4x3xf32>)
  return
}
func.func private @loop(tensor<3xf32>, tensor<5x3xf32>) -> (tensor<3xf32>, tensor<4x3xf32>)
    attributes {sx.body = @body, sx.states = 1 : i64, sx.items = array<i64: 0>, sx.outs = array<i64: 0>}
func.func private @body(%h: tensor<3xf32>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  return %h, %x : tensor<3xf32>, tensor<3xf32>
}

// -----

// A fault inside a body is found where it is.
func.func private @body(%h: tensor<3xf32>, %x: tensor<3xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{add gives f32[3], but the module says f32[4]}}
  %s = "sx.add"(%h, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}
