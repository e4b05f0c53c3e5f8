// RUN: sexpgpu-opt %s --sx-to-gpu=tf32=true | FileCheck %s --check-prefix=GPU
// RUN: sexpgpu-opt %s --sx-to-gpu=tf32=true --sx-to-nvvm --sx-to-ptx | FileCheck %s --check-prefix=PTX
// RUN: sexpgpu-opt %s --sx-to-gpu | FileCheck %s --check-prefix=EXACT

// Where it is allowed, factors of f32 are copied to shared memory as they are, rounded when they have been read from
// there, and multiplied on tensor cores.
// GPU: gpu.func @product_1
// GPU: nvvm.cp.async.shared.global
// GPU: nvvm.ldmatrix
// GPU: nvvm.convert.float.to.tf32 {{.*}} {rnd = #nvvm.fp_rnd_mode<rna>}
// GPU: nvvm.mma.sync {{.*}} shape = #nvvm.shape<m = 16, n = 8, k = 8>
// GPU: func.func private @product_1
// GPU-SAME: how = "mma.m16n8k8
// GPU-SAME: sx.library = {activation = "none", graph = "product", scale = 1.000000e+00 : f64, tensors = [{{.*}}], tf32 = true}

// PTX: .entry product_1
// PTX-NOT: .local
// PTX: cp.async.cg.shared.global
// PTX: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX: cvt.rna.tf32.f32
// PTX: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
// PTX: st.global.v4

// EXACT: func.func private @product_1
// EXACT-SAME: how = "fma
// EXACT-SAME: tf32 = false
// EXACT-NOT: tf32 = true
// EXACT-NOT: mma.sync
func.func @product(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> attributes {sx.graph = "train"} {
  %0 = "sx.matmul"(%x, %y) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %0 : tensor<1024x1024xf32>
}
