"""How long a session takes to load the library: functions and prelude, then `sexpgpu/nn` and `sexpgpu/optim`.

Each of nine fresh processes measures itself, from when the compiler is imported: medians against the bound, of
processor time, since one thread does it all. Python's byte code is cached, as it is for whoever runs a program twice.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from itertools import pairwise

from bench.check_time import ROOT, RUNS

BOUND = 60.0
"""Milliseconds for everything that is loaded."""
STAGES = ("functions and prelude", "sexpgpu/nn", "sexpgpu/optim")


def stages() -> list[float]:
    """Milliseconds that each of `STAGES` takes in this process."""
    from sexpgpu.diag import Diagnostics
    from sexpgpu.driver.compile import new_session

    diagnostics = Diagnostics()
    seconds = [time.process_time()]
    session = new_session(diagnostics)
    seconds.append(time.process_time())
    for name in STAGES[1:]:
        session.evaluate_text(f'(require "{name}")')
        seconds.append(time.process_time())
    if len(diagnostics.records):
        raise AssertionError(diagnostics.records)
    return [1e3 * (b - a) for a, b in pairwise(seconds)]


def measure() -> list[list[float]]:
    """The stages of `RUNS` fresh processes; one more before them warms the file caches."""
    command = ["env", "-u", "PYTHONDONTWRITEBYTECODE", sys.executable, "-m", "bench.load_time", "--once"]
    runs = [subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True) for _ in range(RUNS + 1)]
    return [json.loads(run.stdout) for run in runs[1:]]


def main() -> int:
    if "--once" in sys.argv[1:]:
        print(json.dumps(stages()))
        return 0
    runs = measure()
    medians = [statistics.median(run[stage] for run in runs) for stage in range(len(STAGES))]
    total = statistics.median(map(sum, runs))
    passed = total < BOUND
    if "--json" in sys.argv[1:]:
        document = {"stages": dict(zip(STAGES, medians, strict=True)), "total": total, "bound": BOUND, "passed": passed}
        print(json.dumps(document | {"runs": runs}, indent=1))
        return 0 if passed else 1
    for name, median in zip(STAGES, medians, strict=True):
        print(f"{name:22} {median:5.1f} ms")
    slowest = max(map(sum, runs))
    print(f"{'all':22} {total:5.1f} ms  (bound {BOUND:.0f}, slowest {slowest:.1f})  {'pass' if passed else 'fail'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
