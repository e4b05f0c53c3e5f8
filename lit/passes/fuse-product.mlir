// RUN: sexpgpu-opt %s --sx-fuse=target=cuda | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cpu | FileCheck %s --check-prefix=CPU

// Bias, activation and residual follow the product in its own order, views between them or not.
// CHECK-LABEL: func.func @epilogue(
// CHECK-NEXT: %[[Y:.*]] = call @product_1(%arg0, %arg1, %arg2, %arg3)
// CHECK-NEXT: return %[[Y]]
// The CPU calls a library for products.
// CPU-LABEL: func.func @epilogue(
// CPU: "sx.matmul"
// CPU: call @pointwise_1
func.func @epilogue(%x: tensor<768x128xf32>, %w: tensor<128x512xf32>, %b: tensor<512xf32>, %r: tensor<12x64x512xf32>) -> tensor<12x64x512xf32> {
  %p = "sx.matmul"(%x, %w) : (tensor<768x128xf32>, tensor<128x512xf32>) -> tensor<768x512xf32>
  %q = "sx.reshape"(%p) {shape = array<i64: 12, 64, 512>} : (tensor<768x512xf32>) -> tensor<12x64x512xf32>
  %v = "sx.broadcast"(%b) {shape = array<i64: 12, 64, 512>} : (tensor<512xf32>) -> tensor<12x64x512xf32>
  %a = "sx.add"(%q, %v) : (tensor<12x64x512xf32>, tensor<12x64x512xf32>) -> tensor<12x64x512xf32>
  %g = "sx.gelu"(%a) {approximate = "none"} : (tensor<12x64x512xf32>) -> tensor<12x64x512xf32>
  %y = "sx.add"(%g, %r) : (tensor<12x64x512xf32>, tensor<12x64x512xf32>) -> tensor<12x64x512xf32>
  return %y : tensor<12x64x512xf32>
}

// The sum before the activation is saved for the gradients: both leave one group.
// CHECK-LABEL: func.func @saved(
// CHECK-NEXT: %[[R:.*]]:2 = call @product_2(%arg0, %arg1)
// CHECK-NEXT: %[[Z:.*]] = "sx.matmul"(%[[R]]#1, %arg2)
func.func @saved(%x: tensor<768x128xf32>, %w: tensor<128x512xf32>, %u: tensor<512x128xf32>) -> (tensor<768x512xf32>, tensor<768x128xf32>) {
  %p = "sx.matmul"(%x, %w) : (tensor<768x128xf32>, tensor<128x512xf32>) -> tensor<768x512xf32>
  %g = "sx.gelu"(%p) {approximate = "none"} : (tensor<768x512xf32>) -> tensor<768x512xf32>
  %z = "sx.matmul"(%g, %u) : (tensor<768x512xf32>, tensor<512x128xf32>) -> tensor<768x128xf32>
  return %p, %z : tensor<768x512xf32>, tensor<768x128xf32>
}

// A cast that only the product reads goes with it; one that others read as well does not.
// CHECK-LABEL: func.func @casts(
// CHECK-NEXT: %[[S:.*]] = "sx.cast"(%arg1)
// CHECK-NEXT: %[[Y:.*]] = call @product_3(%arg0, %[[S]])
// CHECK-NEXT: return %[[Y]], %[[S]]
func.func @casts(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256x256xbf16>) {
  %a = "sx.cast"(%x) {dtype = bf16} : (tensor<256x256xf32>) -> tensor<256x256xbf16>
  %b = "sx.cast"(%w) {dtype = bf16} : (tensor<256x256xf32>) -> tensor<256x256xbf16>
  %p = "sx.matmul"(%a, %b) : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
  %y = "sx.cast"(%p) {dtype = f32} : (tensor<256x256xbf16>) -> tensor<256x256xf32>
  return %y, %b : tensor<256x256xf32>, tensor<256x256xbf16>
}

// Rows that follow a product read it; the elements that both rows and columns read are theirs.
// CHECK-LABEL: func.func @rows(
// CHECK: %[[P:.*]] = "sx.matmul"(%arg0, %arg1)
// CHECK: call @row_1(%[[P]], %arg2)
func.func @rows(%x: tensor<768x128xf32>, %w: tensor<128x128xf32>, %n: tensor<768x128xf32>) -> tensor<768x128xf32> {
  %p = "sx.matmul"(%x, %w) : (tensor<768x128xf32>, tensor<128x128xf32>) -> tensor<768x128xf32>
  %m = "sx.mul"(%p, %n) : (tensor<768x128xf32>, tensor<768x128xf32>) -> tensor<768x128xf32>
  %s = "sx.sum"(%m) {axes = array<i64: 1>, keepdims = true} : (tensor<768x128xf32>) -> tensor<768x1xf32>
  %v = "sx.broadcast"(%s) {shape = array<i64: 768, 128>} : (tensor<768x1xf32>) -> tensor<768x128xf32>
  %d = "sx.sub"(%p, %v) : (tensor<768x128xf32>, tensor<768x128xf32>) -> tensor<768x128xf32>
  return %d : tensor<768x128xf32>
}

// CHECK: func.func private @product_1(
// CHECK-SAME: attributes {sx.group = "product"}
// CHECK-NEXT: "sx.matmul"(%arg0, %arg1)
// CHECK: func.func private @product_3(
// CHECK-NEXT: %[[A:.*]] = "sx.cast"(%arg0) {dtype = bf16}
// CHECK-NEXT: %[[P:.*]] = "sx.matmul"(%[[A]], %arg1)
// CHECK-NEXT: "sx.cast"(%[[P]]) {dtype = f32}
