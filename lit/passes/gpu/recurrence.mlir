// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm --sx-to-ptx --ptx | FileCheck %s --check-prefix=PTX

// A loop whose turns compute every element by itself becomes one call and one kernel: a thread for each of 32 x 256
// elements, its state carried in a register, the items of four turns read before the first of them computes.
// CHECK-LABEL: func.func @decay(
// CHECK: call @scan_1(
// CHECK-LABEL: gpu.func @scan_1(
// CHECK-SAME: known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 256, 1, 1>
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (f32)
// CHECK-COUNT-4: llvm.load {{.*}} -> f32
// CHECK-COUNT-4: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK: scf.yield
// CHECK: gpu.return

// NVVM-LABEL: llvm.func @scan_1(
// NVVM-COUNT-4: llvm.load {{.*}} invariant
// NVVM: llvm.store

// PTX-LABEL: .visible .entry scan_1(
// PTX-NOT: .local
// PTX-COUNT-4: ld.global.nc.b32
// PTX: mul.rn.f32
// PTX: add.rn.f32
// PTX: st.global.b32

func.func private @turn(%h: tensor<32x256xf32>, %x: tensor<32x256xf32>) -> (tensor<32x256xf32>, tensor<32x256xf32>) {
  %a = "sx.constant"() {value = dense<0.9> : tensor<32x256xf32>} : () -> tensor<32x256xf32>
  %kept = "sx.mul"(%h, %a) : (tensor<32x256xf32>, tensor<32x256xf32>) -> tensor<32x256xf32>
  %next = "sx.add"(%kept, %x) : (tensor<32x256xf32>, tensor<32x256xf32>) -> tensor<32x256xf32>
  return %next, %next : tensor<32x256xf32>, tensor<32x256xf32>
}

func.func private @loop(tensor<32x256xf32>, tensor<32x64x256xf32>) -> (tensor<32x256xf32>, tensor<32x64x256xf32>) attributes {sx.body = @turn, sx.items = array<i64: 1>, sx.outs = array<i64: 1>, sx.states = 1 : i64}

func.func @decay(%h: tensor<32x256xf32>, %x: tensor<32x64x256xf32>) -> (tensor<32x256xf32>, tensor<32x64x256xf32>) {
  %y:2 = call @loop(%h, %x) : (tensor<32x256xf32>, tensor<32x64x256xf32>) -> (tensor<32x256xf32>, tensor<32x64x256xf32>)
  return %y#0, %y#1 : tensor<32x256xf32>, tensor<32x64x256xf32>
}
