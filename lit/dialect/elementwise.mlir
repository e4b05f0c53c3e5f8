// RUN: sexpgpu-opt %s | FileCheck %s
// RUN: sexpgpu-opt %s | sexpgpu-opt - | FileCheck %s

// Every operation of dialects/elementwise.py parses, verifies and prints as it was: elementwise operations.

// CHECK-LABEL: @neg(
func.func @neg(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.neg"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.neg"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @abs(
func.func @abs(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.abs"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.abs"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @sign(
func.func @sign(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.sign"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.sign"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @exp(
func.func @exp(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.exp"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.exp"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @expm1(
func.func @expm1(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.expm1"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.expm1"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @log(
func.func @log(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.log"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.log"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @log1p(
func.func @log1p(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.log1p"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.log1p"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @sqrt(
func.func @sqrt(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.sqrt"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.sqrt"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @rsqrt(
func.func @rsqrt(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.rsqrt"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.rsqrt"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @sin(
func.func @sin(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.sin"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.sin"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @cos(
func.func @cos(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.cos"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.cos"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @tanh(
func.func @tanh(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.tanh"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.tanh"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @sigmoid(
func.func @sigmoid(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.sigmoid"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.sigmoid"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @erf(
func.func @erf(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.erf"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.erf"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @floor(
func.func @floor(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.floor"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.floor"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @ceil(
func.func @ceil(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.ceil"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.ceil"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @round(
func.func @round(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.round"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.round"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @logical_not(
func.func @logical_not(%x: tensor<2x3xi1>) -> tensor<2x3xi1> {
  // CHECK: "sx.logical_not"({{.*}}) : (tensor<2x3xi1>) -> tensor<2x3xi1>
  %0 = "sx.logical_not"(%x) : (tensor<2x3xi1>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// CHECK-LABEL: @isfinite(
func.func @isfinite(%x: tensor<2x3xf64>) -> tensor<2x3xi1> {
  // CHECK: "sx.isfinite"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xi1>
  %0 = "sx.isfinite"(%x) : (tensor<2x3xf64>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// CHECK-LABEL: @relu(
func.func @relu(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.relu"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.relu"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @square(
func.func @square(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.square"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.square"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @reciprocal(
func.func @reciprocal(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.reciprocal"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.reciprocal"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @add(
func.func @add(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.add"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.add"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @sub(
func.func @sub(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.sub"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.sub"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @mul(
func.func @mul(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.mul"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.mul"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @div(
func.func @div(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.div"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.div"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @mod(
func.func @mod(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.mod"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.mod"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @pow(
func.func @pow(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.pow"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.pow"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @maximum(
func.func @maximum(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.maximum"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.maximum"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @minimum(
func.func @minimum(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.minimum"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.minimum"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @eq(
func.func @eq(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xi1> {
  // CHECK: "sx.eq"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  %0 = "sx.eq"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// CHECK-LABEL: @ne(
func.func @ne(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xi1> {
  // CHECK: "sx.ne"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  %0 = "sx.ne"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// CHECK-LABEL: @lt(
func.func @lt(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xi1> {
  // CHECK: "sx.lt"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  %0 = "sx.lt"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// CHECK-LABEL: @le(
func.func @le(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xi1> {
  // CHECK: "sx.le"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  %0 = "sx.le"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// CHECK-LABEL: @gt(
func.func @gt(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xi1> {
  // CHECK: "sx.gt"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  %0 = "sx.gt"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// CHECK-LABEL: @ge(
func.func @ge(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xi1> {
  // CHECK: "sx.ge"({{.*}}) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  %0 = "sx.ge"(%x, %y) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// CHECK-LABEL: @logical_and(
func.func @logical_and(%x: tensor<2x3xi1>, %y: tensor<2x3xi1>) -> tensor<2x3xi1> {
  // CHECK: "sx.logical_and"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  %0 = "sx.logical_and"(%x, %y) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// CHECK-LABEL: @logical_or(
func.func @logical_or(%x: tensor<2x3xi1>, %y: tensor<2x3xi1>) -> tensor<2x3xi1> {
  // CHECK: "sx.logical_or"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  %0 = "sx.logical_or"(%x, %y) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// CHECK-LABEL: @where(
func.func @where(%condition: tensor<2x3xi1>, %x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.where"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.where"(%condition, %x, %y) : (tensor<2x3xi1>, tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @cast(
func.func @cast(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.cast"({{.*}}) {dtype = f64} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.cast"(%x) {dtype = f64} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// CHECK-LABEL: @stop_gradient(
func.func @stop_gradient(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // CHECK: "sx.stop_gradient"({{.*}}) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %0 = "sx.stop_gradient"(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}
