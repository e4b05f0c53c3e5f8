"""Two steps of examples/gpt2.sx at full size, one record, AdamW included: seconds and peak memory of the process."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from bench.curves.product import run

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "gpt2.sx"
SECONDS, GIBIBYTES = 180.0, 7.0


def main() -> int:
    # The evaluation that closes a run is no part of the promise: one batch of it.
    chosen = ("--steps", "2", "--set", "eval-batches=1")
    with tempfile.TemporaryDirectory() as out:
        begun = time.perf_counter()
        events = run(EXAMPLE, Path(out), *chosen)
        seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    passed = seconds < SECONDS and peak < GIBIBYTES
    losses = ", ".join(f"{loss:.4f}" for loss in events.series("step", "train/loss").values())
    print(f"gpt2.sx, two steps: {seconds:.0f} s (bound {SECONDS:.0f}), peak {peak:.2f} GiB (bound {GIBIBYTES:.0f})")
    print(f"losses {losses} (ln 50304 = 10.826): {'pass' if passed else 'FAIL'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
