// RUN: sexpgpu-opt %s --split-input-file --verify-diagnostics

func.func @batches(%x: tensor<2x3x4xf32>, %y: tensor<5x4x3xf32>) {
  // expected-error@+1 {{x and y are not matrices, or stacks of matrices of one length}}
  %0 = "sx.matmul"(%x, %y) : (tensor<2x3x4xf32>, tensor<5x4x3xf32>) -> tensor<2x3x3xf32>
  return
}

// -----

func.func @wide_result(%x: tensor<2x3xbf16>, %y: tensor<3x2xbf16>) {
  // expected-error@+1 {{matmul_wide gives f32[2, 2], but the module says bf16[2, 2]}}
  %0 = "sx.matmul_wide"(%x, %y) : (tensor<2x3xbf16>, tensor<3x2xbf16>) -> tensor<2x2xbf16>
  return
}

// -----

func.func @mixed(%x: tensor<2x3xbf16>, %y: tensor<3x2xf32>) {
  // expected-error@+1 {{matmul: x and y have different dtypes}}
  %0 = "sx.matmul"(%x, %y) : (tensor<2x3xbf16>, tensor<3x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @gather(%x: tensor<5x3xf32>, %i: tensor<2xf32>) {
  // expected-error@+1 {{indices has a dtype that gather does not take}}
  %0 = "sx.gather"(%x, %i) {axis = 0 : i64} : (tensor<5x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @updates(%x: tensor<5x3xf32>, %i: tensor<2xi32>, %u: tensor<3x3xf32>) {
  // expected-error@+1 {{updates do not have one element for each place that the indices name}}
  %0 = "sx.scatter_add"(%x, %i, %u) {axis = 0 : i64} : (tensor<5x3xf32>, tensor<2xi32>, tensor<3x3xf32>) -> tensor<5x3xf32>
  return
}

// -----

func.func @repeat(%x: tensor<3xf32>) {
  // expected-error@+1 {{broadcast: the tensor does not stretch to the shape}}
  %0 = "sx.broadcast"(%x) {shape = array<i64: 3, 4>} : (tensor<3xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @elements(%x: tensor<3xf32>) {
  // expected-error@+1 {{reshape: the new shape has another number of elements (expected 3 elements}}
  %0 = "sx.reshape"(%x) {shape = array<i64: 2, 2>} : (tensor<3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @order(%x: tensor<3x4xf32>) {
  // expected-error@+1 {{transpose: not a permutation of the axes}}
  %0 = "sx.transpose"(%x) {perm = array<i64: 0, 0>} : (tensor<3x4xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @constant() {
  // expected-error@+1 {{constant gives f32[3], but the module says f32[4]}}
  %0 = "sx.constant"() {value = dense<1.0> : tensor<3xf32>} : () -> tensor<4xf32>
  return
}
