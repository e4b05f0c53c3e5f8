"""The codes of the compiler itself: modules that do not parse or verify."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry("E-IR-001", "not a module",
          "The text is not valid MLIR: it does not parse, names an operation or attribute that does not exist, or "
          "breaks a rule of an operation.",
          "module { \"sx.foo\"() : () -> () }"),
    Entry("E-IR-002", "a module that does not verify",
          "An operation breaks a rule of its dialect. When a pass of the compiler made the module this is a fault "
          "of the compiler, and worth a report."),
    Entry("E-IR-003", "not a pass pipeline",
          "The text names a pass that does not exist or is not written as `builtin.module(pass,pass{option=1})`.",
          "builtin.module(canonicalise)"),
    Entry("E-IR-004", "a pass failed",
          "A pass of MLIR gave up on the module; what it reported is below."),
)  # fmt: skip
