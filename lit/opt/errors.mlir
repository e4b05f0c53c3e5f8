// RUN: not sexpgpu-opt %s --sx-simplfy 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not sexpgpu-opt %s --sx-simplify=deep=1 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not sexpgpu-opt %s --pass-pipeline=nonsense 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: not sexpgpu-opt no-such-file.mlir 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: sexpgpu-opt %s --pass-pipeline="builtin.module(cse)" | FileCheck %s --check-prefix=UPSTREAM

// PASS: E-IR-010
// PASS: help: `sx-simplify`
// OPTION: E-IR-010{{.*}}no option
// PIPELINE: E-IR-003
// FILE: E-IO-101
// UPSTREAM: func.func @f
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
