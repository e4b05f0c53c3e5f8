"""Every code a user can meet, with its long form; one module a part of the product.

`ENTRIES` maps a code to its entry. Families and who raises them: the language (`language`) and its standard
library (`library`), tensors, models and optimizers (`graphs`), data, runs and checkpoints (`run`), the compiler
itself (`compiler`), devices beside the CPU (`device`), the simulated GPU (`simulator`).
"""

from sexpgpu.diag.catalogue import compiler, device, graphs, language, library, run, simulator
from sexpgpu.diag.catalogue.entry import Entry

ENTRIES: dict[str, Entry] = {
    entry.code: entry
    for module in (language, library, graphs, run, compiler, device, simulator)
    for entry in module.ENTRIES
}

__all__ = ["ENTRIES", "Entry"]
