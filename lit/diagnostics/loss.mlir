// RUN: sexpgpu-opt %s --sx-autodiff --split-input-file --verify-diagnostics

func.func @vector(%w: tensor<3xf32> {sx.param = "w"}) -> (tensor<3xf32> {sx.loss = "loss"}) {
  %e = "sx.exp"(%w) : (tensor<3xf32>) -> tensor<3xf32>
  // expected-error@+1 {{E-SHAPE-020: the loss is not a scalar: f32[3]}}
  return %e : tensor<3xf32>
}

// -----

func.func @one_element(%w: tensor<3xf32> {sx.param = "w"}) -> (tensor<1xf32> {sx.loss = "loss"}) {
  %s = "sx.sum"(%w) {axes = array<i64: 0>, keepdims = true} : (tensor<3xf32>) -> tensor<1xf32>
  // expected-error@+1 {{E-SHAPE-020: the loss is not a scalar: f32[1]}}
  return %s : tensor<1xf32>
}

// -----

func.func @count(%n: tensor<3xi32> {sx.field = "n"}) -> (tensor<i32> {sx.loss = "loss"}) {
  %s = "sx.sum"(%n) {axes = array<i64: 0>, keepdims = false} : (tensor<3xi32>) -> tensor<i32>
  // expected-error@+1 {{E-SHAPE-020: the loss is not a scalar: i32[]}}
  return %s : tensor<i32>
}

// -----

// A metric may have any type: it is not differentiated.
func.func @metric(%w: tensor<3xf32> {sx.param = "w"}) -> (tensor<3xf32> {sx.metric = "m"}) {
  %e = "sx.exp"(%w) : (tensor<3xf32>) -> tensor<3xf32>
  return %e : tensor<3xf32>
}
