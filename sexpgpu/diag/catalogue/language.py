"""The codes of the language: reading, names, arguments, types, values, macros, limits, modules, knobs."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
