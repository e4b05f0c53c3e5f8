"""Forms of the language with what PyTorch has for them: what the makers of goldens are made of (see make_ops.py)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]
Draw = Callable[[np.random.Generator], Array]
CASES: dict[str, tuple[str, Callable[..., Any], dict[str, Draw]]] = {}


def case(name: str, form: str, reference: Callable[..., Any], **inputs: Draw) -> None:
    assert name not in CASES, name
    CASES[name] = (form, reference, inputs)


def real(*shape: int, scale: float = 1.0) -> Draw:
    """Normal numbers."""
    return lambda rng: np.round(rng.normal(size=shape) * scale * 64) / 64


def positive(*shape: int) -> Draw:
    """Numbers in [0.25, 3]."""
    return lambda rng: np.round(rng.uniform(0.25, 3, size=shape) * 64) / 64


def within(low: float, high: float, *shape: int) -> Draw:
    return lambda rng: np.round(rng.uniform(low, high, size=shape) * 64) / 64


def few(*shape: int) -> Draw:
    """Whole numbers of which many are equal."""
    return lambda rng: rng.integers(-2, 3, size=shape).astype(np.float64)


def exact(values: Any, dtype: Any = np.float64) -> Draw:
    return lambda rng: np.array(values, dtype=dtype)


def index(below: int, *shape: int, dtype: Any = np.int32) -> Draw:
    return lambda rng: rng.integers(0, below, size=shape).astype(dtype)


def truth(*shape: int) -> Draw:
    return lambda rng: rng.random(size=shape) < 0.6


def cotangent(number: int, shape: tuple[int, ...]) -> Array:
    """As in tests/golden/tracing.py."""
    size = int(np.prod(shape, dtype=np.int64))
    return np.asarray(np.cos(np.arange(size) * 0.7 + number + 0.3)).reshape(shape)


def computed(name: str) -> tuple[dict[str, Array], list[Array], dict[str, Array]]:
    _, reference, draws = CASES[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    inputs = {key: draw(rng) for key, draw in draws.items()}
    tensors = {key: torch.tensor(array) for key, array in inputs.items()}
    differentiated = [t.requires_grad_() for t in tensors.values() if t.is_floating_point()]
    results = reference(*tensors.values())
    results = list(results) if isinstance(results, tuple | list) else [results]
    values = [torch.as_tensor(r) for r in results]
    loss = sum(
        ((v * torch.tensor(cotangent(i, tuple(v.shape)))).sum() for i, v in enumerate(values) if v.is_floating_point()),
        start=torch.zeros((), dtype=torch.float64),
    )
    gradients: dict[str, Array] = {}
    if differentiated:
        found = (
            torch.autograd.grad(loss, differentiated, allow_unused=True)
            if loss.requires_grad
            else [None] * len(differentiated)
        )
        names = [key for key, t in tensors.items() if t.is_floating_point()]
        for key, tensor, gradient in zip(names, differentiated, found, strict=True):
            gradients[key] = (torch.zeros_like(tensor) if gradient is None else gradient).detach().numpy()
    return inputs, [v.detach().numpy() for v in values], gradients
