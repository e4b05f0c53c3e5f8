// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu > %t
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=GROUP < %t
// RUN: FileCheck %s --check-prefix=KERNEL < %t
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm=chip=sm_90 --sx-to-ptx | FileCheck %s --check-prefix=PTX

// The product's kernels give the gradient and what its tiles' squares sum up to, the reduction's the gradient alone.
// CHECK-LABEL: func.func @train(
// CHECK-SAME: -> (tensor<256x384xf32> {sx.grad = "w"}, tensor<384xf32> {sx.grad = "b"}, tensor<[[COUNT:[0-9]+]]xf64> {sx.squares = "w"})
// CHECK-NOT: sx.squares
// CHECK: %[[G:.*]]:2 = call @product_1({{.*}}) : {{.*}} -> (tensor<256x384xf32>, tensor<[[COUNT]]xf64>)
// CHECK: %[[B:.*]] = call @row_1(%arg1)
// CHECK: return %[[G]]#0, %[[B]], %[[G]]#1 :
func.func @train(%x: tensor<64x256xf32>, %d: tensor<64x384xf32>)
    -> (tensor<256x384xf32> {sx.grad = "w"}, tensor<384xf32> {sx.grad = "b"}) attributes {sx.graph = "train", sx.squares} {
  %t = "sx.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<64x256xf32>) -> tensor<256x64xf32>
  %g = "sx.matmul"(%t, %d) : (tensor<256x64xf32>, tensor<64x384xf32>) -> tensor<256x384xf32>
  %b = "sx.sum"(%d) {axes = array<i64: 0>, keepdims = false} : (tensor<64x384xf32>) -> tensor<384xf32>
  return %g, %b : tensor<256x384xf32>, tensor<384xf32>
}

// Nothing is asked of this graph, and the same product is a group of its own.
// CHECK-LABEL: func.func @other(
// CHECK-SAME: -> (tensor<256x384xf32> {sx.grad = "w"})
func.func @other(%x: tensor<64x256xf32>, %d: tensor<64x384xf32>) -> (tensor<256x384xf32> {sx.grad = "w"}) {
  %t = "sx.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<64x256xf32>) -> tensor<256x64xf32>
  %g = "sx.matmul"(%t, %d) : (tensor<256x64xf32>, tensor<64x384xf32>) -> tensor<256x384xf32>
  return %g : tensor<256x384xf32>
}

// The group's function says of which tiles.
// GROUP: func.func private @product_1(
// GROUP-SAME: -> (tensor<256x384xf32>, tensor<{{[0-9]+}}xf64>)
// GROUP-SAME: args = array<i64: 0, 1, 2, 3>
// GROUP: %[[G:.*]] = "sx.matmul"
// GROUP: "sx.mul"(%[[G]], %[[G]])
// GROUP: "sx.cast"{{.*}} -> tensor<{{.*}}xf64>
// GROUP: "sx.sum"{{.*}}axes = array<i64: 2, 4>
// GROUP: func.func private @product_2(
// GROUP-NOT: "sx.mul"

// A thread squares what it stores, a warp adds up in f64 by shuffles, the first thread what the warps have.
// KERNEL-LABEL: gpu.func @product_1(
// KERNEL: %[[S:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (f32)
// KERNEL: llvm.store %[[V:.*]], %{{.*}} : vector<{{[24]}}xf32>, !llvm.ptr<1>
// KERNEL-NEXT: arith.mulf %[[V]], %[[V]]
// KERNEL: arith.extf %[[S]] : f32 to f64
// KERNEL-COUNT-10: gpu.shuffle xor
// KERNEL: gpu.barrier
// KERNEL: llvm.store %{{.*}} : f64, !llvm.ptr<1>
// KERNEL-NOT: gpu.shuffle
// KERNEL-LABEL: gpu.func @product_2(

// PTX: .entry product_1(
// PTX-NOT: .local
// PTX: st.global.b64
