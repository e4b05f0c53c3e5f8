"""From source to plan: the 12-layer GPT, as a whole process and pass by pass. `python -m bench.plan_time [RUNS]`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "gpt2.sx"
SECONDS = 1.5
CODE = """
import sys, time
begun = time.perf_counter()
from pathlib import Path
from sexpgpu.driver.planning import preparing
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
def work():
    with preparing(Path(sys.argv[1]), Selection()) as done:
        assert done.plans
        for timing in done.timings:
            print(f"{timing.spec:20} {timing.ms:8.1f} ms {timing.ops_before:6} -> {timing.ops_after:6}  {timing.did}")
        train = done.plans["train"]
        steps = len(train.steps)
        print(f"train: {steps} steps, arena {train.memory.arena:,} bytes, {train.memory.live:,} alive at once")
        print(f"source to plan, in the process: {time.perf_counter() - begun:.2f} s")
run_deep(work)
"""


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    walls = []
    printed = ""
    for _ in range(runs):
        begun = time.perf_counter()
        command = [sys.executable, "-c", CODE, str(EXAMPLE)]
        environment = {"SEXPGPU_CACHE": "off", "PATH": ""}
        printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        walls.append(time.perf_counter() - begun)
    print(printed, end="")
    middle = median(walls)
    told = "pass" if middle < SECONDS else "FAIL"
    print(f"whole process: {middle:.2f} s, median of {runs} (bound {SECONDS}): {told}")
    return 0 if middle < SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
