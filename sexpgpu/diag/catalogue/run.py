"""The codes of data, runs, checkpoints, devices and input/output."""

from sexpgpu.diag.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
