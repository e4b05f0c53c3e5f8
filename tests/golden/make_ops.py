"""Makes tests/golden/ops/: values and gradients of the tensor operations, by PyTorch, in f64.

Run by hand in an environment with NumPy and PyTorch 2.13, from the root: `python -m tests.golden.make_ops`. A case is a
form of the language, its inputs, and what PyTorch has for it; the files ops_*.py declare them. Inputs are multiples of
1/64, so that ties occur by themselves. The gradient is that of the sum of the values, each weighed by a cosine of its
place (`references.cotangent`).

`ops/cases.jsonl` says what there is, a case a line; `ops/arrays.npz` holds the numbers, all floats in one array and all
other numbers in another, in the order of the cases: their inputs, values and gradients.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden import ops_arrays, ops_control, ops_elements, ops_losses, ops_products, ops_second, references
from tests.golden.references import Array

FOLDER = Path(__file__).parent / "ops"
DECLARING = (ops_elements, ops_arrays, ops_products, ops_losses, ops_control, ops_second)
"""Importing a module declares its cases."""


def write() -> None:
    lines: list[str] = []
    floats: list[Array] = []
    others: list[Array] = []

    def keep(array: Array) -> list[Any]:
        (floats if array.dtype.kind == "f" else others).append(array.reshape(-1))
        return [str(array.dtype), list(array.shape)]

    for name, (form, _, _) in references.CASES.items():
        inputs, values, gradients = references.computed(name)
        fact = {
            "name": name,
            "form": " ".join(form.split()),
            "inputs": {key: keep(array) for key, array in inputs.items()},
            "values": [keep(array) for array in values],
            "gradients": {key: keep(array) for key, array in gradients.items()},
        }
        lines.append(json.dumps(fact, separators=(",", ":")))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "cases.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    np.savez_compressed(
        FOLDER / "arrays.npz",
        floats=np.concatenate(floats),
        others=np.concatenate([a.astype(np.int32) for a in others]),
    )


if __name__ == "__main__":
    write()
