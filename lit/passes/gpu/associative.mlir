// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda | FileCheck %s --check-prefix=GROUP
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm --sx-to-ptx --ptx | FileCheck %s --check-prefix=PTX

// The loop and what puts its outs behind the first place are one group, and so is the derivative: the kernel writes the
// whole tensors.
// GROUP-LABEL: func.func @prefixes(
// GROUP: %[[Y:.*]] = call @scan_1(
// GROUP-NOT: sx.concat
// GROUP: return
// GROUP-LABEL: func.func @gradient(
// GROUP: call @scan_2(
// GROUP-NOT: sx.pad
// GROUP: return

// 96 elements in 3 blocks of 32, each with 16 stretches of 8 turns: what the items of a stretch combine to goes through
// shared memory, in four rounds, and then every thread runs its turns.
// CHECK-LABEL: gpu.func @scan_1(
// CHECK-SAME: known_block_size = array<i32: 512, 1, 1>, known_grid_size = array<i32: 3, 1, 1>
// CHECK: scf.for
// CHECK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK-COUNT-9: gpu.barrier
// CHECK: scf.for
// CHECK-COUNT-4: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK: gpu.return

// Its derivative is linear: a factor and a term for each stretch.
// CHECK-LABEL: gpu.func @scan_2(
// CHECK-SAME: known_block_size = array<i32: 512, 1, 1>, known_grid_size = array<i32: 3, 1, 1>
// CHECK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK: gpu.barrier
// CHECK: gpu.return

// NVVM-LABEL: llvm.func @scan_1(
// NVVM: nvvm.barrier0
// NVVM-LABEL: llvm.func @scan_2(
// NVVM: nvvm.barrier0

// PTX-LABEL: .visible .entry scan_1(
// PTX-NOT: .local
// PTX: ld.global.nc.b32
// PTX: st.shared.b32
// PTX: bar.sync
// PTX: st.global.b32
// PTX-LABEL: .visible .entry scan_2(
// PTX-NOT: .local
// PTX: bar.sync

func.func private @turn(%a: tensor<96xf32>, %b: tensor<96xf32>, %c: tensor<96xf32>, %d: tensor<96xf32>) -> (tensor<96xf32>, tensor<96xf32>, tensor<96xf32>) {
  %m = "sx.mul"(%a, %c) : (tensor<96xf32>, tensor<96xf32>) -> tensor<96xf32>
  %p = "sx.mul"(%c, %b) : (tensor<96xf32>, tensor<96xf32>) -> tensor<96xf32>
  %n = "sx.add"(%p, %d) : (tensor<96xf32>, tensor<96xf32>) -> tensor<96xf32>
  return %m, %n, %n : tensor<96xf32>, tensor<96xf32>, tensor<96xf32>
}

func.func private @loop(tensor<96xf32>, tensor<96xf32>, tensor<127x96xf32>, tensor<127x96xf32>) -> (tensor<96xf32>, tensor<96xf32>, tensor<127x96xf32>) attributes {sx.associative, sx.body = @turn, sx.items = array<i64: 0, 0>, sx.outs = array<i64: 0>, sx.states = 2 : i64}

func.func @prefixes(%a: tensor<96xf32>, %b: tensor<96xf32>, %first: tensor<1x96xf32>, %x: tensor<127x96xf32>, %y: tensor<127x96xf32>) -> tensor<128x96xf32> {
  %h:3 = call @loop(%a, %b, %x, %y) : (tensor<96xf32>, tensor<96xf32>, tensor<127x96xf32>, tensor<127x96xf32>) -> (tensor<96xf32>, tensor<96xf32>, tensor<127x96xf32>)
  %r = "sx.concat"(%first, %h#2) {axis = 0 : i64} : (tensor<1x96xf32>, tensor<127x96xf32>) -> tensor<128x96xf32>
  return %r : tensor<128x96xf32>
}

func.func private @reverse(%g: tensor<96xf32>, %a: tensor<96xf32>, %t: tensor<96xf32>) -> (tensor<96xf32>, tensor<96xf32>) {
  %s = "sx.add"(%g, %t) : (tensor<96xf32>, tensor<96xf32>) -> tensor<96xf32>
  %n = "sx.mul"(%s, %a) : (tensor<96xf32>, tensor<96xf32>) -> tensor<96xf32>
  return %n, %s : tensor<96xf32>, tensor<96xf32>
}

func.func private @back(tensor<96xf32>, tensor<127x96xf32>, tensor<127x96xf32>) -> (tensor<96xf32>, tensor<127x96xf32>) attributes {sx.body = @reverse, sx.items = array<i64: 0, 0>, sx.linear, sx.outs = array<i64: 0>, sx.reverse, sx.states = 1 : i64}

func.func @gradient(%g: tensor<96xf32>, %a: tensor<127x96xf32>, %t: tensor<127x96xf32>, %first: tensor<1x96xf32>) -> tensor<128x96xf32> {
  %d:2 = call @back(%g, %a, %t) : (tensor<96xf32>, tensor<127x96xf32>, tensor<127x96xf32>) -> (tensor<96xf32>, tensor<127x96xf32>)
  %behind = "sx.pad"(%d#1) {low = array<i64: 1, 0>, high = array<i64: 0, 0>, value = 0 : i64} : (tensor<127x96xf32>) -> tensor<128x96xf32>
  %last = "sx.reshape"(%d#0) {shape = array<i64: 1, 96>} : (tensor<96xf32>) -> tensor<1x96xf32>
  %sum = "sx.add"(%first, %last) : (tensor<1x96xf32>, tensor<1x96xf32>) -> tensor<1x96xf32>
  %before = "sx.pad"(%sum) {low = array<i64: 0, 0>, high = array<i64: 127, 0>, value = 0 : i64} : (tensor<1x96xf32>) -> tensor<128x96xf32>
  %r = "sx.add"(%behind, %before) : (tensor<128x96xf32>, tensor<128x96xf32>) -> tensor<128x96xf32>
  return %r : tensor<128x96xf32>
}
