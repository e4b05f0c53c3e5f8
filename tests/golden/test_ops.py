"""Every operation's values and gradients are PyTorch's, in f64: the cases of tests/golden/ops, made by make_ops.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.golden.tracing import Case, Outcome, outcomes

FOLDER = Path(__file__).parent / "ops"
TOLERANCE = 1e-10

Array = NDArray[Any]


class Golden:
    """A case with what it should give."""

    def __init__(self, case: Case, values: list[Array], gradients: dict[str, Array]) -> None:
        self.case = case
        self.values = values
        self.gradients = gradients


def goldens() -> dict[str, Golden]:
    with np.load(FOLDER / "arrays.npz") as stored:
        kinds = {kind: stored[kind] for kind in ("floats", "others")}
    used = dict.fromkeys(kinds, 0)

    def take(fact: list[Any]) -> Array:
        dtype, shape = np.dtype(fact[0]), tuple(fact[1])
        kind = "floats" if dtype.kind == "f" else "others"
        start = used[kind]
        used[kind] += int(np.prod(shape, dtype=np.int64))
        taken: Array = kinds[kind][start : used[kind]].reshape(shape).astype(dtype)
        return taken

    found = {}
    for line in (FOLDER / "cases.jsonl").read_text("utf-8").splitlines():
        fact = json.loads(line)
        inputs = {key: take(given) for key, given in fact["inputs"].items()}
        values = [take(given) for given in fact["values"]]
        gradients = {key: take(given) for key, given in fact["gradients"].items()}
        found[fact["name"]] = Golden(Case(fact["name"], fact["form"], inputs), values, gradients)
    assert used == {kind: array.size for kind, array in kinds.items()}
    return found


GOLDENS = goldens()


@pytest.fixture(scope="module")
def computed() -> dict[str, Outcome | Exception]:
    return outcomes([golden.case for golden in GOLDENS.values()])


@pytest.mark.parametrize("name", GOLDENS)
def test_values_and_gradients(name: str, computed: dict[str, Outcome | Exception]) -> None:
    golden, outcome = GOLDENS[name], computed[name]
    if isinstance(outcome, Exception):
        raise outcome
    assert len(outcome.values) == len(golden.values)
    for got, wanted in zip(outcome.values, golden.values, strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    for key, wanted in golden.gradients.items():
        np.testing.assert_allclose(outcome.gradients[key], wanted, rtol=TOLERANCE, atol=TOLERANCE, err_msg=key)
    assert outcome.gradients.keys() == golden.gradients.keys()
