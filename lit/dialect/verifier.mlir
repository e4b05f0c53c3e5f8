// RUN: sexpgpu-opt %s --split-input-file --verify-diagnostics

// What `infer` refuses or does not agree with is an error at the operation, whatever made the module.

func.func @shapes(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // expected-error@+1 {{E-IR-020: add: x and y have different shapes (expected y shaped as x: f32[2, 3], actual y: f32[2, 4])}}
  %0 = "sx.add"(%x, %y) : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @dtypes(%x: tensor<2xi32>) {
  // expected-error@+1 {{exp: x has a dtype that exp does not take}}
  %0 = "sx.exp"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @result_shape(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{sum gives f32[2], but the module says f32[2, 1]}}
  %0 = "sx.sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  return
}

// -----

func.func @negative_axis(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{softmax: axis -1 is not an axis of the tensor}}
  %0 = "sx.softmax"(%x) {axis = -1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @inner(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) {
  // expected-error@+1 {{matmul: the columns of x are not as many as the rows of y}}
  %0 = "sx.matmul"(%x, %y) : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

// An integer where an array of them belongs is IRDL's to refuse, a float dtype of another dialect ours.
func.func @attribute_kind(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{E-IR-001}}
  %0 = "sx.transpose"(%x) {perm = 1 : i64} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @unknown_dtype(%x: tensor<2xf32>) {
  // expected-error@+1 {{not an attribute of kind dtype: f16}}
  %0 = "sx.cast"(%x) {dtype = f16} : (tensor<2xf32>) -> tensor<2xf16>
  return
}

// -----

func.func @not_a_tensor(%x: memref<2xf32>) {
  // expected-error@+1 {{not a tensor of the dialect: memref<2xf32>}}
  %0 = "sx.neg"(%x) : (memref<2xf32>) -> memref<2xf32>
  return
}

// -----

func.func @operand_count(%x: tensor<2xf32>) {
  // expected-error@+1 {{E-IR-001}}
  %0 = "sx.add"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return
}
