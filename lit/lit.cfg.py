"""Configuration of the lit tests: `lit lit` runs them with the tools of the interpreter that runs lit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import lit.formats
import llvm

HERE = Path(__file__).resolve().parent
TOOLS = (Path(sys.executable).parent, Path(next(iter(llvm.__path__))) / "bin")  # sexpgpu-opt; FileCheck, not

config.name = "sexpgpu"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".sx"]
config.excludes = ["inputs"]
config.test_source_root = str(HERE)
config.test_exec_root = str(HERE / "Output")
config.environment["PATH"] = os.pathsep.join((*map(str, TOOLS), config.environment["PATH"]))
config.environment["PYTHONPATH"] = str(HERE.parent)
config.environment["NO_COLOR"] = "1"
config.substitutions.append(("%examples", str(HERE.parent / "examples")))
