"""Composites and their backward operations give PyTorch's values and gradients (see make_composites.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sexpgpu.dialects.ops import OPS

with np.load(Path(__file__).parent / "composites.npz") as stored:
    ARRAYS: dict[str, NDArray[Any]] = dict(stored)

PLAIN = {"scale": 0.3, "causal": False, "window": 0, "rounded": False}
ATTRS: dict[str, dict[str, Any]] = {
    "layer_norm": {"eps": 1e-3},
    "rms_norm": {"eps": 1e-3},
    "cross_entropy": {"outside": "error"},
    "attention": PLAIN,
    "attention causal": PLAIN | {"causal": True},
    "attention window": PLAIN | {"causal": True, "window": 3},
    "attention around": PLAIN | {"window": 2},
    "attention_biased": PLAIN,
}


def arrays(name: str, letter: str) -> list[NDArray[Any]]:
    return [a for key, a in sorted(ARRAYS.items()) if key.startswith(f"{name}/{letter}")]


def run(op: str, *operands: Any, **attrs: Any) -> tuple[Any, ...]:
    given = OPS[op].numpy(*operands, **attrs)
    return given if isinstance(given, tuple) else (given,)


def gradients(name: str, ins: list[Any], out: tuple[Any, ...], g: Any) -> list[Any]:
    """What the backward operations of a composite give for its float operands, in order."""
    op, attrs = name.split()[0], ATTRS[name]
    zero = np.zeros_like(out[-1])
    if op == "cross_entropy":
        return [*run("cross_entropy_grad", g, zero, *ins, out[1], **attrs)]
    if op.startswith("attention"):
        given = (g, zero, *ins[:3], *out, *ins[3:])
        biased = run("attention_bias_grad", *given, **attrs) if op == "attention_biased" else ()
        return [*run(f"{op}_grad", *given, **attrs), *biased]
    found = [*run(f"{op}_grad", g, ins[0], *out[1:], ins[1]), *run(f"{op}_gain", g, ins[0], *out[1:])]
    return [*found, g.sum(axis=(0, 1))] if op == "layer_norm" else found


@pytest.mark.parametrize("name", ATTRS)
def test_values_and_gradients_are_those_of_pytorch(name: str) -> None:
    ins = arrays(name, "x")
    out = run(name.split()[0], *ins, **ATTRS[name])
    np.testing.assert_allclose(out[0], ARRAYS[f"{name}/y"], rtol=1e-12, atol=1e-12)
    given = gradients(name, ins, out, ARRAYS[f"{name}/g"])
    for found, wanted in zip(given, arrays(name, "d"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_every_case_is_tested() -> None:
    assert {key.partition("/")[0] for key in ARRAYS} == set(ATTRS)
