"""From the indices of an operation back to the fields that they come from, through calls of every kind."""

from __future__ import annotations

import pytest

from sexpgpu.diag import Span
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.indices import index_fields
from sexpgpu.passes.base import functions

MODULE = """
func.func private @shift(%x: tensor<4xi32>, %y: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>)
    attributes {sx.group = "pointwise"} {
  %0 = "sx.add"(%x, %x) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %1 = "sx.neg"(%y) : (tensor<4xi32>) -> tensor<4xi32>
  return %0, %1 : tensor<4xi32>, tensor<4xi32>
}
func.func private @taken(%w: tensor<9x2xf32>, %i: tensor<4xi32>) -> tensor<4x2xf32> attributes {sx.group = "row"} {
  %0 = "sx.gather"(%w, %i) {axis = 0 : i64} : (tensor<9x2xf32>, tensor<4xi32>) -> tensor<4x2xf32> loc("f.sx":2:3 to 2:9)
  return %0 : tensor<4x2xf32>
}
func.func @train(
    %w: tensor<9x2xf32> {sx.param = "w"}, %a: tensor<4xi32> {sx.field = "a"}, %b: tensor<4xi32> {sx.field = "b"}
) -> tensor<4x2xf32> {
  %0, %1 = func.call @shift(%a, %b) : (tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>)
  %2 = "sx.gather"(%w, %1) {axis = 0 : i64} : (tensor<9x2xf32>, tensor<4xi32>) -> tensor<4x2xf32> loc("f.sx":1:3 to 1:9)
  %3 = func.call @taken(%w, %0) : (tensor<9x2xf32>, tensor<4xi32>) -> tensor<4x2xf32>
  %4 = "sx.argmax"(%2) {axis = 1 : i64, keepdims = false} : (tensor<4x2xf32>) -> tensor<4xi32>
  %5 = "sx.gather"(%w, %4) {axis = 0 : i64} : (tensor<9x2xf32>, tensor<4xi32>) -> tensor<4x2xf32>
    loc(callsite("nn.sx":7:1 to 7:5 at "f.sx":3:3 to 3:9))
  %6 = "sx.add"(%2, %3) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %7 = "sx.add"(%6, %5) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %7 : tensor<4x2xf32>
}
"""


@pytest.mark.parametrize(("line", "fields"), [(1, ("b",)), (2, ("a",)), (3, ()), (4, ())])
def test_fields_are_found_through_groups_and_not_through_a_choice(line: int, fields: tuple[str, ...]) -> None:
    """Line 3 takes what `argmax` chose: no number of a field is to blame for it."""
    with open_context() as context:
        module = context.parse_module(MODULE, "m.mlir")
        train = next(f for f in functions(module) if f.attributes["sym_name"].value == "train")
        assert index_fields(train, Span("f.sx", line, 3, line, 9)) == fields
