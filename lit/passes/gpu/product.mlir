// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu > %t
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=LAUNCH < %t
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm | FileCheck %s --check-prefix=NVVM
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm=chip=sm_90 --sx-to-ptx | FileCheck %s --check-prefix=PTX

// One launch makes the product, adds the bias and applies the activation: 8 tiles of rows, 18 of columns.
// LAUNCH: func.func private @product_1(
// LAUNCH-SAME: sx.kernels = [{args = array<i64: 0, 1, 2, 3>, block = array<i64: 256, 1, 1>, grid = array<i64: 144, 1, 1>, how = "mma.m16n8k16 128x128x32, 256 threads, 4 stages", kernel = @product_1, shared = 69632 : i64}]
func.func @bf16(%x: tensor<1024x768xbf16>, %w: tensor<768x2304xbf16>, %b: tensor<2304xbf16>) -> tensor<1024x2304xbf16> {
  %p = "sx.matmul"(%x, %w) : (tensor<1024x768xbf16>, tensor<768x2304xbf16>) -> tensor<1024x2304xbf16>
  %v = "sx.broadcast"(%b) {shape = array<i64: 1024, 2304>} : (tensor<2304xbf16>) -> tensor<1024x2304xbf16>
  %a = "sx.add"(%p, %v) : (tensor<1024x2304xbf16>, tensor<1024x2304xbf16>) -> tensor<1024x2304xbf16>
  %y = "sx.relu"(%a) : (tensor<1024x2304xbf16>) -> tensor<1024x2304xbf16>
  return %y : tensor<1024x2304xbf16>
}

// The sum over 50304 places is in parts, whose sums a second kernel adds in order.
// LAUNCH: func.func private @product_2(
// LAUNCH-SAME: args = array<i64: 0, 1, 3>, {{[^}]*}}how = "mma.m16n8k16 {{.*}} parts", kernel = @product_2,
// LAUNCH-SAME: args = array<i64: 0, 1, 3, 2>, {{[^}]*}}kernel = @product_2_2}]
// LAUNCH-SAME: sx.temporaries = array<i64: 25165824>
func.func @parts(%x: tensor<1024x50304xbf16>, %w: tensor<50304x768xbf16>) -> tensor<1024x768xbf16> {
  %p = "sx.matmul"(%x, %w) : (tensor<1024x50304xbf16>, tensor<50304x768xbf16>) -> tensor<1024x768xbf16>
  return %p : tensor<1024x768xbf16>
}

func.func @f32(%x: tensor<4096x1024xf32>, %w: tensor<1024x4096xf32>) -> tensor<4096x4096xf32> {
  %p = "sx.matmul"(%x, %w) : (tensor<4096x1024xf32>, tensor<1024x4096xf32>) -> tensor<4096x4096xf32>
  return %p : tensor<4096x4096xf32>
}

// CHECK: gpu.func @product_1(
// CHECK-SAME: nvvm.minctasm = 2
// CHECK-COUNT-4: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: scf.for
// CHECK-NEXT: nvvm.cp.async.wait.group 2
// CHECK-NEXT: gpu.barrier
// CHECK: nvvm.ldmatrix
// CHECK: nvvm.mma.sync
// CHECK: gpu.func @product_2(
// CHECK: gpu.func @product_2_2(
// CHECK: llvm.load
// CHECK: arith.addf
// CHECK: gpu.func @product_3(
// CHECK: math.fma {{.*}} : vector<4xf32>

// The one shared memory of the module has the size that a launch says.
// NVVM: llvm.mlir.global external @dynamic_shared() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<0 x i8>
// NVVM: llvm.func @product_1(
// NVVM-COUNT-32: nvvm.mma.sync

// PTX-NOT: .local
// PTX: .extern .shared .align 128 .b8 dynamic_shared[]
// PTX-DAG: .entry product_1(
// PTX-DAG: .minnctapersm 2
// PTX-DAG: cp.async.cg.shared.global
// PTX-DAG: cp.async.wait_group
// PTX-DAG: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX-DAG: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// PTX-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// PTX-DAG: st.global.v4.b32
// PTX-DAG: ld.global.nc.v4.b32
// PTX-DAG: fma.rn.f32
// PTX-NOT: .local
