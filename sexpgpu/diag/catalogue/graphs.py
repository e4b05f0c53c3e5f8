"""The codes of tensors, models, optimizers and traced graphs."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
