"""Makes tests/golden/optim/*.npz: twenty steps of every optimizer and the torch schedules, in f64.

Run by hand in an environment with NumPy and PyTorch 2.13: `python tests/golden/make_optim.py`. Optimizers that PyTorch
has are run by PyTorch. The others, and Muon, which PyTorch runs in bf16, are written out here from their papers, one
parameter at a time, and in other terms than the library's own where there are such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

Array = NDArray[np.float64]
Values = dict[str, Array]

SHAPES = {"scalar": (), "vector": (5,), "tall": (4, 3), "wide": (2, 4), "kernel": (3, 2, 2, 2)}
STEPS = 20
KEPT = (1, 2, 3, 10, 20)
"""The numbers of updates after which values are kept."""


def torch_run(make: Callable[[list[Any]], Any], schedule: Callable[[int], float] | None = None) -> Any:
    def run(init: Values, grads: Values) -> Iterator[Values]:
        params = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in init.items()}
        optimizer = make(list(params.values()))
        scheduler = None if schedule is None else torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
        for step in range(STEPS):
            for name, param in params.items():
                param.grad = torch.tensor(grads[name][step])
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            yield {name: param.detach().numpy().copy() for name, param in params.items()}

    return run


def ema_run(decay: float, every: int) -> Any:
    """The averages that torch keeps of the parameters of an Adam run, taken up before the first step."""

    def run(init: Values, grads: Values) -> Iterator[Values]:
        model = torch.nn.ParameterDict({name: torch.tensor(value) for name, value in init.items()})
        averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
        averaged.update_parameters(model)
        steps = torch_run(lambda params: torch.optim.Adam(params, lr=0.05))(init, grads)
        for number, values in enumerate(steps, 1):
            for name, value in values.items():
                model[name].data = torch.tensor(value)
            if number % every == 0:
                averaged.update_parameters(model)
            yield {name: averaged.module[name].detach().numpy().copy() for name in values}

    return run


def each(update: Callable[..., tuple[Array, Array]]) -> Any:
    """A run of `update(p, g, t, state)`, which gives the next parameter and what evaluation sees."""

    def run(init: Values, grads: Values, seen: bool = False) -> Iterator[Values]:
        values, states = dict(init), {name: {"start": value} for name, value in init.items()}
        for step in range(STEPS):
            found = {n: update(values[n], grads[n][step], step + 1, states[n]) for n in values}
            values = {name: next_value for name, (next_value, _) in found.items()}
            yield {name: np.array(pair[1 if seen else 0]) for name, pair in found.items()}

    return run


def lion(lr: float, beta1: float, beta2: float, decay: float) -> Any:
    def update(p: Array, g: Array, t: int, state: dict[str, Any]) -> tuple[Array, Array]:
        m = state.get("m", np.zeros_like(p))
        p = p - lr * (np.sign(beta1 * m + (1 - beta1) * g) + decay * p)
        state["m"] = beta2 * m + (1 - beta2) * g
        return p, p

    return each(update)


def lamb(lr: float, beta1: float, beta2: float, eps: float, decay: float) -> Any:
    def update(p: Array, g: Array, t: int, state: dict[str, Any]) -> tuple[Array, Array]:
        state["m"] = beta1 * state.get("m", 0.0) + (1 - beta1) * g
        state["v"] = beta2 * state.get("v", 0.0) + (1 - beta2) * g * g
        r = (state["m"] / (1 - beta1**t)) / (np.sqrt(state["v"] / (1 - beta2**t)) + eps)
        u = r + decay * p
        ratio = np.linalg.norm(np.ravel(p)) / np.linalg.norm(np.ravel(u))
        return p - lr * (ratio if ratio > 0 else 1.0) * u, p

    return each(update)


def muon(lr: float, momentum: float, nesterov: bool, decay: float, rms: bool = False) -> Any:
    """By the singular values: each round of the iteration maps s to a s + b s^3 + c s^5 and leaves the vectors."""

    def update(p: Array, g: Array, t: int, state: dict[str, Any]) -> tuple[Array, Array]:
        if p.ndim < 2:
            return p, p
        state["m"] = m = state.get("m", np.zeros_like(p)) * momentum + (1 - momentum) * g
        u = (momentum * m + (1 - momentum) * g if nesterov else m).reshape(len(p), -1)
        left, s, right = np.linalg.svd(u, full_matrices=False)
        s = s / (np.sqrt(np.sum(s * s)) + 1e-7)
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        rows, columns = u.shape
        scale = 0.2 * math.sqrt(max(rows, columns)) if rms else math.sqrt(max(1.0, rows / columns))
        direction = ((left * s) @ right).reshape(p.shape)
        return p * (1 - lr * decay) - lr * scale * direction, p

    return each(update)


def adafactor(lr: float, beta1: float, *, relative: bool, scaled: bool) -> Any:
    """The paper's algorithms 4 and 5 with sums along rows and columns, and a first moment of the step."""

    def update(p: Array, g: Array, t: int, state: dict[str, Any]) -> tuple[Array, Array]:
        beta2 = 1 - t**-0.8
        squared = g * g + 1e-30
        if p.ndim < 2:
            state["v"] = v = beta2 * state.get("v", 0.0) + (1 - beta2) * squared
        else:
            state["r"] = r = beta2 * state.get("r", 0.0) + (1 - beta2) * squared.sum(-1, keepdims=True)
            state["c"] = c = beta2 * state.get("c", 0.0) + (1 - beta2) * squared.sum(-2, keepdims=True)
            v = r * c / r.sum(-2, keepdims=True)
        u = g / np.sqrt(v)
        u = u / max(1.0, float(np.sqrt(np.mean(u * u))))
        alpha = min(lr, 1 / math.sqrt(t)) if relative else lr
        alpha *= max(1e-3, float(np.sqrt(np.mean(p * p)))) if scaled else 1.0
        state["m"] = beta1 * state.get("m", 0.0) + (1 - beta1) * alpha * u
        return p - state["m"], p

    return each(update)


def schedule_free(rate: Callable[[int], float], beta1: float, beta2: float, eps: float, decay: float) -> Any:
    """With x, y and z all kept, as algorithm 1 of the paper has them."""

    def update(y: Array, g: Array, t: int, state: dict[str, Any]) -> tuple[Array, Array]:
        x, z = state.get("x", state["start"]), state.get("z", state["start"])
        state["v"] = beta2 * state.get("v", 0.0) + (1 - beta2) * g * g
        gamma = rate(t - 1)
        state["sum"] = state.get("sum", 0.0) + gamma**2
        c = gamma**2 / state["sum"]
        z = z - gamma * g / (np.sqrt(state["v"] / (1 - beta2**t)) + eps) - gamma * decay * y
        x = (1 - c) * x + c * z
        state["x"], state["z"] = x, z
        return (1 - beta1) * z + beta1 * x, x

    return each(update)


def warm(step: int) -> float:
    return 0.05 * min((step + 1) / 5, 1.0)


optim = torch.optim
SCHEDULE_FREE = schedule_free(warm, 0.9, 0.95, 1e-8, 0.1)
PLAIN_SCHEDULE_FREE = schedule_free(lambda step: 0.05, 0.8, 0.999, 1e-8, 0.0)

RUNS: dict[str, Any] = {
    "sgd": torch_run(lambda p: optim.SGD(p, lr=0.1)),
    "sgd-momentum": torch_run(lambda p: optim.SGD(p, lr=0.1, momentum=0.9)),
    "sgd-dampening": torch_run(lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05)),
    "sgd-nesterov": torch_run(lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05)),
    "sgd-scheduled": torch_run(lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05), lambda s: 0.9**s),
    "adam": torch_run(lambda p: optim.Adam(p, lr=0.05)),
    "adam-l2": torch_run(lambda p: optim.Adam(p, lr=0.05, betas=(0.0, 0.95), eps=1e-3, weight_decay=0.1)),
    "adamw": torch_run(lambda p: optim.AdamW(p, lr=0.05)),
    "adamw-scheduled": torch_run(
        lambda p: optim.AdamW(p, lr=0.05, betas=(0.8, 0.99), weight_decay=0.3), lambda s: min((s + 1) / 5, 1.0)
    ),
    "rmsprop": torch_run(lambda p: optim.RMSprop(p, lr=0.02)),
    "rmsprop-centered": torch_run(
        lambda p: optim.RMSprop(p, lr=0.02, alpha=0.9, momentum=0.8, centered=True, weight_decay=0.1)
    ),
    "adagrad": torch_run(lambda p: optim.Adagrad(p, lr=0.1)),
    "adagrad-decay": torch_run(
        lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.05, initial_accumulator_value=0.5, weight_decay=0.1)
    ),
    "adadelta": torch_run(lambda p: optim.Adadelta(p)),
    "adadelta-l2": torch_run(lambda p: optim.Adadelta(p, lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1)),
    "adafactor": torch_run(lambda p: optim.Adafactor(p)),
    "adafactor-decay": torch_run(lambda p: optim.Adafactor(p, lr=0.5, beta2_decay=-0.5, d=1.2, weight_decay=0.1)),
    "adafactor-momentum": adafactor(0.02, 0.9, relative=False, scaled=False),
    "adafactor-paper": adafactor(1e-2, 0.0, relative=True, scaled=True),
    "lion": lion(0.01, 0.9, 0.99, 0.0),
    "lion-decay": lion(0.02, 0.8, 0.95, 0.3),
    "muon": muon(0.02, 0.95, True, 0.0),
    "muon-plain": muon(0.05, 0.9, False, 0.1),
    "muon-rms": muon(0.02, 0.95, True, 0.1, rms=True),
    "lamb": lamb(0.02, 0.9, 0.999, 1e-6, 0.0),
    "lamb-decay": lamb(0.02, 0.8, 0.95, 1e-3, 0.1),
    "schedule-free-adamw": SCHEDULE_FREE,
    "schedule-free-adamw view": lambda init, grads: SCHEDULE_FREE(init, grads, seen=True),
    "schedule-free-adamw-plain": PLAIN_SCHEDULE_FREE,
    "schedule-free-adamw-plain view": lambda init, grads: PLAIN_SCHEDULE_FREE(init, grads, seen=True),
    "ema": torch_run(lambda p: optim.Adam(p, lr=0.05)),
    "ema view": ema_run(0.9, 1),
    "ema-every view": ema_run(0.7, 3),
}

lr_scheduler = torch.optim.lr_scheduler
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "step-every": lambda o: lr_scheduler.StepLR(o, 7, gamma=0.5),
    "step-at": lambda o: lr_scheduler.MultiStepLR(o, [10, 25], gamma=0.1),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 40, eta_min=0.01),
    "linear": lambda o: lr_scheduler.LinearLR(o, 1.0, 0.25, total_iters=40),
    "one-cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=40, cycle_momentum=False),
    "one-cycle-linear": lambda o: lr_scheduler.OneCycleLR(
        o, 0.1, total_steps=40, pct_start=0.21, anneal_strategy="linear", div_factor=10, final_div_factor=5
    ),
}


def rates(make: Callable[[Any], Any], steps: int = 40) -> Array:
    optimizer = optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = make(optimizer)
    found = []
    for _ in range(steps):
        found.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return np.array(found, np.float64)


def check_muon(init: Values, grads: Values) -> None:
    """PyTorch's own Muon, whose iteration runs in bf16, stays near."""
    matrices = {name: value for name, value in init.items() if value.ndim == 2}
    theirs = torch_run(lambda p: optim.Muon(p, lr=0.02, weight_decay=0.0))(matrices, grads)
    for ours, values in zip(RUNS["muon"](matrices, grads), theirs, strict=True):
        for name in matrices:
            assert np.abs(ours[name] - values[name]).max() < 0.02, name


def main() -> None:
    rng = np.random.default_rng(4)
    init = {name: np.asarray(rng.normal(size=shape)) for name, shape in SHAPES.items()}
    # Gradients of a common direction and of sizes between 1e-3 and 1e1, so that moments do not average out.
    grads = {
        name: rng.normal(size=shape) * 0.5
        + rng.normal(size=(STEPS, *shape)) * 10 ** rng.uniform(-3, 1, (STEPS, *shape))
        for name, shape in SHAPES.items()
    }
    check_muon(init, grads)
    stored: dict[str, Any] = {f"init {name}": value for name, value in init.items()} | {
        f"grad {n}": g for n, g in grads.items()
    }
    for case, run in RUNS.items():
        steps = list(run(init, grads))
        for name in SHAPES:
            stored[f"{case} {name}"] = np.stack([steps[number - 1][name] for number in KEPT])
    folder = Path(__file__).parent / "optim"
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / "steps.npz", **stored)
    found: dict[str, Any] = {name: rates(make) for name, make in SCHEDULES.items()}
    np.savez_compressed(folder / "rates.npz", **found)


if __name__ == "__main__":
    main()
