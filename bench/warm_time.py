"""How long a check takes in the warm process behind `watch` and the language server: medians against the bounds."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from attrs import asdict

from bench.check_time import ROOT, RUNS, Timing, line
from sexpgpu.driver.warm import Checker, Request

BOUND = 0.3
"""Seconds from a save, or a change in an editor, to its diagnostics."""


def measure(checker: Checker, name: str, *, editor: bool) -> Timing:
    """The whole check of a file that changes each time; for an editor up to its first answer, with names and types."""
    path = ROOT / "examples" / name
    text = path.read_text("utf-8")
    seconds = []
    for number in range(RUNS + 1):
        request = Request(path, overlay={str(path): text + "\n" * number}, names=editor, passes=not editor)
        begun = time.perf_counter()
        answer = checker.check(request)
        seconds.append(time.perf_counter() - begun)
        if not answer.ok:
            raise AssertionError(f"{name}: {answer.fault or answer.diagnostics}")
    command = f"{'lsp' if editor else 'watch'}, a change of {Path(name).stem}"
    return Timing(command, statistics.median(seconds[1:]), BOUND, tuple(seconds[1:]))


def main() -> int:
    checker = Checker()
    timings = [
        measure(checker, "shakespeare.sx", editor=False),
        measure(checker, "gpt2.sx", editor=True),
    ]
    checker.close()
    if "--json" in sys.argv[1:]:
        print(json.dumps([asdict(t) | {"passed": t.passed} for t in timings], indent=1))
    else:
        for t in timings:
            print(line(t))
    return 0 if all(t.passed for t in timings) else 1


if __name__ == "__main__":
    sys.exit(main())
