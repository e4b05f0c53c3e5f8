// RUN: not sexpgpu-opt %s --sx-fuse=target=tpu 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not sexpgpu-opt %s --sx-precision=policy=fp8 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not sexpgpu-opt %s --sx-fuse=target= 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not sexpgpu-opt %s --sx-fuse=tile=8 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not sexpgpu-opt %s --sx-fuze 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not sexpgpu-opt %s --pipeline shared --pipeline gpu 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: not sexpgpu-opt %s --pass-pipeline="builtin.module(no-such-pass)" 2>&1 | FileCheck %s --check-prefix=UPSTREAM

// An option that a pass has, with a value that it does not take, is no default in silence.
// TARGET: error[E-IR-011]: `sx-fuse`: `tpu` is no value for `target`
// TARGET-NEXT: expected: cpu or cuda
// TARGET-NOT: func.func
// POLICY: error[E-IR-011]: `sx-precision` knows no policy `fp8`
// POLICY-NEXT: expected: f32, bf16 or module
// EMPTY: error[E-IR-011]: `sx-fuse`: `` is no value for `target`
// OPTION: error[E-IR-010]: `sx-fuse` has no option `tile`
// OPTION-NEXT: expected: one of target
// PASS: error[E-IR-010]: there is no pass `sx-fuze`
// PASS: help: `sx-fuse`
// PIPELINE: error[E-IR-012]: there is no pipeline `gpu`
// PIPELINE-NEXT: expected: one of shared, cpu, cuda, check
// UPSTREAM: error[E-IR-003]
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
