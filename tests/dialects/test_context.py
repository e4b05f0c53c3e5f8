"""The context and what goes through it: types, attributes, places, parsing, pipelines; and reading back."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlir import ir

from sexpgpu.diag import CallSite, Span, SxError
from sexpgpu.dialects import read
from sexpgpu.dialects.attributes import decode, encode
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import (
    Context,
    from_mlir,
    open_context,
    operations,
    path_of,
    span_of,
)
from sexpgpu.dialects.opdef import Dense, parse_type
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.sx import irdl_text
from sexpgpu.tensortype import DTYPES, TensorType

PAIR = """
func.func @pair(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "sx.neg"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "sx.neg"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (4, 1, 5)])
def test_types_go_there_and_back(context: Context, dtype: Any, shape: tuple[int, ...]) -> None:
    type = TensorType(shape, dtype)
    assert from_mlir(context.type(type)) == type
    assert parse_type(str(type)) == type


@pytest.mark.parametrize("text", ["i32", "tensor<?xf32>", "tensor<2xf16>", "tensor<*xf32>", "memref<2xf32>"])
def test_other_types_are_not_tensors_of_the_dialect(context: Context, text: str) -> None:
    with pytest.raises(ValueError, match="not a tensor of the dialect"):
        from_mlir(ir.Type.parse(text, context.mlir))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", -3),
        ("float", 0.1),
        ("float", -0.0),
        ("float", math.inf),
        ("bool", True),
        ("bool", False),
        ("str", 'a "b" \\ ü'),
        ("ints", ()),
        ("ints", (1, -2)),
        ("floats", (0.5, 1e300)),
        ("number", 2),
        ("number", 2.0),
        *(("dtype", dtype) for dtype in DTYPES),
    ],
)
def test_attributes_go_there_and_back(context: Context, kind: Any, value: Any) -> None:
    given = decode(kind, encode(kind, value, context.mlir))
    assert (given, type(given)) == (value, type(value))
    assert repr(given) == repr(value)


def test_equal_keys_do_not_mix_attributes(context: Context) -> None:
    for value in (0.0, -0.0, 0, 1, 1.0):
        assert repr(decode("number", context.attribute("number", value))) == repr(value)
    scalar = parse_type("f64[2]")
    for zero in (0.0, -0.0):
        assert math.copysign(1, decode("tensor", context.attribute("tensor", Dense(scalar, zero))).data) == (
            math.copysign(1, zero)
        )


def test_an_attribute_of_another_kind_is_refused(context: Context) -> None:
    for kind, text in (("ints", "1 : i64"), ("bool", "1 : i64"), ("dtype", "f16"), ("tensor", "1.0 : f32")):
        with pytest.raises(ValueError, match="not a"):
            decode(kind, ir.Attribute.parse(text, context.mlir))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [2, 500])
def test_bf16_constants_keep_every_value(context: Context, size: int) -> None:
    special = np.array([1, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 0.1], np.float32)
    value = Dense(parse_type(f"bf16[{size}, 8]"), np.tile(special, (size, 1)))
    attribute = context.attribute("tensor", value)
    given = decode("tensor", attribute)
    np.testing.assert_array_equal(given.data, round_bf16(value.array()))
    assert context.attribute("tensor", given) == attribute


SPANS = [
    (None, ""),
    (None, "model.wte"),
    (Span("f.sx", 3, 1, 3, 9), ""),
    (Span("dir/f x.sx", 3, 7, 5, 2), "model.blocks.0.attn.qkv"),
    (Span("name of bytes \udcff\udc80 and \u00fc.sx", 1, 1, 1, 2), "model.wte"),
    (Span('quote".sx', 1, 1, 1, 2), 'odd "path\\ ü'),
    (CallSite("f.sx", 3, 7, 5, 2, inside=Span("nn.sx", 8, 1, 9, 2)), ""),
    (CallSite("f.sx", 3, 7, 5, 2, inside=Span("nn.sx", 8, 1, 9, 2)), "model.embed"),
]


@pytest.mark.parametrize(("span", "path"), SPANS)
def test_places_go_there_and_back(context: Context, span: Span | None, path: str) -> None:
    location = context.location(span, path)
    assert (span_of(location), path_of(location)) == (span, path)
    module = ir.Module.parse(f"module {{}} {location}", context.mlir)
    assert (span_of(module.operation.location), path_of(module.operation.location)) == (span, path)


def test_places_inside_other_places(context: Context) -> None:
    first, second = (context.location(Span("f.sx", n, 1, n, 2), "model.a") for n in (1, 2))
    nowhere = context.location(None)
    assert span_of(ir.Location.fused([nowhere, second], context=context.mlir)) == Span("f.sx", 2, 1, 2, 2)
    assert span_of(ir.Location.name("n", first, context.mlir)) == Span("f.sx", 1, 1, 1, 2)
    assert span_of(ir.Location.callsite(first, [second], context.mlir)) == CallSite(
        "f.sx", 2, 1, 2, 2, inside=Span("f.sx", 1, 1, 1, 2)
    )


def test_the_builder_gives_each_operation_its_place(context: Context) -> None:
    module = context.parse_module("module {}", "m.mlir")
    b = Builder(context, ir.InsertionPoint(module.body))
    x = b.constant(1.5, parse_type("f32[2]"))
    b.location = context.location(Span("f.sx", 4, 2, 4, 9), "model.a")
    y = 3 - x * 2 / (x + 1)
    assert [read.op_name(op) for op in module.body.operations][-1] == "sub"
    assert path_of(y.value.owner.location) == "model.a"
    assert path_of(x.value.owner.location) == ""
    with b.at(ir.InsertionPoint.at_block_begin(module.body)):
        b("neg", b.constant(0, x.type))
    assert [read.op_name(op) for op in module.body.operations][:2] == ["constant", "neg"]
    assert isinstance(-y, Val)


def test_a_parse_error_has_its_code_and_place(context: Context) -> None:
    with pytest.raises(SxError, match="E-IR-001") as caught:
        context.parse_module('module {\n  "sx.nothing"() : () -> ()\n}', "bad.mlir")
    found = caught.value.diagnostic
    assert found.span is not None
    assert (found.span.file, found.span.line) == ("bad.mlir", 2)
    assert "sx.nothing" in str(found.actual)


def test_a_place_written_in_the_text_is_kept(context: Context) -> None:
    text = 'func.func @f() -> i32 { return loc("f.sx":7:3) }'
    with pytest.raises(SxError, match="E-IR-001") as caught:
        context.parse_module(text, "bad.mlir")
    assert str(caught.value.diagnostic.span) == "f.sx:7:3"


def test_a_constant_has_the_shape_of_its_type() -> None:
    with pytest.raises(ValueError, match="no constant"):
        Dense(parse_type("f32[2, 3]"), np.zeros((3, 2)))


@pytest.mark.parametrize("text", ["module {", "\x01", "func.func", "%0", "ä" * 50, "#a", "// only a comment\n}"])
def test_rubbish_is_a_diagnostic(context: Context, text: str) -> None:
    with pytest.raises(SxError, match="E-IR-001"):
        context.parse_module(text, "rubbish.mlir")


def test_a_pipeline_leaves_its_module_alone(context: Context) -> None:
    module = context.parse_module(PAIR, "pair.mlir")
    before = str(module)
    kept = [op.operation for op in operations(module.operation)]
    after = context.run_pipeline(module, "builtin.module(symbol-privatize{exclude=none},symbol-dce)")
    assert "pair" not in str(after)
    assert str(module) == before
    assert [op.name for op in kept] == ["func.func", "sx.neg", "sx.neg", "func.return"]


def test_lowering_changes_the_module_itself_and_verifies_it(context: Context) -> None:
    module = context.parse_module(PAIR, "pair.mlir")
    context.lower(module, "builtin.module(symbol-privatize{exclude=none},symbol-dce)")
    assert "pair" not in str(module)
    broken = context.parse_module(PAIR, "pair.mlir")
    broken.body.operations[0].operation.attributes["sym_name"] = ir.UnitAttr.get(context.mlir)
    with pytest.raises(SxError, match="E-IR-002"):
        context.lower(broken, "builtin.module(symbol-dce)")


def test_a_pipeline_that_is_none_is_a_diagnostic(context: Context) -> None:
    module = context.parse_module(PAIR, "pair.mlir")
    with pytest.raises(SxError, match="E-IR-003") as caught:
        context.run_pipeline(module, "builtin.module(nothing)")
    assert "nothing" in str(caught.value.diagnostic.actual)


def test_a_module_that_does_not_verify_is_a_diagnostic(context: Context) -> None:
    module = context.parse_module(PAIR, "pair.mlir")
    func = module.body.operations[0]
    func.operation.attributes["sym_name"] = ir.UnitAttr.get(context.mlir)
    with pytest.raises(SxError, match="E-IR-002"):
        context.verify(module)


def test_operations_are_collected_outermost_first(context: Context) -> None:
    module = context.parse_module(PAIR, "pair.mlir")
    assert [read.op_name(op) for op in operations(module.operation)] == [
        "func.func",
        "neg",
        "neg",
        "func.return",
    ]


def test_erase_refuses_what_is_used(context: Context) -> None:
    module = context.parse_module(PAIR, "pair.mlir")
    used, unused = (op for op in operations(module.operation) if op.name == "sx.neg")
    with pytest.raises(ValueError, match="while its results are used"):
        context.erase(used)
    context.erase(unused)
    assert str(module).count("sx.neg") == 1


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ('"sx.exp"(%x) : (tensor<2xf32>) -> tensor<3xf32>', "exp gives f32[2], but the module says f32[3]"),
        ('"sx.exp"(%x) : (tensor<2xf32>) -> tensor<2xf64>', "exp gives f32[2], but the module says f64[2]"),
        ('"sx.sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<2xf32>) -> tensor<2xf32>', "axis 1"),
        ('"sx.exp"(%x) : (tensor<2xf32>) -> i32', "not a tensor of the dialect"),
        ('"sx.cast"(%x) {dtype = f16} : (tensor<2xf32>) -> tensor<2xf16>', "not an attribute of kind dtype"),
    ],
)
def test_check_op_says_what_the_table_thinks(context: Context, operation: str, said: str) -> None:
    module = context.parse_module(f"func.func @f(%x: tensor<2xf32>) {{ %0 = {operation} return }}", "wrong.mlir")
    wrong = next(op for op in operations(module.operation) if op.name.startswith("sx."))
    assert said in str(read.check_op(wrong))


def test_other_dialects_pass_the_check(context: Context) -> None:
    module = context.parse_module(PAIR, "pair.mlir")
    assert [read.check_op(op) for op in operations(module.operation)] == [None] * 4
    assert read.definition_of(module.operation) is None


def test_the_definition_covers_the_table() -> None:
    text = irdl_text(OPS)
    assert all(f"irdl.operation @{name} " in text for name in OPS)


def test_the_lit_tests_cover_the_table(root: Path) -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in (root / "lit" / "dialect").glob("*.mlir"))
    assert [name for name in OPS if f"CHECK-LABEL: @{name}(" not in texts] == []


def test_contexts_are_closed_and_forgotten() -> None:
    gc.collect()
    before = ir.Context._get_live_count()
    for _ in range(3):
        with open_context() as opened:
            module = opened.parse_module(PAIR, "pair.mlir")
            assert read.operand_types(module.body.operations[0].regions[0].blocks[0].operations[0])
            del module
        del opened
    gc.collect()
    assert ir.Context._get_live_count() == before


def test_two_contexts_at_once_do_not_mix() -> None:
    with open_context() as first:
        one = first.parse_module(PAIR, "pair.mlir")
        with open_context() as second:
            other = second.parse_module(PAIR, "pair.mlir")
            assert second.type(parse_type("f32[2]")) != first.type(parse_type("f32[2]"))
            assert read.check_op(operations(other.operation)[1]) is None
        assert read.check_op(operations(one.operation)[1]) is None
        with pytest.raises(SxError):
            first.parse_module("module {", "bad.mlir")
        assert first.reports == []


def test_the_package_has_one_name(root: Path) -> None:
    """From the top of the tree `import dialects` would make a second table; it is refused."""
    program = "import dialects"
    ended = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert "import this package as sexpgpu.dialects" in ended.stderr
