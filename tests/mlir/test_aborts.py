"""What ends a process that uses the MLIR bindings directly, and what our context makes of the same situation.

Each case runs twice in a process of its own: the bare bindings end it by a signal, which shows that the guard
guards against something; through `sexpgpu.dialects.context` it ends well and says what the case expects.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BARE = """
from mlir import ir
from mlir.passmanager import PassManager
from mlir._mlir_libs._mlirDialectsIRDL import load_dialects
DIALECT = '''irdl.dialect @own {
  irdl.operation @make { %r = irdl.any irdl.results(r: %r) }
  irdl.operation @take { %a = irdl.any irdl.operands(a: %a) }
}'''
"""

OURS = """
from mlir import ir
from mlir.passmanager import PassManager
from sexpgpu.diag import SxError
from sexpgpu.dialects.builder import Builder
from sexpgpu.dialects.context import open_context, operations
from sexpgpu.dialects.opdef import parse_type
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.sx import irdl_text
"""

CASES = {
    "exit with a context entered": (
        """
        ir.Context().__enter__()
        """,
        """
        opened = open_context()
        context = opened.__enter__()
        print(context.type(parse_type("f32[2]")))
        raise SystemExit(0)  # never closed: the context is not entered, so nothing is left open
        """,
        "tensor<2xf32>",
    ),
    "exit with a location entered": (
        """
        context = ir.Context()
        ir.Location.unknown(context).__enter__()
        """,
        """
        opened = open_context()
        context = opened.__enter__()
        print(context.location(None, "model.wte"))
        """,
        'loc(fused<"model.wte">[unknown])',
    ),
    "an error reported by a pass that succeeds": (
        """
        context = ir.Context()
        module = ir.Module.parse("module {}", context)
        passes = PassManager("builtin.module", context)
        passes.add(lambda op, run: op.location.emit_error("only said"))
        passes.run(module.operation)
        """,
        """
        with open_context() as context:
            module = context.parse_module("module {}", "m.mlir")
            passes = PassManager("builtin.module", context.mlir)
            passes.add(lambda op, run: op.location.emit_error("only said"))
            passes.run(module.operation)
            print([report.text for report in context.reports])
        """,
        "['only said']",
    ),
    "a dialect loaded twice": (
        """
        context = ir.Context()
        module = ir.Module.parse(DIALECT, context)
        load_dialects(module)
        load_dialects(module)
        """,
        """
        for _ in range(3):
            with open_context() as context:
                print("opened")
        """,
        "opened\nopened\nopened",
    ),
    "an operation of a dialect that is not loaded": (
        """
        context = ir.Context()
        ir.Operation.create("own.make", loc=ir.Location.unknown(context))
        """,
        """
        with open_context() as context:
            module = context.parse_module("module {}", "m.mlir")
            b = Builder(context, ir.InsertionPoint(module.body))
            try:
                b("nothing")
            except KeyError as unknown:
                print("KeyError", unknown)
            try:
                context.parse_module('"own.make"() : () -> ()', "m.mlir")
            except SxError as failure:
                print(failure.diagnostic.code)
        """,
        "KeyError 'nothing'\nE-IR-001",
    ),
    "an erasure while uses remain": (
        """
        context = ir.Context()
        load_dialects(ir.Module.parse(DIALECT, context))
        module = ir.Module.parse('%0 = "own.make"() : () -> i32 "own.take"(%0) : (i32) -> ()', context)
        module.body.operations[0].erase()
        """,
        """
        with open_context() as context:
            module = context.parse_module("module {}", "m.mlir")
            b = Builder(context, ir.InsertionPoint(module.body))
            x = b.constant(1, parse_type("f32[2]"))
            -x
            try:
                context.erase(x.value.owner)
            except ValueError as refusal:
                print(refusal)
        """,
        "sx.constant is erased while its results are used",
    ),
    "a choice among anything in a definition": (
        """
        context = ir.Context()
        body = '%a = irdl.base "!builtin.integer" %b = irdl.any %c = irdl.any_of(%a, %b) irdl.operands(x: %c)'
        load_dialects(ir.Module.parse(f"irdl.dialect @own {{ irdl.operation @op {{ {body} }} }}", context))
        """,
        """
        with open_context() as context:
            operation = '"sx.neg"(%x) : (tensor<2xf32>) -> tensor<2xf32>'
            text = f"func.func @f(%x: tensor<2xf32>) {{ {operation} return }}"
            module = context.parse_module(text, "m.mlir")
            print("any_of" in irdl_text(OPS), [op.name for op in operations(module.operation)])
        """,
        "False ['func.func', 'sx.neg', 'func.return']",
    ),
}


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("case", CASES)
def test_the_bare_bindings_end_the_process(case: str) -> None:
    bare, _, _ = CASES[case]
    ended = run(BARE + textwrap.dedent(bare))
    assert ended.returncode < 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("case", CASES)
def test_our_context_survives(case: str) -> None:
    _, ours, wanted = CASES[case]
    ended = run(OURS + textwrap.dedent(ours))
    assert (ended.returncode, ended.stdout.strip()) == (0, wanted), ended.stderr


def test_an_interruption_inside_a_walk_keeps_its_type() -> None:
    """The bindings turn an exception of a walk's callback into RuntimeError; a list lets it through."""
    program = """
    with open_context() as context:
        module = context.parse_module("func.func private @f()", "m.mlir")
        def stop(op):
            raise KeyboardInterrupt
        for walk in (module.operation.walk, lambda visit: [visit(op) for op in operations(module.operation)]):
            try:
                walk(stop)
            except BaseException as raised:
                print(type(raised).__name__)
    """
    ended = run(OURS + textwrap.dedent(program))
    assert ended.stdout.split() == ["RuntimeError", "KeyboardInterrupt"], ended.stderr


def test_an_operation_held_across_a_pass() -> None:
    """After a pass in place, what was held reads freed memory: it dies, or shows what lies there now."""
    bare = """
    context = ir.Context()
    module = ir.Module.parse("func.func @f() { %0 = arith.constant 1 : i32 return }", context)
    op = module.body.operations[0].regions[0].blocks[0].operations[0].operation
    PassManager.parse("builtin.module(canonicalize)", context).run(module.operation)
    text = "func.func @g() { %0 = arith.constant 2.5 : f64 return }"
    others = [ir.Module.parse(text, context) for _ in range(100)]
    print(op)
    """
    ended = run(BARE + textwrap.dedent(bare))
    assert ended.returncode < 0 or "arith.constant 1" not in ended.stdout
    ours = """
    with open_context() as context:
        module = context.parse_module("func.func @f() { %0 = arith.constant 1 : i32 return }", "m.mlir")
        op = operations(module.operation)[1]
        after = context.run_pipeline(module, "builtin.module(canonicalize)")
        text = "func.func @g() { %0 = arith.constant 2.5 : f64 return }"
        others = [context.parse_module(text, "g.mlir") for _ in range(100)]
        print(op.name, op.results[0].type, "constant" in str(after))
    """
    ended = run(OURS + textwrap.dedent(ours))
    assert ended.stdout.split() == ["arith.constant", "i32", "False"], ended.stderr
