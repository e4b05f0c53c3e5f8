// RUN: sexpgpu-opt %s --split-input-file --verify-diagnostics

func.func @types(%x: tensor<8x4xf32>) {
  // expected-error@+1 {{E-IR-001: the text is not a valid module: 'func.call'}}
  %y = call @pointwise_1(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}
func.func private @pointwise_1(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {sx.group = "pointwise"} {
  %y = "sx.exp"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

func.func @nobody(%x: tensor<8x4xf32>) {
  // expected-error@+1 {{'row_7' does not reference a valid function}}
  %y = call @row_7(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func private @row_1(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {sx.group = "row"} {
  // expected-error@+1 {{softmax: axis 2 is not an axis of the tensor}}
  %y = "sx.softmax"(%x) {axis = 2 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

func.func private @row_1(%x: tensor<4x4xf32>) -> tensor<4x1xf32> attributes {sx.group = "row"} {
  %y = "sx.sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{E-IR-001}}
  return %y : tensor<4xf32>
}

// -----

// What a device executes has to say how: which family, and what its tiles cut.
func.func @family(%x: tensor<8x4xf32>) {
  // expected-error@+1 {{rows_1 is a group of no family: rows}}
  %y = call @rows_1(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}
func.func private @rows_1(%x: tensor<8x4xf32>) -> tensor<8x4xf32> attributes {sx.group = "rows"} {
  %y = "sx.exp"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @flags(%x: tensor<8x4xf32>) {
  // expected-error@+1 {{row_1 does not say of each operand and result whether it is cut}}
  %y = call @row_1(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}
func.func private @row_1(%x: tensor<8x4xf32>) -> tensor<8x4xf32>
    attributes {sx.group = "row", sx.tile = array<i64: 2>, sx.tiled = array<i64: 1>} {
  %y = "sx.softmax"(%x) {axis = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @axes(%x: tensor<8x4xf32>) {
  // expected-error@+1 {{pointwise_1 cuts tensors that share no leading axes}}
  %y = call @pointwise_1(%x) : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}
func.func private @pointwise_1(%x: tensor<8x4xf32>) -> tensor<4x8xf32>
    attributes {sx.group = "pointwise", sx.tile = array<i64: 2>, sx.tiled = array<i64: 1, 1>} {
  %e = "sx.exp"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = "sx.transpose"(%e) {perm = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

func.func @folds(%x: tensor<8x4xf32>) {
  // expected-error@+1 {{column_1 does not say how the results that it does not cut are put together}}
  %y = call @column_1(%x) : (tensor<8x4xf32>) -> tensor<4xf32>
  return
}
func.func private @column_1(%x: tensor<8x4xf32>) -> tensor<4xf32>
    attributes {sx.group = "column", sx.tile = array<i64: 2>, sx.tiled = array<i64: 1, 0>} {
  %e = "sx.exp"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = "sx.sum"(%e) {axes = array<i64: 0>, keepdims = false} : (tensor<8x4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
