"""How long `check` and `--help` take as whole processes: the median of nine against the promised bounds."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from attrs import asdict, frozen

ROOT = Path(__file__).resolve().parents[1]
RUNS = 9


@frozen
class Timing:
    """Seconds of each run, their median and the bound it must stay under."""

    command: str
    median: float
    bound: float
    seconds: tuple[float, ...]

    @property
    def passed(self) -> bool:
        return self.median < self.bound


def measure(arguments: tuple[str, ...], bound: float) -> Timing:
    """One run to warm the file caches, then `RUNS` timed ones. A command that fails is an error."""
    command = [sys.executable, "-m", "sexpgpu", *arguments]
    seconds = []
    for _ in range(RUNS + 1):
        begun = time.perf_counter()
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begun)
    return Timing(" ".join(arguments), statistics.median(seconds[1:]), bound, tuple(seconds[1:]))


def line(t: Timing) -> str:
    verdict = "pass" if t.passed else "fail"
    return f"{t.command:32} {t.median:.3f} s  (bound {t.bound:.2f}, slowest {max(t.seconds):.3f})  {verdict}"


def main() -> int:
    timings = [
        measure(("check", "examples/shakespeare.sx"), 0.6),
        measure(("check", "examples/gpt2.sx"), 1.0),
        measure(("--help",), 0.15),
    ]
    if "--json" in sys.argv[1:]:
        print(json.dumps([asdict(t) | {"passed": t.passed} for t in timings], indent=1))
    else:
        for t in timings:
            print(line(t))
    return 0 if all(t.passed for t in timings) else 1


if __name__ == "__main__":
    sys.exit(main())
