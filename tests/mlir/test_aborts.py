"""What ends a process that uses the MLIR bindings directly, and what our context makes of the same situation.

Each case runs twice in a process of its own: the bare bindings end it by a signal, which shows that the guard guards
against something; through `sexpgpu.dialects.context` it ends well and says what the case expects.
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
from sexpgpu.diag import SxError
from sexpgpu.dialects.builder import Builder
from sexpgpu.dialects.context import open_context, operations
from sexpgpu.dialects.opdef import parse_type
"""

# Inlining through a cycle reports an error and the pass goes on to succeed.
QUIET_ERROR = """
TEXT = '''func.func @f(%x: memref<?xf32>) {
  affine.for %i = 0 to 4 { "affine.store"(%x) : (memref<?xf32>) -> () }
  return
}'''
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
