// RUN: sexpgpu-opt %s --sx-step-sums --verify-diagnostics

// A total of something that training changes is not known before the step.
// expected-error@+1 {{E-FLOW-006: `step-sum` of a value that depends on a parameter}}
func.func @train(%w: tensor<f32> {sx.param = "w"}, %n: tensor<f32> {sx.step_sum = "n"})
    -> (tensor<f32> {sx.step_term = "n"}, tensor<f32> {sx.loss = "loss"}) attributes {sx.graph = "train"} {
  %l = "sx.div"(%w, %n) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %w, %l : tensor<f32>, tensor<f32>
}
