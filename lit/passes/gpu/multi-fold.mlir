// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu | FileCheck %s
// RUN: sexpgpu-opt %s --sx-fuse=target=cuda --sx-to-gpu --sx-to-nvvm --sx-to-ptx | FileCheck %s --check-prefix=PTX

// Two kernels for tensors of any shape: blocks fold chunks of 4096 elements, then a block what there is of its tensor.
// CHECK: func.func private @[[FIRST:[a-z_0-9]+]](%{{.*}}: tensor<20011xf32>
// CHECK-SAME: {args = array<i64>, block = array<i64: 256, 1, 1>, grid = array<i64: 5, 1, 1>, kernel = @[[FIRST]], table = {capacity = 128 : i64, chunk = 4096 : i64, rows = [{args = array<i64: 0, 2>, elements = 20011 : i64}]}}
// CHECK-SAME: grid = array<i64: 1, 1, 1>, kernel = @[[FIRST]]_2
// CHECK-SAME: sx.temporaries = array<i64: 40>
// CHECK: func.func private @{{[a-z_0-9]+}}(%{{.*}}: tensor<3x5xf32>
// CHECK-SAME: kernel = @[[FIRST]], table
// CHECK-SAME: sx.temporaries = array<i64: 8>

// CHECK: gpu.func @[[FIRST]](%arg0: !llvm.ptr)
// CHECK-COUNT-4: llvm.load {{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: gpu.shuffle
// CHECK: gpu.barrier
// CHECK: llvm.store {{.*}} : f64, !llvm.ptr<1>
// CHECK: gpu.return
// CHECK: gpu.func @[[FIRST]]_2(%arg0: !llvm.ptr)
// CHECK: scf.for
// CHECK: gpu.barrier
// CHECK: llvm.store {{.*}} : f64, !llvm.ptr<1>
// CHECK-NOT: gpu.func

// PTX-NOT: .local
// PTX: ld.global.nc.v4
// PTX-NOT: atom

func.func @long(%x: tensor<20011xf32> {sx.grad = "x"}) -> (tensor<f64> {sx.value = "y"}) attributes {sx.graph = "long"} {
  %s = "sx.mul"(%x, %x) : (tensor<20011xf32>, tensor<20011xf32>) -> tensor<20011xf32>
  %d = "sx.cast"(%s) {dtype = f64} : (tensor<20011xf32>) -> tensor<20011xf64>
  %f = "sx.sum"(%d) {axes = array<i64: 0>, keepdims = false} : (tensor<20011xf64>) -> tensor<f64>
  return %f : tensor<f64>
}

func.func @short(%x: tensor<3x5xf32> {sx.grad = "x"}) -> (tensor<f64> {sx.value = "y"}) attributes {sx.graph = "short"} {
  %s = "sx.mul"(%x, %x) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %d = "sx.cast"(%s) {dtype = f64} : (tensor<3x5xf32>) -> tensor<3x5xf64>
  %f = "sx.sum"(%d) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<3x5xf64>) -> tensor<f64>
  return %f : tensor<f64>
}
