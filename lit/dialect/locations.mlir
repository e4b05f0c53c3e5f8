// RUN: sexpgpu-opt %s --print-locations | FileCheck %s
// RUN: sexpgpu-opt %s --print-locations | sexpgpu-opt - --print-locations | FileCheck %s

// A place is a region of a .sx file with a model path around it; both survive printing and parsing.

// CHECK-LABEL: @places
func.func @places(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: "sx.neg"{{.*}} loc([[PATH:#loc[0-9]*]])
  %0 = "sx.neg"(%x) : (tensor<2xf32>) -> tensor<2xf32> loc(fused<"model.blocks.0.attn">["gpt.sx":41:3 to 42:9])
  // CHECK: "sx.exp"{{.*}} loc([[PLAIN:#loc[0-9]*]])
  %1 = "sx.exp"(%0) : (tensor<2xf32>) -> tensor<2xf32> loc("gpt.sx":50:3 to :9)
  return %1 : tensor<2xf32>
}
// CHECK-DAG: [[REGION:#loc[0-9]*]] = loc("gpt.sx":41:3 to 42:9)
// CHECK-DAG: [[PLAIN]] = loc("gpt.sx":50:3 to :9)
// CHECK-DAG: [[PATH]] = loc(fused<"model.blocks.0.attn">{{\[}}[[REGION]]])
