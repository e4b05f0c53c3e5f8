// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu=chip=sm_90a > %t
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=LAUNCH < %t
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu=chip=sm_90a --sx-to-nvvm=chip=sm_90a | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu=chip=sm_90a --sx-to-nvvm=chip=sm_90a --sx-to-ptx | FileCheck %s --check-prefix=PTX
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu=chip=sm_90 | FileCheck %s --check-prefix=PORTABLE
// RUN: not sexpgpu-opt %s --sx-to-gpu=chip=sm_91 2>&1 >/dev/null | FileCheck %s --check-prefix=CHIP

// CHIP: error[E-IR-011]: `sx-to-gpu`: `sm_91` is no value for `chip`

// Chips that other ones can stand in for have no kernels of warpgroups.
// PORTABLE-NOT: wgmma
// PORTABLE-NOT: maps =
// PORTABLE: mma.m16n8k16

// The first factor's rows and the second's columns lie beside each other: boxes of 64 places of the sum by 128 rows, and of
// 64 columns by 64 places. One launch makes the product, adds the bias and applies the activation.
// LAUNCH: func.func private @product_1(
// LAUNCH-SAME: sx.kernels = [{args = array<i64: 0, 1, 2, 3>, block = array<i64: 288, 1, 1>, grid = array<i64: 96, 1, 1>, how = "wgmma 128x256x64, 288 threads, 4 stages", kernel = @product_1,
// LAUNCH-SAME: maps = [{argument = 0 : i64, box = array<i64: 64, 128>, offset = 0 : i64, shape = array<i64: 768, 1024>, strides = array<i64: 1536>, swizzle = 128 : i64}, {argument = 1 : i64, box = array<i64: 64, 64>, offset = 0 : i64, shape = array<i64: 3072, 768>, strides = array<i64: 6144>, swizzle = 128 : i64}]
// LAUNCH-SAME: shared = 196672 : i64
func.func @bias(%x: tensor<1024x768xbf16>, %w: tensor<768x3072xbf16>, %b: tensor<3072xbf16>) -> tensor<1024x3072xbf16> {
  %p = "sx.matmul"(%x, %w) : (tensor<1024x768xbf16>, tensor<768x3072xbf16>) -> tensor<1024x3072xbf16>
  %v = "sx.broadcast"(%b) {shape = array<i64: 1024, 3072>} : (tensor<3072xbf16>) -> tensor<1024x3072xbf16>
  %a = "sx.add"(%p, %v) : (tensor<1024x3072xbf16>, tensor<1024x3072xbf16>) -> tensor<1024x3072xbf16>
  %y = "sx.relu"(%a) : (tensor<1024x3072xbf16>) -> tensor<1024x3072xbf16>
  return %y : tensor<1024x3072xbf16>
}

// Rows whose bytes 16 does not divide are none that bulk copies can bring.
// LAUNCH: func.func private @product_2(
// LAUNCH-NOT: maps =
// LAUNCH: how = "mma.m16n8k16
func.func @odd(%x: tensor<1024x764xbf16>, %w: tensor<764x3072xbf16>) -> tensor<1024x3072xbf16> {
  %p = "sx.matmul"(%x, %w) : (tensor<1024x764xbf16>, tensor<764x3072xbf16>) -> tensor<1024x3072xbf16>
  return %p : tensor<1024x3072xbf16>
}

// One thread copies what comes; the others multiply, with the products of one step under way while they wait for the next.
// CHECK: gpu.func @product_1(
// CHECK-SAME: sx.maps = 2 : i64
// CHECK: nvvm.mbarrier.init
// CHECK: nvvm.fence.mbarrier.init
// CHECK: gpu.barrier
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.mbarrier.arrive.expect_tx
// CHECK-COUNT-5: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-NOT: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait.parity
// CHECK: nvvm.wgmma.fence.aligned
// CHECK-COUNT-4: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT: nvvm.wgmma.wait.group.sync.aligned 1
// CHECK: nvvm.mbarrier.arrive
// CHECK: nvvm.wgmma.wait.group.sync.aligned 0
// CHECK: nvvm.barrier id = {{.*}} number_of_threads =
// CHECK: gpu.barrier

// NVVM: llvm.mlir.global external @dynamic_shared_1024() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// NVVM: llvm.func @product_1(
// NVVM-COUNT-2: {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, llvm.noundef, nvvm.grid_constant}

// PTX-NOT: .local
// PTX: .target sm_90a
// PTX: .extern .shared .align 1024 .b8 dynamic_shared_1024[]
// PTX: .entry product_1(
// PTX: .param .align 64 .b8 product_1_param_4[128]
// PTX: .param .align 64 .b8 product_1_param_5[128]
// PTX: mbarrier.init.shared.b64
// PTX: fence.mbarrier_init.release.cluster
// PTX: mbarrier.try_wait.parity.shared.b64
// PTX: mbarrier.arrive.expect_tx.shared.b64
// PTX: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
// PTX: wgmma.fence.sync.aligned
// PTX: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
// PTX: wgmma.commit_group.sync.aligned
// PTX: wgmma.wait_group.sync.aligned
// PTX: mbarrier.arrive.shared.b64
