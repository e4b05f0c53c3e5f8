// RUN: sexpgpu-opt %s --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm --sx-to-ptx --ptx | FileCheck %s --check-prefix=PTX

// Rows of a table: a vector of four for a thread, whose index is compared with the table's length first.
// CHECK-LABEL: gpu.func @pointwise_1(
// CHECK: llvm.load {{.*}} -> i32
// CHECK: arith.cmpi uge
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: gpu.return

// The gradient of an embedding: first the places where each row's indices begin and end, by atomics of integers, whose
// order does not matter; then a block for each pair of rows adds what belongs to them in the order of the indices.
// CHECK-LABEL: gpu.func @index_1(
// CHECK-LABEL: gpu.func @index_1_2(
// CHECK-LABEL: gpu.func @index_1_3(
// CHECK: scf.for
// CHECK: arith.addf {{.*}} : vector<4xf32>
// CHECK: gpu.return

// NVVM-LABEL: llvm.func @index_1_2(
// NVVM: llvm.atomicrmw min
// NVVM: llvm.atomicrmw max
// NVVM-LABEL: llvm.func @index_1_3(
// NVVM-NOT: llvm.atomicrmw

// PTX-LABEL: .visible .entry pointwise_1(
// PTX-NOT: .local
// PTX: ld.global.nc.v4.b32
// PTX: st.global.v4.b32
// PTX-LABEL: .visible .entry index_1_2(
// PTX: atom.global.min.s32
// PTX: atom.global.max.s32
// PTX-LABEL: .visible .entry index_1_3(
// PTX-NOT: atom
// PTX-NOT: .local
// PTX: ld.global.nc.v4.b32
// PTX: st.global.v4.b32

func.func @embed(%w: tensor<50304x768xf32>, %ids: tensor<4096xi32>) -> tensor<4096x768xf32> {
  %y = "sx.gather"(%w, %ids) {axis = 0 : i64} : (tensor<50304x768xf32>, tensor<4096xi32>) -> tensor<4096x768xf32>
  return %y : tensor<4096x768xf32>
}

func.func @gradient(%zero: tensor<50304x768xf32>, %ids: tensor<4096xi32>, %g: tensor<4096x768xf32>) -> tensor<50304x768xf32> {
  %d = "sx.scatter_add"(%zero, %ids, %g) {axis = 0 : i64} : (tensor<50304x768xf32>, tensor<4096xi32>, tensor<4096x768xf32>) -> tensor<50304x768xf32>
  return %d : tensor<50304x768xf32>
}
