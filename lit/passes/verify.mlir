// RUN: sexpgpu-opt %s --sx-verify --split-input-file --verify-diagnostics

// A module whose types follow from its operands passes.
func.func @right(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %t = "sx.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %t : tensor<3x2xf32>
}

// -----

func.func @shape(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error@+1 {{E-IR-020: transpose gives f32[3, 2], but the module says f32[2, 3]}}
  %t = "sx.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %t : tensor<2x3xf32>
}

// -----

func.func @dtype(%x: tensor<2xf32>, %y: tensor<2xf64>) -> tensor<2xf32> {
  // expected-error@+1 {{E-IR-020}}
  %t = "sx.add"(%x, %y) : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xf32>
  return %t : tensor<2xf32>
}

// -----

func.func @attribute(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{E-IR-001}}
  %t = "sx.sum"(%x) {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %t : tensor<2xf32>
}

// -----

func.func @unknown(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{E-IR-001}}
  %t = "sx.expp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %t : tensor<2xf32>
}
