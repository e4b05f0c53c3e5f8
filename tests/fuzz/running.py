"""Runs cases in worker processes and sums up what came of them."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from attrs import define, field

from tests.fuzz.cases import ROOT

CPU_SECONDS: Final = 1.0
BUSY_CPU_SECONDS: Final = 1.5
"""The same where other processes share the caches and the cores: a CPU clock then counts up to twice as much."""
GROWTH_MIB: Final = 1024
WALL_SECONDS: Final = 60.0
"""A worker that says nothing for so long hangs; the machine may be busy with other things."""


@define
class Sums:
    """Of many cases: how many compiled or evaluated, error codes by family, the slowest, the largest, the faults."""

    cases: int = 0
    clean: int = 0
    families: Counter[str] = field(factory=Counter)
    slowest: float = 0.0
    grown: int = 0
    faults: list[str] = field(factory=list)

    def add(self, told: dict[str, Any], bound: float = CPU_SECONDS) -> None:
        """Count a case; what breaks a bound (of CPU seconds, or of memory) is a fault."""
        self.cases += 1
        self.clean += not told["codes"] and not told["fault"]
        self.families.update({code.rpartition("-")[0] for code in told["codes"]})
        self.slowest = max(self.slowest, told["seconds"])
        self.grown = max(self.grown, told["grown"])
        found = told["fault"]
        if told["seconds"] > bound:
            found += f" took {told['seconds']} s of CPU"
        if told["grown"] > GROWTH_MIB:
            found += f" took {told['grown']} MiB"
        if found:
            self.faults.append(f"{told['kind']} {told['number']}: {found}")


def results(kind: str, first: int, last: int, stride: int = 1) -> Iterator[dict[str, Any]]:
    """What came of the cases `first`, `first + stride`, … below `last`; a worker that ends or hangs is replaced."""
    while first < last:
        command = [sys.executable, "-m", "tests.fuzz.worker", kind, str(first), str(last), str(stride)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as worker:
            number = first
            for told in _lines(worker):
                number = told["number"]
                if "fault" in told:
                    yield told
                    first = number + stride
            ended = worker.poll()
            if first <= number or ended:
                complaint = b"" if ended is None or worker.stderr is None else worker.stderr.read()[-1000:]
                worker.kill()
                what = "hangs" if ended is None else f"ended its process: {ended} {complaint.decode(errors='replace')}"
                yield {"kind": kind, "number": number, "seconds": 0.0, "grown": 0, "codes": [], "fault": what}
                first = number + stride


def _lines(worker: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """The lines a worker writes, up to its end or to a silence that is too long."""
    assert worker.stdout is not None
    with selectors.DefaultSelector() as ready:
        ready.register(worker.stdout, selectors.EVENT_READ)
        rest = b""
        while ready.select(WALL_SECONDS):
            piece = worker.stdout.read(65536)
            if not piece:
                worker.wait()
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield json.loads(line)


def main() -> int:
    """`python -m tests.fuzz.running KIND FIRST LAST [STRIDE]`: the sums and every fault."""
    sums = Sums()
    for told in results(sys.argv[1], *map(int, sys.argv[2:])):
        before = len(sums.faults)
        sums.add(told)
        for fault in sums.faults[before:]:
            sys.stdout.write(f"{fault}\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"{sys.argv[1]}: {sums.cases} cases, {sums.clean} without error, {len(sums.faults)} faults, slowest "
        f"{sums.slowest} s, grown {sums.grown} MiB; {dict(sums.families.most_common())}\n"
    )
    return 1 if sums.faults else 0


if __name__ == "__main__":
    sys.exit(main())
