"""What is loaded ahead is what the bindings load: the same file, and nothing of Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import os, sys, threading
from sexpgpu.driver.preload import preload
preload()
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
mapped = lambda: {line.split()[-1] for line in open("/proc/self/maps") if "libMLIR" in line}
before = mapped()
assert not {"numpy", "mlir", "mlir.ir"} & set(sys.modules)
import mlir.ir
libraries = [file for file in mapped() if "PythonCAPI" in file]
print(len(before), before <= mapped(), len(libraries), os.environ["OPENBLAS_NUM_THREADS"])
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the files a process has mapped are listed on Linux")
def test_the_library_of_the_bindings_is_linked_before_they_are_imported() -> None:
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1", "True", "1", "1"]
    assert not ran.stderr
