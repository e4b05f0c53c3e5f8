// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm --sx-to-ptx | FileCheck %s --check-prefix=MODULE
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm=chip=sm_90 --sx-to-ptx --ptx | FileCheck %s

// The module of kernels becomes a binary that holds their text; graphs and groups stay.
// MODULE: func.func @f
// MODULE: gpu.binary @kernels [#gpu.object<#nvvm.target<O = 3, chip = "sm_80"
// MODULE-NOT: gpu.module
// MODULE-NOT: TimeInMs

// 128 bits at a time, read through the cache for what nobody writes; no memory of a thread's own; libdevice inlined.
// CHECK: .target sm_90
// CHECK: .visible .entry pointwise_1(
// CHECK: .maxntid 256
// CHECK-NOT: .local
// CHECK-NOT: .extern
// CHECK: ld.global.nc.v4.b32
// CHECK: ex2.approx.ftz.f32
// CHECK: st.global.v4.b32

func.func @f(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {sx.graph = "train"} {
  %0 = "sx.exp"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
