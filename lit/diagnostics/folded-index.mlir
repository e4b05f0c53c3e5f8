// RUN: sexpgpu-opt %s --sx-simplify --verify-diagnostics

// An index that is known when the graph is compiled, and lies outside its axis, is found by folding, at its own place:
// waiting for the run would waste what comes before it.
func.func @f(%y: tensor<3xf32> {sx.field = "y"}) -> tensor<1xf32> {
  %x = "sx.constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %i = "sx.constant"() {value = dense<3> : tensor<1xi32>} : () -> tensor<1xi32>
  // expected-error@+1 {{E-VALUE-101}}
  %0 = "sx.gather"(%x, %i) {axis = 0 : i64} : (tensor<3xf32>, tensor<1xi32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
