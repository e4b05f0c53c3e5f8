"""What does not fit into memory ends with a code, wherever it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trace.experiments import write

KIBIBYTES = 6_000_000
"""Of address space: MLIR and the stack of deep recursion take some of it."""


@pytest.mark.parametrize("width", [10**9, 10**12])
def test_parameters_that_do_not_fit(width: int, tmp_path: Path) -> None:
    model = (
        f"(defmodel net () (defsub wide (linear 3 {width})) (defsub narrow (linear {width} 2))"
        " (forward (x) (narrow (tanh (wide x)))))"
    )
    write(tmp_path, model=model, eval="")
    run = f"ulimit -v {KIBIBYTES}; exec {sys.executable} -m sexpgpu run experiment.sx --out run --quiet --json"
    done = subprocess.run(["bash", "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1, done.stderr
    codes = [told["code"] for told in json.loads(done.stdout)["diagnostics"]]
    assert codes[-1] == "E-MEM-002"
    status = json.loads((tmp_path / "run/status.json").read_text("utf-8"))
    assert (status["state"], status["error"]["code"]) == ("failed", "E-MEM-002")
