// RUN: sexpgpu-opt %s --sx-raise --split-input-file | FileCheck %s

// Scaled scores, a mask of positions by `where`, and keys that were turned for the product.
// CHECK-LABEL: func.func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x8x4xf32>, %[[K:[^:]*]]: tensor<1x2x8x4xf32>, %[[V:[^:]*]]: tensor<1x2x8x4xf32>
// CHECK-NEXT: %[[Y:.*]]:2 = "sx.attention"(%[[Q]], %[[K]], %[[V]])
// CHECK-SAME: {causal = true, rounded = false, scale = 5.000000e-01 : f64, sx.as = "scale on the scores, mask by where, causal", window = 0 : i64}
// CHECK-NEXT: return %[[Y]]#0
func.func @causal(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %t = "sx.transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x8xf32>
  %p = "sx.matmul"(%q, %t) : (tensor<1x2x8x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x8x8xf32>
  %c = "sx.constant"() {value = dense<0.5> : tensor<1x2x8x8xf32>} : () -> tensor<1x2x8x8xf32>
  %s = "sx.mul"(%p, %c) : (tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %i = "sx.iota"() {axis = 0 : i64, dtype = i32, shape = array<i64: 8, 8>} : () -> tensor<8x8xi32>
  %j = "sx.iota"() {axis = 1 : i64, dtype = i32, shape = array<i64: 8, 8>} : () -> tensor<8x8xi32>
  %m = "sx.ge"(%i, %j) : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
  %b = "sx.broadcast"(%m) {shape = array<i64: 1, 2, 8, 8>} : (tensor<8x8xi1>) -> tensor<1x2x8x8xi1>
  %n = "sx.constant"() {value = dense<0xFF800000> : tensor<1x2x8x8xf32>} : () -> tensor<1x2x8x8xf32>
  %h = "sx.where"(%b, %s, %n) : (tensor<1x2x8x8xi1>, tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %w = "sx.softmax"(%h) {axis = 3 : i64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %y = "sx.matmul"(%w, %v) : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  return %y : tensor<1x2x8x4xf32>
}

// -----

// Another diagonal: a row sees one key ahead.
// CHECK-LABEL: func.func @one_ahead(
// CHECK: "sx.matmul"(%{{.*}}) {sx.fell_back = "attention: a mask whose diagonal is neither causal nor a window"}
func.func @one_ahead(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %t = "sx.transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x8xf32>
  %p = "sx.matmul"(%q, %t) : (tensor<1x2x8x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x8x8xf32>
  %i = "sx.iota"() {axis = 0 : i64, dtype = i32, shape = array<i64: 8, 8>} : () -> tensor<8x8xi32>
  %one = "sx.constant"() {value = dense<1> : tensor<8x8xi32>} : () -> tensor<8x8xi32>
  %k1 = "sx.add"(%i, %one) : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi32>
  %j = "sx.iota"() {axis = 1 : i64, dtype = i32, shape = array<i64: 8, 8>} : () -> tensor<8x8xi32>
  %m = "sx.ge"(%k1, %j) : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
  %b = "sx.broadcast"(%m) {shape = array<i64: 1, 2, 8, 8>} : (tensor<8x8xi1>) -> tensor<1x2x8x8xi1>
  %n = "sx.constant"() {value = dense<0xFF800000> : tensor<1x2x8x8xf32>} : () -> tensor<1x2x8x8xf32>
  %h = "sx.where"(%b, %p, %n) : (tensor<1x2x8x8xi1>, tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %w = "sx.softmax"(%h) {axis = 3 : i64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %y = "sx.matmul"(%w, %v) : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  return %y : tensor<1x2x8x4xf32>
}

// -----

// Under bf16 the casts around the softmax are part of it; a bias that is added is an operand, without its repetition.
// CHECK-LABEL: func.func @biased(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x8x4xbf16>, %[[K:[^:]*]]: tensor<1x2x8x4xbf16>, %[[V:[^:]*]]: tensor<1x2x8x4xbf16>
// CHECK-SAME: %[[B:[^:]*]]: tensor<2x1x8xf32>
// CHECK-NEXT: %[[R:.*]] = "sx.reshape"(%[[B]]) {shape = array<i64: 1, 2, 1, 8>}
// CHECK-NEXT: %[[Y:.*]]:2 = "sx.attention_biased"(%[[Q]], %[[K]], %[[V]], %[[R]])
// CHECK-SAME: rounded = true
// CHECK-NEXT: return %[[Y]]#0
func.func @biased(%q: tensor<1x2x8x4xbf16>, %k: tensor<1x2x8x4xbf16>, %v: tensor<1x2x8x4xbf16>, %bias: tensor<2x1x8xf32>) -> tensor<1x2x8x4xbf16> {
  %t = "sx.transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x8x4xbf16>) -> tensor<1x2x4x8xbf16>
  %p = "sx.matmul"(%q, %t) : (tensor<1x2x8x4xbf16>, tensor<1x2x4x8xbf16>) -> tensor<1x2x8x8xbf16>
  %s = "sx.cast"(%p) {dtype = f32, sx.policy} : (tensor<1x2x8x8xbf16>) -> tensor<1x2x8x8xf32>
  %b = "sx.broadcast"(%bias) {shape = array<i64: 1, 2, 8, 8>} : (tensor<2x1x8xf32>) -> tensor<1x2x8x8xf32>
  %h = "sx.add"(%s, %b) : (tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %w = "sx.softmax"(%h) {axis = 3 : i64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %n = "sx.cast"(%w) {dtype = bf16, sx.policy} : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xbf16>
  %y = "sx.matmul"(%n, %v) : (tensor<1x2x8x8xbf16>, tensor<1x2x8x4xbf16>) -> tensor<1x2x8x4xbf16>
  return %y : tensor<1x2x8x4xbf16>
}

// -----

// Two heads of keys for four of queries, and a scale on the queries before their heads were cut out.
// CHECK-LABEL: func.func @grouped(
// CHECK-SAME: %[[X:[^:]*]]: tensor<1x8x16xf32>, %[[K:[^:]*]]: tensor<1x2x8x4xf32>
// CHECK-NEXT: %[[R:.*]] = "sx.reshape"(%[[X]])
// CHECK-NEXT: %[[Q:.*]] = "sx.transpose"(%[[R]])
// CHECK-NEXT: "sx.attention"(%[[Q]], %[[K]], %[[K]]) {causal = false, rounded = false, scale = 2.500000e-01 : f64
// CHECK-SAME: sx.as = "scale on q, 2 heads for 4"
func.func @grouped(%x: tensor<1x8x16xf32>, %k: tensor<1x2x8x4xf32>) -> tensor<1x4x8x4xf32> {
  %c = "sx.constant"() {value = dense<0.25> : tensor<1x8x16xf32>} : () -> tensor<1x8x16xf32>
  %s = "sx.mul"(%x, %c) : (tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
  %r = "sx.reshape"(%s) {shape = array<i64: 1, 8, 4, 4>} : (tensor<1x8x16xf32>) -> tensor<1x8x4x4xf32>
  %q = "sx.transpose"(%r) {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x8x4x4xf32>) -> tensor<1x4x8x4xf32>
  %a = "sx.reshape"(%k) {shape = array<i64: 1, 2, 1, 8, 4>} : (tensor<1x2x8x4xf32>) -> tensor<1x2x1x8x4xf32>
  %b = "sx.broadcast"(%a) {shape = array<i64: 1, 2, 2, 8, 4>} : (tensor<1x2x1x8x4xf32>) -> tensor<1x2x2x8x4xf32>
  %f = "sx.reshape"(%b) {shape = array<i64: 1, 4, 8, 4>} : (tensor<1x2x2x8x4xf32>) -> tensor<1x4x8x4xf32>
  %t = "sx.transpose"(%f) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x4x8x4xf32>) -> tensor<1x4x4x8xf32>
  %p = "sx.matmul"(%q, %t) : (tensor<1x4x8x4xf32>, tensor<1x4x4x8xf32>) -> tensor<1x4x8x8xf32>
  %w = "sx.softmax"(%p) {axis = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %y = "sx.matmul"(%w, %f) : (tensor<1x4x8x8xf32>, tensor<1x4x8x4xf32>) -> tensor<1x4x8x4xf32>
  return %y : tensor<1x4x8x4xf32>
}
