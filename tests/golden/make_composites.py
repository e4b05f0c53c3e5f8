"""Makes tests/golden/composites.npz: norms, cross-entropy and attention with their gradients, by PyTorch, in f64.

Run by hand where NumPy and PyTorch 2.13 are, from the root: `python -m tests.golden.make_composites`. A case
is `name/x0`, `name/x1`, ... the inputs, `name/y` the value, `name/g` the cotangent it is given, and `name/d0`, ... the
gradients of the float inputs. Attention under a causal mask has its last query at its last key, for which PyTorch is
given the mask itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

FILE = Path(__file__).parent / "composites.npz"
Function = Callable[..., Any]


def band(rows: int, keys: int, window: int, *, causal: bool) -> Any:
    """The mask of a row at place `row + keys - rows`: no key behind it, or none `window` or more away."""
    here, there = torch.arange(rows)[:, None] + keys - rows, torch.arange(keys)
    seen = there <= here if causal else torch.ones(rows, keys, dtype=torch.bool)
    if window:
        seen = seen & (there > here - window) & (there < here + window)
    return seen


def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3, enable_gqa=True)


CASES: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (7,), w, b, eps=1e-3), ((2, 3, 7), (7,), (7,))),
    "rms_norm": (lambda x, w: F.rms_norm(x, (7,), w, eps=1e-3), ((2, 3, 7), (7,))),
    "attention": (attention, ((2, 4, 5, 3), (2, 2, 5, 3), (2, 2, 5, 6))),
    "attention causal": (
        lambda q, k, v: attention(q, k, v, band(3, 5, 0, causal=True)),
        ((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 2)),
    ),
    "attention window": (
        lambda q, k, v: attention(q, k, v, band(6, 6, 3, causal=True)),
        ((1, 2, 6, 4), (1, 1, 6, 4), (1, 1, 6, 2)),
    ),
    "attention around": (
        lambda q, k, v: attention(q, k, v, band(6, 6, 2, causal=False)),
        ((1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 2)),
    ),
    "attention_biased": (attention, ((2, 4, 5, 3), (2, 2, 5, 3), (2, 2, 5, 6), (1, 4, 1, 5))),
}


def write() -> None:
    rng = np.random.default_rng(11)
    stored: dict[str, Any] = {}

    def keep(name: str, function: Function, inputs: list[Any]) -> None:
        tensors = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
        y = function(*tensors)
        g = torch.tensor(rng.normal(size=y.shape))
        y.backward(g)
        stored.update({f"{name}/x{i}": x for i, x in enumerate(inputs)})
        stored.update({f"{name}/d{i}": t.grad.numpy() for i, t in enumerate(tensors) if t.grad is not None})
        stored[f"{name}/y"], stored[f"{name}/g"] = y.detach().numpy(), g.numpy()

    for name, (function, shapes) in CASES.items():
        keep(name, function, [rng.normal(size=shape) for shape in shapes])
    labels = rng.integers(0, 9, 6)
    keep("cross_entropy", lambda x, y: F.cross_entropy(x, y, reduction="none"), [rng.normal(size=(6, 9)) * 3, labels])
    np.savez_compressed(FILE, **stored)


if __name__ == "__main__":
    write()
