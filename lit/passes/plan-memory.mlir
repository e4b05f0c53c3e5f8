// RUN: sexpgpu-opt %s --sx-plan-memory | FileCheck %s

// exp and neg are written over by what reads them, and the last is the caller's memory: all of it is made there.
// CHECK-LABEL: func.func @in_place
// CHECK-SAME: sx.arena = 0 : i64, sx.live = 0 : i64
// CHECK-NOT: sx.at
// CHECK: return
func.func @in_place(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %a = "sx.exp"(%x) : (tensor<1024xf32>) -> tensor<1024xf32>
  %b = "sx.neg"(%a) : (tensor<1024xf32>) -> tensor<1024xf32>
  %c = "sx.tanh"(%b) : (tensor<1024xf32>) -> tensor<1024xf32>
  func.return %c : tensor<1024xf32>
}

// The sum is another memory, so what leads to it shares one buffer of the arena.
// CHECK-LABEL: func.func @one_buffer
// CHECK-SAME: sx.arena = 4096 : i64, sx.live = 4096 : i64, sx.peak = 0 : i64
// CHECK: "sx.exp"(%arg0) {sx.at = array<i64: 0>}
// CHECK-NEXT: "sx.neg"(%{{.*}}) {sx.at = array<i64: 0>}
// CHECK-NEXT: "sx.sum"(%{{[0-9]+}}) {axes
func.func @one_buffer(%x: tensor<1024xf32>) -> tensor<f32> {
  %a = "sx.exp"(%x) : (tensor<1024xf32>) -> tensor<1024xf32>
  %b = "sx.neg"(%a) : (tensor<1024xf32>) -> tensor<1024xf32>
  %c = "sx.sum"(%b) {axes = array<i64: 0>, keepdims = false} : (tensor<1024xf32>) -> tensor<f32>
  func.return %c : tensor<f32>
}

// A product cannot be written over its operands, and %a is read again by the second: three buffers at that time.
// CHECK-LABEL: func.func @lifetimes
// CHECK-SAME: sx.arena = 3072 : i64, sx.live = 3072 : i64, sx.peak = 2 : i64
// CHECK: "sx.exp"(%arg0) {sx.at = array<i64: 0>}
// CHECK-NEXT: "sx.matmul"(%0, %0) {sx.at = array<i64: 1024>}
// CHECK-NEXT: "sx.matmul"(%1, %0) {sx.at = array<i64: 2048>}
// CHECK-NEXT: "sx.matmul"(%2, %2)
func.func @lifetimes(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %a = "sx.exp"(%x) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %b = "sx.matmul"(%a, %a) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %c = "sx.matmul"(%b, %a) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %d = "sx.matmul"(%c, %c) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  func.return %d : tensor<16x16xf32>
}

// A view has no place of its own and keeps what it shows; bf16 is kept in 32 bits on a CPU.
// CHECK-LABEL: func.func @views
// CHECK-SAME: sx.arena = 1024 : i64
// CHECK: "sx.exp"(%arg0) {sx.at = array<i64: 0>}
// CHECK-NEXT: "sx.transpose"(%0) {perm = array<i64: 1, 0>}
func.func @views(%x: tensor<8x32xbf16>) -> tensor<32xbf16> {
  %a = "sx.exp"(%x) : (tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %b = "sx.transpose"(%a) {perm = array<i64: 1, 0>} : (tensor<8x32xbf16>) -> tensor<32x8xbf16>
  %c = "sx.sum"(%b) {axes = array<i64: 1>, keepdims = false} : (tensor<32x8xbf16>) -> tensor<32xbf16>
  func.return %c : tensor<32xbf16>
}
