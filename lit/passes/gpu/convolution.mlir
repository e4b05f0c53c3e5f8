// RUN: sexpgpu-opt %s --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm --sx-to-ptx --ptx | FileCheck %s --check-prefix=PTX

// The windows are never written to memory: their elements go from the operand into shared memory as the product needs
// them. bf16 by tensor cores, 128 by 128 results a block, four stages of asynchronous copies.
// CHECK-LABEL: gpu.func @window_1(
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.ldmatrix
// CHECK: nvvm.mma.sync
// CHECK: gpu.return

// The gradient of the weights in f32, whose long sums are shared by blocks and added up behind in order.
// CHECK-LABEL: gpu.func @window_2(
// CHECK-NOT: nvvm.mma.sync
// CHECK-LABEL: gpu.func @window_2_2(
// CHECK: gpu.return

// NVVM-LABEL: llvm.func @window_1(
// NVVM: nvvm.mma.sync

// PTX-LABEL: .visible .entry window_1(
// PTX-NOT: .local
// PTX: cp.async.cg.shared.global
// PTX: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// PTX-LABEL: .visible .entry window_2(
// PTX-NOT: .local
// PTX: fma.rn.f32
// PTX-LABEL: .visible .entry window_2_2(
// PTX-NOT: atom
// PTX-NOT: .local
// PTX: st.global

func.func @conv(%x: tensor<32x64x28x28xbf16>, %w: tensor<128x64x3x3xbf16>) -> tensor<32x128x28x28xbf16> {
  %y = "sx.conv"(%x, %w) {dilation = array<i64: 1, 1>, groups = 1 : i64, high = array<i64: 1, 1>, low = array<i64: 1, 1>, stride = array<i64: 1, 1>} : (tensor<32x64x28x28xbf16>, tensor<128x64x3x3xbf16>) -> tensor<32x128x28x28xbf16>
  return %y : tensor<32x128x28x28xbf16>
}

func.func @weights(%x: tensor<32x64x28x28xf32>, %g: tensor<32x128x28x28xf32>) -> tensor<128x64x3x3xf32> {
  %y = "sx.conv_weight_grad"(%x, %g) {dilation = array<i64: 1, 1>, groups = 1 : i64, high = array<i64: 1, 1>, kernel = array<i64: 3, 3>, low = array<i64: 1, 1>, stride = array<i64: 1, 1>} : (tensor<32x64x28x28xf32>, tensor<32x128x28x28xf32>) -> tensor<128x64x3x3xf32>
  return %y : tensor<128x64x3x3xf32>
}
