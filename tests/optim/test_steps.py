"""Every optimizer of sexpgpu/optim takes the steps of its reference implementation, to 1e-9 in f64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.optim.following import KEPT, NAMES, STEPS, followed

FORMS = {
    "sgd": "(sgd :lr 0.1)",
    "sgd-momentum": "(sgd :lr 0.1 :momentum 0.9)",
    "sgd-dampening": "(sgd :lr 0.1 :momentum 0.9 :dampening 0.3 :weight-decay 0.05)",
    "sgd-nesterov": "(sgd :lr 0.1 :momentum 0.9 :nesterov t :weight-decay 0.05)",
    "sgd-scheduled": "(sgd :lr (lambda (s) (* 0.1 (expt 0.9 s))) :momentum (lambda (s) 0.9)"
    " :weight-decay (lambda (s) (+ 0.05 (* 0.0 s))))",
    "adam": "(adam :lr 0.05)",
    "adam-l2": "(adam :lr 0.05 :beta1 0 :beta2 0.95 :eps 1e-3 :weight-decay 0.1)",
    "adamw": "(adamw :lr 0.05)",
    "adamw-scheduled": "(adamw :lr (lambda (s) (* 0.05 (min 1.0 (/ (+ s 1) 5)))) :beta1 (constant-schedule 0.8)"
    " :beta2 0.99 :weight-decay 0.3)",
    "rmsprop": "(rmsprop :lr 0.02)",
    "rmsprop-centered": "(rmsprop :lr 0.02 :alpha 0.9 :momentum 0.8 :centered t :weight-decay 0.1)",
    "adagrad": "(adagrad :lr 0.1)",
    "adagrad-decay": "(adagrad :lr 0.1 :lr-decay 0.05 :initial 0.5 :weight-decay 0.1)",
    "adadelta": "(adadelta)",
    "adadelta-l2": "(adadelta :lr 0.5 :rho 0.8 :eps 1e-3 :weight-decay 0.1)",
    "adafactor": "(adafactor)",
    "adafactor-decay": "(adafactor :lr 0.5 :decay 0.5 :clip 1.2 :weight-decay 0.1)",
    "adafactor-momentum": "(adafactor :lr 0.02 :beta1 0.9 :relative-step nil :scale-parameter nil)",
    "adafactor-paper": "(adafactor)",
    "lion": "(lion :lr 0.01)",
    "lion-decay": "(lion :lr 0.02 :beta1 0.8 :beta2 0.95 :weight-decay 0.3)",
    "muon": "(muon)",
    "muon-plain": "(muon :lr 0.05 :momentum 0.9 :nesterov nil :weight-decay 0.1)",
    "muon-rms": "(muon :scale :match-rms-adamw :weight-decay 0.1)",
    "lamb": "(lamb :lr 0.02)",
    "lamb-decay": "(lamb :lr 0.02 :beta1 0.8 :beta2 0.95 :eps 1e-3 :weight-decay 0.1)",
    "schedule-free-adamw": "(schedule-free-adamw :lr (lambda (s) (* 0.05 (min 1.0 (/ (+ s 1) 5)))) :beta2 0.95"
    " :weight-decay 0.1)",
    "schedule-free-adamw-plain": "(schedule-free-adamw :lr 0.05 :beta1 0.8)",
    "ema": "(ema 0.9 (adam :lr 0.05))",
    "ema-every": "(ema 0.7 (adam :lr 0.05) :every 3)",
}


def test_every_golden_run_is_compared() -> None:
    runs = {key.removesuffix(f" {n}").removesuffix(" view") for key in STEPS for n in NAMES if key.endswith(f" {n}")}
    assert runs - {"init", "grad"} == FORMS.keys()


@pytest.mark.parametrize("case", FORMS)
def test_an_optimizer_takes_the_steps_of_its_reference(case: str, tmp_path: Path) -> None:
    optimizer = FORMS[case]
    names: tuple[str, ...] = NAMES
    if case.startswith("muon"):
        names = ("tall", "wide", "kernel")
        optimizer = f"(optimizer-groups (sgd) (group (lambda (p) (> (rank p) 1)) {optimizer}))"
    steps = followed(tmp_path, optimizer)
    for name in names:
        for kind, place in ((f"{case} {name}", 0), (f"{case} view {name}", 1)):
            for row, number in enumerate(KEPT):
                if kind in STEPS:
                    found = steps[number - 1][place][f"model.{name}"]
                    np.testing.assert_allclose(
                        found, STEPS[kind][row], rtol=1e-9, atol=1e-9, err_msg=f"{kind} {number}"
                    )
