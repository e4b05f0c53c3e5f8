// RUN: sexpgpu-opt %s --split-input-file --verify-diagnostics

func.func @operation(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sx.softplus2'}}
  %0 = "sx.softplus2"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @dialect(%x: tensor<2xf32>) {
  // expected-error@+1 {{E-IR-001}}
  %0 = "sy.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @missing(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{attribute "axis" is expected}}
  %0 = "sx.softmax"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @misspelt(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{attribute "axis" is expected}}
  %0 = "sx.softmax"(%x) {axes = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @results(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expects exactly 1 results, but got 2}}
  %0:2 = "sx.exp"(%x) : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  return
}

// -----

func.func @value(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{undeclared SSA value}}
  %0 = "sx.exp"(%y) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @dynamic(%x: tensor<?x3xf32>) {
  // expected-error@+1 {{E-IR-020: not a tensor of the dialect: tensor<?x3xf32>}}
  %0 = "sx.exp"(%x) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return
}

// -----

func.func @unfinished(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{no terminator}}
  %0 = "sx.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
}
