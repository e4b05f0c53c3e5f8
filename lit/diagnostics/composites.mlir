// RUN: sexpgpu-opt %s --split-input-file --verify-diagnostics

func.func @heads(%q: tensor<1x4x3x2xf32>, %k: tensor<1x3x3x2xf32>) {
  // expected-error@+1 {{attention: q, k and v do not fit together}}
  %0:2 = "sx.attention"(%q, %k, %k) {scale = 0.5 : f64, causal = true, window = 0 : i64, rounded = false} : (tensor<1x4x3x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x4x3xf32>)
  return
}

// -----

func.func @statistics(%x: tensor<2x3xf32>, %w: tensor<3xf32>) {
  // expected-error@+1 {{rms_norm gives f32[2, 3], f32[2, 1], but the module says f32[2, 3], f32[2]}}
  %0:2 = "sx.rms_norm"(%x, %w) {eps = 1.0e-05 : f64} : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)
  return
}

// -----

func.func @weight(%x: tensor<2x3xf32>, %w: tensor<2xf32>) {
  // expected-error@+1 {{rms_norm: a line and weight have different shapes}}
  %0:2 = "sx.rms_norm"(%x, %w) {eps = 1.0e-05 : f64} : (tensor<2x3xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @norm_in_bf16(%x: tensor<2x3xbf16>, %w: tensor<3xbf16>) {
  // expected-error@+1 {{x has a dtype that rms_norm does not take (expected dtype f32 or f64, actual x: bf16[2, 3])}}
  %0:2 = "sx.rms_norm"(%x, %w) {eps = 1.0e-05 : f64} : (tensor<2x3xbf16>, tensor<3xbf16>) -> (tensor<2x3xbf16>, tensor<2x1xbf16>)
  return
}

// -----

func.func @outside(%x: tensor<2x3xf32>, %t: tensor<2xi32>) {
  // expected-error@+1 {{no such treatment of a label that is no class (expected error, zero, logsumexp, actual ignore)}}
  %0:2 = "sx.cross_entropy"(%x, %t) {outside = "ignore"} : (tensor<2x3xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @labels(%x: tensor<2x3xf32>, %t: tensor<3xi32>) {
  // expected-error@+1 {{there is not one label for each line of logits}}
  %0:2 = "sx.cross_entropy"(%x, %t) {outside = "error"} : (tensor<2x3xf32>, tensor<3xi32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @form(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{gelu: no such approximation (expected none or tanh}}
  %0 = "sx.gelu"(%x) {approximate = "sigmoid"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// What cross-entropy saves of bf16 logits is f32.
func.func @saved(%x: tensor<2x3xbf16>, %t: tensor<2xi32>) {
  // expected-error@+1 {{cross_entropy gives f32[2], f32[2], but the module says bf16[2], bf16[2]}}
  %0:2 = "sx.cross_entropy"(%x, %t) {outside = "error"} : (tensor<2x3xbf16>, tensor<2xi32>) -> (tensor<2xbf16>, tensor<2xbf16>)
  return
}
