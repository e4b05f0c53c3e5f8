"""The one module that owns MLIR contexts, and the only way to a parsed, verified or transformed module.

The bindings end the process on several misuses: an error diagnostic of a pass that succeeds, a context or
location still entered at exit, an operation of an unloaded dialect, an erasure while uses remain, a value
touched after its operation is gone. What guards against each is here:

* a context is opened by `open_context` alone, loads the dialects that operations are made of, collects every
  diagnostic, runs on one thread, and is never *entered*: pass `loc` and `ip`, or `context=ctx.mlir`, explicitly;
* upstream passes run on a clone (`run_pipeline`), so values held from before stay valid, or in place on a module
  that was made for them and that nobody holds values of (`lower`);
* `erase` refuses while a result is used; `operations` collects before anything is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from attrs import define, evolve, field, frozen
from mlir import ir
from mlir._mlir_libs import _mlir as _bindings
from mlir._mlir_libs._mlirDialectsIRDL import load_dialects
from mlir.passmanager import PassManager

from sexpgpu.diag import Note, Span, SxError, error
from sexpgpu.dialects import attributes, locations
from sexpgpu.dialects.attributes import from_mlir, to_mlir
from sexpgpu.dialects.locations import path_of, span_of
from sexpgpu.dialects.opdef import AttrType
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.sx import irdl_text
from sexpgpu.tensortype import TensorType

__all__ = ["Context", "Report", "from_mlir", "open_context", "operations", "path_of", "span_of", "to_mlir"]

Result = TypeVar("Result")
MOST_ELEMENTS = 1 << 48  # MLIR itself ends the process, or its bindings raise, somewhere above 2^62
WRITTEN = ("func", "arith", "math", "scf", "vector", "gpu", "llvm", "nvvm")
"""Upstream's dialects whose operations are written here. Others are loaded by a text or a pass that names them: with
all of them a context takes twice as long to open, and passes that collect the patterns of every operation longer.
"""
_NAMELESS = "-"
_INEXACT = frozenset({"float", "floats", "number"})  # as keys, 0.0 and -0.0 would be one

_bindings.globals.append_dialect_search_prefix("sexpgpu.dialects")


@frozen
class Report:
    """A diagnostic of MLIR: its text, its notes and where it points."""

    text: str
    span: Span | None
    notes: tuple[str, ...] = ()

    def within(self, filename: str) -> Report:
        """The report about a text that came from a file, for which the parser itself has no name."""
        if self.span is None or self.span.file != _NAMELESS:
            return self
        return evolve(self, span=evolve(self.span, file=filename))


@define(eq=False)
class Context:
    """An MLIR context with the dialect loaded, what it reported, and caches of what was made in it."""

    mlir: ir.Context
    reports: list[Report] = field(factory=list)
    types: dict[TensorType, ir.Type] = field(factory=dict)
    attributes: dict[tuple[object, ...], ir.Attribute] = field(factory=dict)
    locations: dict[tuple[Span | None, str], ir.Location] = field(factory=dict)
    found: dict[tuple[ir.Module, str], Any] = field(factory=dict)
    """What the last pass found out about a function, by module and symbol; whatever changes a module empties it."""

    def type(self, type: TensorType) -> ir.Type:
        """The `tensor<...>` of a TensorType."""
        found = self.types.get(type)
        if found is None:
            if max(type.shape, default=0) > MOST_ELEMENTS or type.size > MOST_ELEMENTS:
                raise error(
                    "E-SHAPE-005",
                    "a tensor has more elements than any machine has memory for",
                    expected="at most 2^48 elements",
                    actual=str(type),
                )
            found = self.types[type] = attributes.to_mlir(type, self.mlir)
        return found

    def attribute(self, kind: AttrType, value: Any) -> ir.Attribute:
        """The attribute that holds `value`, built once; an array is not kept."""
        if kind == "tensor":
            if not value.is_splat:
                return attributes.encode_dense(value, self.type(value.type), self.mlir)
            key: tuple[object, ...] = (value.type, repr(value.data))
        elif kind in _INEXACT:
            key = (kind, repr(value))
        else:
            key = (kind, value)
        found = self.attributes.get(key)
        if found is None:
            if kind == "tensor":
                found = attributes.encode_dense(value, self.type(value.type), self.mlir)
            else:
                found = attributes.encode(kind, value, self.mlir)
            self.attributes[key] = found
        return found

    def location(self, span: Span | None, path: str = "") -> ir.Location:
        """`fused<"model.path">["f.sx":l:c to l:c]`; no path gives the plain place, no span an unknown one."""
        key = (span, path)
        found = self.locations.get(key)
        if found is None:
            found = self.locations[key] = locations.encode(span, path, self.mlir)
        return found

    def parse_module(self, text: str, filename: str) -> ir.Module:
        """The module that `text` says, verified. Raises E-IR-001 with the place in `filename`."""
        try:
            return self._checked(lambda: ir.Module.parse(text, self.mlir))
        except _Failed as failure:
            reports = [report.within(filename) for report in failure.reports]
            raise _error("E-IR-001", "the text is not a valid module", reports) from None

    def verify(self, module: ir.Module) -> None:
        """Raises E-IR-002 when MLIR's own rules are broken (the dialect's are `read.check_op`)."""
        try:
            self._checked(module.operation.verify)
        except _Failed as failure:
            raise _error("E-IR-002", "the module does not verify", failure.reports) from None

    def run_pipeline(self, module: ir.Module, pipeline: str) -> ir.Module:
        """A new module: `module` after the upstream passes of `pipeline`, `builtin.module(canonicalize,cse)`.

        `module` itself is left as it was. Raises E-IR-003 for a pipeline that does not parse, E-IR-004 when a
        pass fails. What a pass reported without failing is in `reports`.
        """
        passes = self._passes(pipeline)
        clone = self.clone(module)
        self._run(passes, clone, pipeline)
        return clone

    def lower(self, module: ir.Module, pipeline: str) -> None:
        """`run_pipeline` in place, for a module of which nobody holds operations or values.

        The module is verified before the first pass and behind the last one: between them it takes a fourth of the time
        to lower kernels.
        """
        passes = self._passes(pipeline)
        passes.enable_verifier(False)
        self.verify(module)
        self._run(passes, module, pipeline)
        self.verify(module)

    def _passes(self, pipeline: str) -> PassManager:
        try:
            return self._checked(lambda: PassManager.parse(pipeline, self.mlir))
        except _Failed as failure:
            raise _error("E-IR-003", f"not a pass pipeline: {pipeline}", failure.reports) from None

    def _run(self, passes: PassManager, module: ir.Module, pipeline: str) -> None:
        try:
            self._checked(lambda: passes.run(module.operation))
        except _Failed as failure:
            raise _error("E-IR-004", f"a pass of {pipeline} failed", failure.reports) from None

    def clone(self, module: ir.Module) -> ir.Module:
        """An independent copy of the module."""
        copy = ir.Module.create(loc=module.operation.location)
        for name, attribute in module.operation.attributes.items():
            copy.operation.attributes[name] = attribute
        point = ir.InsertionPoint(copy.body)
        for op in module.body.operations:
            op.operation.clone(point)
        return copy

    def erase(self, op: ir.Operation) -> None:
        """Erases an operation nobody uses. Raises ValueError (a fault of ours) while a result has uses."""
        if any(True for result in op.results for _ in result.uses):
            raise ValueError(f"{op.name} is erased while its results are used")
        op.erase()

    def _checked(self, action: Callable[[], Result]) -> Result:
        start = len(self.reports)
        try:
            return action()
        except (ir.MLIRError, ValueError) as failure:
            reports = self.reports[start:] or [Report(str(failure), None)]
            del self.reports[start:]
            raise _Failed(reports) from failure


def _error(code: str, message: str, reports: list[Report]) -> SxError:
    first, *rest = reports
    notes = [Note(text) for text in first.notes] + [Note(report.text, report.span) for report in rest]
    return error(code, message, first.span, actual=first.text, notes=notes)


class _Failed(Exception):
    """An action of MLIR failed; what it reported."""

    def __init__(self, reports: list[Report]) -> None:
        super().__init__(reports[0].text)
        self.reports = reports


@contextmanager
def open_context() -> Iterator[Context]:
    """A context with the dialect loaded, closed with the block; nothing made in it may be used afterwards."""
    mlir = ir.Context(load_on_create_dialects=WRITTEN)
    # A pass on another thread would call the diagnostic handler while this thread holds the interpreter lock.
    mlir.enable_multithreading(False)
    reports: list[Report] = []

    def collect(diagnostic: ir.Diagnostic) -> bool:
        # A diagnostic dies when this returns, so its texts are copied; True keeps it from standard error.
        notes = tuple(note.message for note in diagnostic.notes)
        reports.append(Report(diagnostic.message, locations.span_of(diagnostic.location), notes))
        return True

    # Left to the bindings, an error that no failure follows would abort the process.
    mlir.emit_error_diagnostics = True
    handler = mlir.attach_diagnostic_handler(collect)
    try:
        load_dialects(ir.Module.parse(irdl_text(OPS), mlir))
        yield Context(mlir, reports)
    finally:
        handler.detach()
        attributes.forget()
        locations.forget()


def operations(root: ir.Operation) -> list[ir.Operation]:
    """Every operation inside `root`, outermost first; a list, so the caller may change them or raise."""
    found: list[ir.Operation] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(collect, ir.WalkOrder.PRE_ORDER)
    return found[1:]
