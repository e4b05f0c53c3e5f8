// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm=chip=sm_90 | FileCheck %s
// RUN: not sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm=chip=sm_75 2>&1 | FileCheck %s --check-prefix=CHIP

// CHIP: E-IR-011
// CHIP: sm_80 or sm_90

// Bare pointers, indices of 32 bits, the block's size known.
// CHECK: gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_90", features = "+ptx80">]
// CHECK: llvm.func @pointwise_1(%arg0: !llvm.ptr<1>, %arg1: !llvm.ptr<1>)
// CHECK-SAME: gpu.kernel
// CHECK-SAME: nvvm.maxntid = array<i32: 256, 1, 1>
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: nvvm.read.ptx.sreg.tid.x
// CHECK: llvm.getelementptr %arg0[%{{.*}}] : (!llvm.ptr<1>, i32)
// CHECK: llvm.call @__nv_expf
// CHECK-NOT: gpu.func

func.func @f(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {sx.graph = "train"} {
  %0 = "sx.exp"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
