// RUN: sexpgpu-opt %s --sx-to-gpu | FileCheck %s

// A product with a bias and a residual is one product of cublasLt's.
// CHECK: func.func private @product_10(
// CHECK-SAME: sx.library = {activation = "none", graph = "product", scale = 1.000000e+00 : f64, tensors = [
// CHECK-SAME: {argument = 0 : i64, role = "a", strides = array<i64: 524288, 512, 1>, type = tensor<1x1024x512xbf16>}
// CHECK-SAME: {argument = 1 : i64, role = "b", strides = array<i64: {{[0-9]+}}, 1, 512>, type = tensor<1x512x2048xbf16>}
// CHECK-SAME: role = "bias", strides = array<i64: 1>, type = tensor<2048xbf16>}
// CHECK-SAME: role = "c", strides = array<i64: 2097152, 2048, 1>, type = tensor<1x1024x2048xbf16>}
// CHECK-SAME: role = "d", strides = array<i64: 2097152, 2048, 1>, type = tensor<1x1024x2048xbf16>}
func.func @biased(%x: tensor<1024x512xbf16>, %w: tensor<2048x512xbf16>, %b: tensor<2048xbf16>, %r: tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16> attributes {sx.graph = "train"} {
  %0 = "sx.transpose"(%w) {perm = array<i64: 1, 0>} : (tensor<2048x512xbf16>) -> tensor<512x2048xbf16>
  %y = call @product_10(%x, %0, %b, %r) : (tensor<1024x512xbf16>, tensor<512x2048xbf16>, tensor<2048xbf16>, tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16>
  return %y : tensor<1024x2048xbf16>
}
func.func private @product_10(%x: tensor<1024x512xbf16>, %w: tensor<512x2048xbf16>, %b: tensor<2048xbf16>, %r: tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16> attributes {sx.group = "product"} {
  %0 = "sx.matmul"(%x, %w) : (tensor<1024x512xbf16>, tensor<512x2048xbf16>) -> tensor<1024x2048xbf16>
  %1 = "sx.broadcast"(%b) {shape = array<i64: 1024, 2048>} : (tensor<2048xbf16>) -> tensor<1024x2048xbf16>
  %2 = "sx.add"(%0, %1) : (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16>
  %3 = "sx.add"(%r, %2) : (tensor<1024x2048xbf16>, tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16>
  return %3 : tensor<1024x2048xbf16>
}

// A small one is not worth asking for: its kernel takes no longer than a launch.
// CHECK: func.func private @product_1(
// CHECK-NOT: sx.library
// CHECK-SAME: tensor<32x32xbf16>
func.func @small(%x: tensor<32x32xbf16>, %y: tensor<32x32xbf16>) -> tensor<32x32xbf16> attributes {sx.graph = "train"} {
  %0 = "sx.matmul"(%x, %y) : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// A convolution's windows are said as the operation says them.
// CHECK: func.func private @window_1(
// CHECK-SAME: sx.library = {dilation = array<i64: 1, 1>, graph = "convolution", high = array<i64: 1, 1>, low = array<i64: 1, 1>, side = "kernel", stride = array<i64: 2, 2>, tensors = [
// CHECK-SAME: role = "x"
// CHECK-SAME: role = "y"
// CHECK-SAME: role = "w", strides = array<i64: 576, 9, 3, 1>, type = tensor<128x64x3x3xbf16>}
func.func @convolution(%x: tensor<256x64x32x32xbf16>, %g: tensor<256x128x16x16xbf16>) -> tensor<128x64x3x3xbf16> attributes {sx.graph = "train"} {
  %0 = "sx.conv_weight_grad"(%x, %g) {kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<256x64x32x32xbf16>, tensor<256x128x16x16xbf16>) -> tensor<128x64x3x3xbf16>
  return %0 : tensor<128x64x3x3xbf16>
}
