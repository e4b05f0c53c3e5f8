// RUN: sexpgpu-opt %s --sx-autodiff --sx-simplify --print-locations | FileCheck %s

// What a derivative rule makes carries the place and the model path of the operation it comes from.
// CHECK: "sx.tanh"(%{{.*}}) {{.*}} loc([[TANH:#loc[0-9]*]])
// CHECK: "sx.mul"{{.*}} loc([[TANH]])
// CHECK: [[PLACE:#loc[0-9]*]] = loc("net.sx":7:3 to :11)
// CHECK: [[TANH]] = loc(fused<"model.act">[[[PLACE]]])
func.func @train(%w: tensor<f32> {sx.param = "w"}) -> (tensor<f32> {sx.loss = "loss"}) {
  %t = "sx.tanh"(%w) : (tensor<f32>) -> tensor<f32> loc(fused<"model.act">["net.sx":7:3 to 7:11])
  return %t : tensor<f32>
}
