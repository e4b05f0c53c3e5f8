// RUN: sexpgpu-opt %s --sx-fuse=target=cuda | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cpu | FileCheck %s --check-prefix=CPU

// A bias that is cast where it is repeated follows the product, and so does the residual.
// CHECK-LABEL: func.func @bias(
// CHECK-NEXT: %[[Y:.*]] = call @product_1(%arg0, %arg1, %arg2, %arg3)
// CHECK-NEXT: return %[[Y]]
func.func @bias(%x: tensor<256x128xbf16>, %w: tensor<128x512xbf16>, %b: tensor<512xf32>, %r: tensor<256x512xbf16>) -> tensor<256x512xbf16> {
  %p = "sx.matmul"(%x, %w) : (tensor<256x128xbf16>, tensor<128x512xbf16>) -> tensor<256x512xbf16>
  %v = "sx.broadcast"(%b) {shape = array<i64: 256, 512>} : (tensor<512xf32>) -> tensor<256x512xf32>
  %c = "sx.cast"(%v) {dtype = bf16} : (tensor<256x512xf32>) -> tensor<256x512xbf16>
  %a = "sx.add"(%p, %c) : (tensor<256x512xbf16>, tensor<256x512xbf16>) -> tensor<256x512xbf16>
  %y = "sx.add"(%r, %a) : (tensor<256x512xbf16>, tensor<256x512xbf16>) -> tensor<256x512xbf16>
  return %y : tensor<256x512xbf16>
}

// What is saved is written, and what is made of it in the dtype that the next product reads.
// CHECK-LABEL: func.func @saved(
// CHECK-NEXT: %[[R:.*]]:2 = call @product_2(%arg0, %arg1)
// CHECK-NEXT: %[[Z:.*]] = "sx.matmul"(%[[R]]#1, %arg2)
func.func @saved(%x: tensor<256x128xf32>, %w: tensor<128x512xf32>, %u: tensor<512x128xbf16>) -> (tensor<256x512xf32>, tensor<256x128xbf16>) {
  %p = "sx.matmul"(%x, %w) : (tensor<256x128xf32>, tensor<128x512xf32>) -> tensor<256x512xf32>
  %g = "sx.gelu"(%p) {approximate = "none"} : (tensor<256x512xf32>) -> tensor<256x512xf32>
  %c = "sx.cast"(%g) {dtype = bf16} : (tensor<256x512xf32>) -> tensor<256x512xbf16>
  %z = "sx.matmul"(%c, %u) : (tensor<256x512xbf16>, tensor<512x128xbf16>) -> tensor<256x128xbf16>
  return %p, %z : tensor<256x512xf32>, tensor<256x128xbf16>
}

// The product writes bf16; rows and columns read that and cast it, each for itself.
// CHECK-LABEL: func.func @readers(
// CHECK-NEXT: %[[P:.*]] = "sx.matmul"(%arg0, %arg1)
// CHECK-DAG: call @row_1(%[[P]])
// CHECK-DAG: call @column_1(%[[P]])
// The CPU has bf16 values in f32, which are cast once.
// CPU-LABEL: func.func @readers(
// CPU: call @row_1({{.*}}) : (tensor<512x256xbf16>) -> (tensor<512x256xf32>, tensor<256xf32>)
func.func @readers(%x: tensor<512x128xbf16>, %w: tensor<128x256xbf16>) -> (tensor<512x256xf32>, tensor<256xf32>) {
  %p = "sx.matmul"(%x, %w) : (tensor<512x128xbf16>, tensor<128x256xbf16>) -> tensor<512x256xbf16>
  %c = "sx.cast"(%p) {dtype = f32} : (tensor<512x256xbf16>) -> tensor<512x256xf32>
  %s = "sx.softmax"(%c) {axis = 1 : i64} : (tensor<512x256xf32>) -> tensor<512x256xf32>
  %t = "sx.sum"(%c) {axes = array<i64: 0>, keepdims = false} : (tensor<512x256xf32>) -> tensor<256xf32>
  return %s, %t : tensor<512x256xf32>, tensor<256xf32>
}

// A bias that is cast for several products is cast by each.
// CHECK-LABEL: func.func @shared(
// CHECK-NEXT: %[[P:.*]] = call @product_3(%arg2, %arg0, %arg1)
// CHECK-NEXT: %[[Q:.*]] = call @product_4(%arg2, %[[P]], %arg1)
// CHECK-NEXT: return %[[Q]]
func.func @shared(%x: tensor<256x512xbf16>, %w: tensor<512x512xbf16>, %b: tensor<512xf32>) -> tensor<256x512xbf16> {
  %v = "sx.broadcast"(%b) {shape = array<i64: 256, 512>} : (tensor<512xf32>) -> tensor<256x512xf32>
  %c = "sx.cast"(%v) {dtype = bf16} : (tensor<256x512xf32>) -> tensor<256x512xbf16>
  %p = "sx.matmul"(%x, %w) : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %y = "sx.add"(%p, %c) : (tensor<256x512xbf16>, tensor<256x512xbf16>) -> tensor<256x512xbf16>
  %q = "sx.matmul"(%y, %w) : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %z = "sx.add"(%q, %c) : (tensor<256x512xbf16>, tensor<256x512xbf16>) -> tensor<256x512xbf16>
  return %z : tensor<256x512xbf16>
}

// CHECK: func.func private @row_1(
// CHECK-NEXT: "sx.cast"(%arg0) {dtype = f32}
// CHECK-NEXT: "sx.softmax"
// CHECK: func.func private @column_1(
// CHECK-NEXT: "sx.cast"(%arg0) {dtype = f32}
// CHECK-NEXT: "sx.sum"
