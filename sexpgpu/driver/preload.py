"""The largest library is linked while Python still loads the modules that will ask for it."""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

from sexpgpu import knobs


def preload() -> None:
    """Begin to load what a check needs: MLIR on a thread beside this one, NumPy's linear algebra on no threads at all.

    Of the time that importing the bindings takes, the dynamic linker has most, and it needs no interpreter lock. A
    process that has NumPy already is past all this.
    """
    if "numpy" in sys.modules:
        return
    knobs.limit_threads(1)
    package = find_spec("mlir")
    for folder in (package and package.submodule_search_locations) or ():
        library = Path(folder) / "_mlir_libs" / "libMLIRPythonCAPI.so"
        Thread(target=_link, args=(os.fsencode(library),), daemon=True).start()


def _link(library: bytes) -> None:
    # `ctypes.CDLL(library)` would hold the interpreter lock. Whoever imports the bindings is told what is wrong here.
    ctypes.CDLL(None).dlopen(library, os.RTLD_NOW)
