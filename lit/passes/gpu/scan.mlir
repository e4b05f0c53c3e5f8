// RUN: sexpgpu-opt %s --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-to-gpu --sx-to-nvvm --sx-to-ptx | FileCheck %s --check-prefix=PTX

// A warp for each line of 512: shuffles, no shared memory.
// CHECK-LABEL: gpu.func @scan_1(
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 50, 1, 1>
// CHECK: scf.for
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK-COUNT-6: gpu.shuffle idx
// CHECK-NOT: gpu.barrier
// CHECK: gpu.return

// Along the first axis neighbouring threads walk along neighbouring lines, four loads ahead.
// CHECK-LABEL: gpu.func @scan_2(
// CHECK: scf.for
// CHECK-COUNT-4: llvm.load {{.*}} -> f32
// CHECK-COUNT-4: llvm.store
// CHECK: gpu.return

// A long line is shared: its parts are summed first.
// CHECK-LABEL: gpu.func @scan_3(
// CHECK-SAME: known_grid_size = array<i32: 16, 1, 1>
// CHECK-LABEL: gpu.func @scan_3_2(
// CHECK-SAME: known_grid_size = array<i32: 16, 1, 1>
// CHECK: gpu.return

// NVVM-LABEL: llvm.func @scan_1(
// NVVM-COUNT-6: nvvm.shfl.sync  idx
// NVVM-LABEL: llvm.func @scan_2(
// NVVM-NOT: nvvm.shfl.sync
// NVVM-LABEL: llvm.func @scan_3(
// NVVM: nvvm.barrier0

// PTX-NOT: .local
// PTX: .visible .entry scan_1(
// PTX-SAME: shfl.sync.idx

func.func @rows(%x: tensor<200x512xf32>) -> tensor<200x512xf32> {
  %y = "sx.cumsum"(%x) {axis = 1 : i64} : (tensor<200x512xf32>) -> tensor<200x512xf32>
  return %y : tensor<200x512xf32>
}

func.func @columns(%x: tensor<64x4096xf32>) -> tensor<64x4096xf32> {
  %y = "sx.cumsum"(%x) {axis = 0 : i64} : (tensor<64x4096xf32>) -> tensor<64x4096xf32>
  return %y : tensor<64x4096xf32>
}

func.func @long(%x: tensor<65536xf32>) -> tensor<65536xf32> {
  %y = "sx.cumsum"(%x) {axis = 0 : i64} : (tensor<65536xf32>) -> tensor<65536xf32>
  return %y : tensor<65536xf32>
}
