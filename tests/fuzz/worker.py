"""Compiles cases one after the other and tells what came of each: a line of JSON on the standard output.

    python tests/fuzz/worker.py KIND FIRST LAST STRIDE

A process of its own, so that its memory can be bounded and a hang can be ended from outside.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, Final

from sexpgpu.diag import Diagnostics, render
from sexpgpu.diag.catalogue import ENTRIES
from sexpgpu.dialects.context import Context, open_context
from sexpgpu.driver.compile import Compilation, finish, new_session, trace_in
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.lang.session import Session
from tests.fuzz.cases import ROOT, case

MEMORY: Final = 6 << 30
"""Bytes of address space: the stack of deep recursion takes half a gibibyte of it, MLIR and NumPy some."""


def outcome(context: Context, session: Session, path: Path) -> dict[str, Any]:
    """Compile a file as `check` does: its codes, the CPU seconds it took, the growth of memory in MiB, any fault."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    fault = ""
    codes: list[str] = []
    try:
        done = run_deep(lambda: _compile(context, session, path))
        codes = [d.code for d in done.diagnostics]
        for diagnostic in list(done.diagnostics)[:20]:
            render(diagnostic, done.session.sources)
        unknown = sorted({code for code in codes if code not in ENTRIES})
        fault = f"codes that are not in the catalogue: {unknown}" if unknown else ""
    except BaseException:
        fault = traceback.format_exc()[-2000:]
    seconds = time.process_time() - begun
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    errors = sorted({code for code in codes if code[0] == "E"})
    return {"seconds": round(seconds, 3), "grown": grown, "codes": errors, "fault": fault}


def _compile(context: Context, session: Session, path: Path) -> Compilation:
    done = trace_in(context, session, path, Selection())
    finish(done, "check")
    return done


def main() -> None:
    kind, first, last, stride = sys.argv[1], *map(int, sys.argv[2:])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("error")
    gc.disable()  # as `check` does
    with tempfile.TemporaryDirectory() as folder, open_context() as context:
        os.symlink(ROOT / "examples" / "data", Path(folder, "data"))
        path = Path(folder, "case.sx")
        path.write_bytes(case("traced", 0))
        outcome(context, new_session(Diagnostics()), path)  # loads what every case needs
        session = new_session(Diagnostics())
        for number in range(first, last, stride):
            path.write_bytes(case(kind, number))
            _tell({"kind": kind, "number": number, "begun": True})
            child = os.fork()  # each case meets a fresh session, which would take longest to make
            if child == 0:
                _tell({"kind": kind, "number": number, **outcome(context, session, path)})
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            if status:
                sys.exit(f"a case ended its process: {status}")


def _tell(what: dict[str, Any]) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


if __name__ == "__main__":
    main()
