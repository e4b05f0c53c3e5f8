// RUN: sexpgpu-opt %s --sx-fuse=target=cuda | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cpu | FileCheck %s --check-prefix=CPU

// A chain is one group; the number it reads goes along, the vector it repeats stays small. The graph says what moved.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: %[[X:.*]]: tensor<256x512xf32>, %[[B:.*]]: tensor<512xf32>)
// CHECK-SAME: attributes {sx.bytes_after = 1050624 : i64, sx.bytes_before = 3147776 : i64}
// CHECK-NEXT: %[[Y:.*]] = call @pointwise_1(%[[X]], %[[B]])
// CHECK-NEXT: return %[[Y]]
func.func @chain(%x: tensor<256x512xf32>, %b: tensor<512xf32>) -> tensor<256x512xf32> {
  %c = "sx.constant"() {value = dense<2.0> : tensor<256x512xf32>} : () -> tensor<256x512xf32>
  %e = "sx.exp"(%x) : (tensor<256x512xf32>) -> tensor<256x512xf32>
  %m = "sx.mul"(%e, %c) : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<256x512xf32>
  %w = "sx.broadcast"(%b) {shape = array<i64: 256, 512>} : (tensor<512xf32>) -> tensor<256x512xf32>
  %y = "sx.add"(%m, %w) : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<256x512xf32>
  return %y : tensor<256x512xf32>
}

// What a product between two halves reads and feeds keeps them apart: one group would have to run before and after it.
// A GPU puts the second half behind the product, whose operand it reads again.
// CHECK-LABEL: func.func @around(
// CHECK-NEXT: %[[A:.*]] = call @pointwise_2(%arg0)
// CHECK-NEXT: %[[Y:.*]] = call @product_1(%[[A]])
// CHECK-NEXT: return %[[Y]]
// CPU-LABEL: func.func @around(
// CPU: %[[A:.*]] = call @pointwise_2(%arg0)
// CPU: %[[P:.*]] = "sx.matmul"(%[[A]], %[[A]])
// CPU: call @pointwise_3(%[[P]], %[[A]])
func.func @around(%x: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %e = "sx.exp"(%x) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %t = "sx.tanh"(%e) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %p = "sx.matmul"(%t, %t) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %q = "sx.add"(%p, %t) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %r = "sx.neg"(%q) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %r : tensor<128x128xf32>
}

// Two readers of one tensor read it once, and both results leave.
// CHECK-LABEL: func.func @beside(
// CHECK-NEXT: %[[R:.*]]:2 = call @pointwise_3(%arg0)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
func.func @beside(%x: tensor<256x512xf32>) -> (tensor<256x512xf32>, tensor<256x512xf32>) {
  %a = "sx.sin"(%x) : (tensor<256x512xf32>) -> tensor<256x512xf32>
  %b = "sx.cos"(%x) : (tensor<256x512xf32>) -> tensor<256x512xf32>
  return %a, %b : tensor<256x512xf32>, tensor<256x512xf32>
}

// A graph that takes nothing, an initializer, runs once and is left as it is.
// CHECK-LABEL: func.func @closed(
// CHECK-NOT: call
// CHECK: return
func.func @closed() -> tensor<4xf32> {
  %c = "sx.iota"() {axis = 0 : i64, dtype = f32, shape = array<i64: 4>} : () -> tensor<4xf32>
  %e = "sx.exp"(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %y = "sx.neg"(%e) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// The functions are private and hold the operations in order.
// CHECK-LABEL: func.func private @pointwise_1(
// CHECK-SAME: %[[X:.*]]: tensor<256x512xf32>, %[[B:.*]]: tensor<512xf32>) -> tensor<256x512xf32> attributes {sx.group = "pointwise"}
// CHECK-NEXT: %[[C:.*]] = "sx.constant"() {value = dense<2.000000e+00> : tensor<256x512xf32>}
// CHECK-NEXT: %[[E:.*]] = "sx.exp"(%[[X]])
// CHECK-NEXT: %[[M:.*]] = "sx.mul"(%[[E]], %[[C]])
// CHECK-NEXT: %[[W:.*]] = "sx.broadcast"(%[[B]]) {shape = array<i64: 256, 512>}
// CHECK-NEXT: %[[Y:.*]] = "sx.add"(%[[M]], %[[W]])
// CHECK-NEXT: return %[[Y]]

// On the CPU a group says how it is cut: 128 of 256 rows at a time, the vector in full.
// CPU-LABEL: func.func private @pointwise_1(
// CPU-SAME: sx.group = "pointwise", sx.tile = array<i64: 128>, sx.tiled = array<i64: 1, 0, 1>
