"""bf16 against f32: the validation loss of GPT examples over three seeds each.

bf16 is as good where its mean lies within the spread of the f32 runs around theirs. `python -m bench.bf16 [STEPS]`.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from statistics import mean

from bench.curves.product import run

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FILES = ("shakespeare", "llama")
SEEDS = (1, 2, 3)
STEPS = 300


def losses(file: Path, folder: Path, precision: str, steps: int) -> list[float]:
    """The last validation loss of each seed."""
    text = re.sub(r'"data/', f'"{EXAMPLES}/data/', file.read_text("utf-8"))
    text = re.sub(r":precision (precision|:f32|:bf16)", f":precision :{precision}", text)
    mine = folder / f"{file.stem}-{precision}.sx"
    mine.write_text(text, "utf-8")
    found = []
    for seed in SEEDS:
        chosen = ("--set", f"steps={steps}", "--set", f"seed={seed}")
        events = run(mine, folder / f"{mine.stem}-{seed}", *chosen)
        found.append(list(events.series("eval", "val/loss").values())[-1])
    return found


def main() -> int:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    good = True
    with tempfile.TemporaryDirectory() as name:
        for example in FILES:
            kept = {p: losses(EXAMPLES / f"{example}.sx", Path(name), p, steps) for p in ("f32", "bf16")}
            spread = max(kept["f32"]) - min(kept["f32"])
            apart = mean(kept["bf16"]) - mean(kept["f32"])
            good &= abs(apart) <= spread
            for precision, values in kept.items():
                print(f"{example:12} {precision:5} {'  '.join(f'{v:.4f}' for v in values)}  mean {mean(values):.4f}")
            print(f"{example:12} bf16 - f32 {apart:+.4f}, spread of f32 {spread:.4f}, {steps} steps")
    print("pass" if good else "FAIL")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
