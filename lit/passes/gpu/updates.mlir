// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm --sx-to-ptx | FileCheck %s --check-prefix=PTX

// Both updates are the same function of elements, whatever the shapes: two kernels serve them.
// CHECK: func.func private @update_1(
// CHECK-SAME: {args = array<i64: 0, 4, 7>, block = array<i64: 32, 1, 1>, grid = array<i64: 1, 1, 1>, kernel = @update_1}
// CHECK-SAME: {args = array<i64: 7, -2, -1>, block = array<i64: 256, 1, 1>, grid = array<i64: 258, 1, 1>, kernel = @update_1_2
// CHECK-SAME: table = {capacity = 72 : i64, chunk = 1024 : i64, rows = [{args = array<i64: 1, 2, 3, 5, 6>, elements = 264063 : i64}]}
// CHECK: func.func private @update_2(
// CHECK-SAME: grid = array<i64: 1, 1, 1>, kernel = @update_1_2
// CHECK-SAME: elements = 5 : i64

// A norm is over all elements: such an update has kernels of its own.
// CHECK: func.func private @row_1(
// CHECK-SAME: kernel = @row_1}]}

// What is the same for every element one thread computes. A block looks up in the table which tensor is its own and
// which part; of the tensor it takes whole vectors, and the elements behind the last.
// CHECK-LABEL: gpu.func @update_1(
// CHECK: arith.divf
// CHECK-LABEL: gpu.func @update_1_2(%arg0: !llvm.ptr<1>, %arg1: !llvm.ptr<1>, %arg2: !llvm.ptr<1>, %arg3: !llvm.ptr)
// CHECK-SAME: sx.table = 504 : i64
// CHECK: %[[AT:.*]] = llvm.getelementptr %arg3[%{{.*}}] : (!llvm.ptr, i32) -> !llvm.ptr, i64
// CHECK: llvm.load %[[AT]]
// CHECK: llvm.load {{.*}} : !llvm.ptr -> !llvm.ptr<1>
// The gradient, which the new parameter may lie over, is not read as what nobody writes.
// CHECK: llvm.load {{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.load %{{[0-9]+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.load {{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<1>
// Where what was made is not finite, the host is told.
// CHECK: arith.subf %[[NEW:.*]], %[[NEW]] : vector<4xf32>
// CHECK: llvm.atomicrmw max %{{.*}}, %{{.*}} monotonic : !llvm.ptr<1>, i32
// CHECK: scf.for
// CHECK: gpu.return
// CHECK-NOT: gpu.func @update

// NVVM: llvm.func @update_1_2(%arg0: !llvm.ptr<1>
// NVVM-SAME: %arg3: !llvm.ptr {llvm.align = 8 : i64, llvm.byval = !llvm.array<504 x i64>, llvm.noundef})
// NVVM-NOT: sx.table

// PTX-NOT: .local
// PTX: .visible .entry update_1_2(
// PTX-SAME: .param .align 8 .b8 update_1_2_param_3[4032]
// PTX-SAME: mov.b64 \09[[TABLE:%rd[0-9]+]], update_1_2_param_3
// PTX-SAME: add.s64 \09[[ROW:%rd[0-9]+]], [[TABLE]], %rd{{[0-9]+}}
// PTX-SAME: ld.param.b32 \09%r{{[0-9]+}}, [[[ROW]]+48]
// PTX-SAME: ld.global.nc.v4.b32
// PTX-SAME: ld.global.v4.b32
// PTX-SAME: ld.global.nc.v4.b32
// PTX-SAME: st.global.v4.b32
// PTX-SAME: st.global.v4.b32

func.func @large(%t: tensor<i32> {sx.ctx = "step"}, %p: tensor<2047x129xf32> {sx.param = "param"}, %g: tensor<2047x129xf32> {sx.grad = "grad"}, %m: tensor<2047x129xf32> {sx.state = "m"})
    -> (tensor<f32> {sx.value = "lr"}, tensor<2047x129xf32> {sx.param = "param"}, tensor<2047x129xf32> {sx.state = "m"}) attributes {sx.graph = "update large"} {
  %h = "sx.constant"() {value = dense<1.0e-01> : tensor<f32>} : () -> tensor<f32>
  %f = "sx.cast"(%t) {dtype = f32} : (tensor<i32>) -> tensor<f32>
  %s = "sx.div"(%h, %f) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %w = "sx.broadcast"(%s) {shape = array<i64: 2047, 129>} : (tensor<f32>) -> tensor<2047x129xf32>
  %k = "sx.add"(%m, %g) : (tensor<2047x129xf32>, tensor<2047x129xf32>) -> tensor<2047x129xf32>
  %d = "sx.mul"(%w, %k) : (tensor<2047x129xf32>, tensor<2047x129xf32>) -> tensor<2047x129xf32>
  %n = "sx.sub"(%p, %d) : (tensor<2047x129xf32>, tensor<2047x129xf32>) -> tensor<2047x129xf32>
  return %s, %n, %k : tensor<f32>, tensor<2047x129xf32>, tensor<2047x129xf32>
}

func.func @small(%t: tensor<i32> {sx.ctx = "step"}, %p: tensor<5xf32> {sx.param = "param"}, %g: tensor<5xf32> {sx.grad = "grad"}, %m: tensor<5xf32> {sx.state = "m"})
    -> (tensor<f32> {sx.value = "lr"}, tensor<5xf32> {sx.param = "param"}, tensor<5xf32> {sx.state = "m"}) attributes {sx.graph = "update small"} {
  %h = "sx.constant"() {value = dense<1.0e-01> : tensor<f32>} : () -> tensor<f32>
  %f = "sx.cast"(%t) {dtype = f32} : (tensor<i32>) -> tensor<f32>
  %s = "sx.div"(%h, %f) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %w = "sx.broadcast"(%s) {shape = array<i64: 5>} : (tensor<f32>) -> tensor<5xf32>
  %k = "sx.add"(%m, %g) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %d = "sx.mul"(%w, %k) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %n = "sx.sub"(%p, %d) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  return %s, %n, %k : tensor<f32>, tensor<5xf32>, tensor<5xf32>
}

func.func @fold(%p: tensor<64x32xf32> {sx.param = "param"}, %g: tensor<64x32xf32> {sx.grad = "grad"})
    -> (tensor<64x32xf32> {sx.param = "param"}) attributes {sx.graph = "update fold"} {
  %s = "sx.sum"(%g) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<64x32xf32>) -> tensor<f32>
  %w = "sx.broadcast"(%s) {shape = array<i64: 64, 32>} : (tensor<f32>) -> tensor<64x32xf32>
  %d = "sx.mul"(%w, %g) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %n = "sx.sub"(%p, %d) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %n : tensor<64x32xf32>
}
