"""The codes of the compiler itself: modules that do not parse or verify."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
