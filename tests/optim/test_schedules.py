"""Every schedule of sexpgpu/optim is its formula at every step, and torch's where that has the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.optim.following import GOLDEN, NAMES, followed

RATES = dict(np.load(GOLDEN / "rates.npz"))


def warmed(peak: float, width: int, after: Callable[[int], float]) -> Callable[[int], float]:
    return lambda s: peak * (s + 1) / (width + 1) if s < width else after(s)


def cosine(s: int, start: int, end: int, peak: float, final: float) -> float:
    return final + (peak - final) * 0.5 * (1 + math.cos(math.pi * (s - start) / (end - start)))


FORMULAS: dict[str, Callable[[int], float]] = {
    "(constant-schedule 0.1)": lambda s: 0.1,
    "(constant-schedule 0.1 :warmup 7)": warmed(0.1, 7, lambda s: 0.1),
    "(linear-schedule 0.1)": lambda s: 0.1 * (1 - s / 40),
    "(linear-schedule 0.1 :warmup 0.2 :final 0.02)": warmed(0.1, 8, lambda s: 0.1 - 0.08 * (s - 8) / 32),
    "(linear-schedule 0.1 :steps 20)": lambda s: 0.1 * (1 - min(s, 20) / 20),
    "(cosine-schedule 0.1)": lambda s: cosine(s, 0, 40, 0.1, 0.0),
    "(cosine-schedule 0.1 :warmup 5 :final 0.01)": warmed(0.1, 5, lambda s: cosine(s, 5, 40, 0.1, 0.01)),
    "(cosine-schedule 0.1 :warmup 5 :steps 30)": warmed(0.1, 5, lambda s: cosine(min(s, 30), 5, 30, 0.1, 0.0)),
    "(step-schedule 0.1 :every 8 :warmup 10 :factor 0.5)": warmed(0.1, 10, lambda s: 0.1 * 0.5 ** (s // 8)),
    "(step-schedule 0.1 :every 1/4)": lambda s: 0.1 * 0.1 ** (s // 10),
    "(step-schedule 0.1 :at '(0.5 30) :warmup 3)": warmed(0.1, 3, lambda s: 0.1 * 0.1 ** ((s >= 20) + (s >= 30))),
    "(wsd-schedule 0.1)": lambda s: 0.1 * min(1.0, (40 - s) / 8),
    "(wsd-schedule 0.1 :warmup 5 :decay 10 :final 0.02)": warmed(
        0.1, 5, lambda s: 0.02 + 0.08 * min(1.0, (40 - s) / 10)
    ),
    "(wsd-schedule 0.1 :decay 0.25 :shape :sqrt)": lambda s: 0.1 * (1 - math.sqrt(max(0, s - 30) / 10)),
    "(wsd-schedule 0.1 :decay 0.25 :shape :cosine)": lambda s: cosine(max(s, 30), 30, 40, 0.1, 0.0),
    "(one-cycle-schedule 0.1 :warmup 10 :start 0.02 :final 0.01 :shape :linear)": lambda s: (
        0.02 + 0.08 * s / 9 if s < 9 else 0.1 - 0.09 * (s - 9) / 30
    ),
    "(one-cycle-schedule 0.1 :warmup 1)": lambda s: cosine(s, 0, 39, 0.1, 0.1 / 25 / 1e4),
    "(one-cycle-schedule 0.1 :warmup 40)": lambda s: cosine(s, 0, 39, 0.1 / 25, 0.1),
    "(inverse-sqrt-schedule 0.1)": lambda s: 0.1 / math.sqrt(s + 1),
    "(inverse-sqrt-schedule 0.1 :warmup 9)": lambda s: 0.1 * min((s + 1) / 10, math.sqrt(10 / (s + 1))),
    "(lambda (s) (* (funcall (constant-schedule 0.1 :warmup 4) s) (funcall (linear-schedule 1.0) s)))": lambda s: (
        0.1 * min(1.0, (s + 1) / 5) * (1 - s / 40)
    ),
}  # fmt: skip

TORCH = {
    "step-every": "(step-schedule 0.1 :every 7 :factor 0.5)",
    "step-at": "(step-schedule 0.1 :at '(10 25))",
    "cosine": "(cosine-schedule 0.1 :final 0.01)",
    "linear": "(linear-schedule 0.1 :final 0.025)",
    "one-cycle": "(one-cycle-schedule 0.1)",
    "one-cycle-linear": "(one-cycle-schedule 0.1 :warmup 0.21 :start 0.01 :final 0.002 :shape :linear)",
}


@pytest.fixture(scope="module", params=[":steps 40", ":epochs 2"])
def rates(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """The rate of each schedule at each step of a run of 40; one run has as many schedules as parameters."""
    schedules = [*FORMULAS, *TORCH.values()]
    found: dict[str, list[float]] = {}
    for first in range(0, len(schedules), len(NAMES)):
        some = dict(zip(NAMES, schedules[first : first + len(NAMES)], strict=False))
        groups = " ".join(f'(group "model.{name}" :lr {schedule})' for name, schedule in some.items())
        steps = followed(tmp_path_factory.mktemp("rates"), f"(optimizer-groups (sgd) {groups})", request.param)
        found |= {schedule: [m[f"optim/lr.model.{name}"] for _, _, m in steps] for name, schedule in some.items()}
    return found


@pytest.mark.parametrize("schedule", FORMULAS)
def test_a_schedule_is_its_formula_at_every_step(schedule: str, rates: dict[str, list[float]]) -> None:
    wanted = [FORMULAS[schedule](s) for s in range(40)]
    np.testing.assert_allclose(rates[schedule], wanted, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("case", TORCH)
def test_a_schedule_is_that_of_torch(case: str, rates: dict[str, list[float]]) -> None:
    np.testing.assert_allclose(rates[TORCH[case]], RATES[case], rtol=1e-12)
