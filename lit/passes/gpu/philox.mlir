// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm --sx-to-ptx --ptx | FileCheck %s --check-prefix=PTX

// Dropout is one kernel: Philox4x32-10 of four counters side by side, ten rounds of two products of 32 bits, whose
// numbers stay in registers until they have decided what is kept.
// CHECK-LABEL: func.func @dropout(
// CHECK-NEXT: call @pointwise_1(
// CHECK-NEXT: return
// CHECK-LABEL: gpu.func @pointwise_1(
// CHECK: arith.mului_extended {{.*}} : vector<4xi32>
// CHECK: arith.select
// CHECK: gpu.return

// NVVM-LABEL: llvm.func @pointwise_1(
// NVVM: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<1>

// PTX-LABEL: .visible .entry pointwise_1(
// PTX-NOT: .local
// PTX: mul.hi.u32
// PTX: st.global.v4.b32

func.func @dropout(%x: tensor<1024x768xf32>, %counter: tensor<3xi32>) -> tensor<1024x768xf32> {
  %u = "sx.random_uniform"(%counter) {dtype = f32, key = 7 : i64, shape = array<i64: 1024, 768>} : (tensor<3xi32>) -> tensor<1024x768xf32>
  %p = "sx.constant"() {value = dense<0.1> : tensor<1024x768xf32>} : () -> tensor<1024x768xf32>
  %zero = "sx.constant"() {value = dense<0.0> : tensor<1024x768xf32>} : () -> tensor<1024x768xf32>
  %keep = "sx.ge"(%u, %p) : (tensor<1024x768xf32>, tensor<1024x768xf32>) -> tensor<1024x768xi1>
  %y = "sx.where"(%keep, %x, %zero) : (tensor<1024x768xi1>, tensor<1024x768xf32>, tensor<1024x768xf32>) -> tensor<1024x768xf32>
  return %y : tensor<1024x768xf32>
}
