"""Plans: steps of runs in epochs, cadences of evaluations, and independence from where a run stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sexpgpu.diag import SxError
from sexpgpu.experiment import Evaluation, RunConfig
from sexpgpu.runtime.plan import evaluation_steps, make_plan, turns
from tests.runtime.line_fit import loader


def evaluation(**how: Any) -> Evaluation:
    return Evaluation("val", loader(Path("data"), "val-loader", 4, "sequential"), "eval", **how)


def test_a_run_in_epochs_reads_each_record_and_no_more() -> None:
    plan = make_plan(RunConfig(None, 3, microbatches=4), 6, None)
    assert (plan.steps, plan.batches) == (5, 18)
    assert [list(plan.batches_of(s)) for s in (0, 4)] == [[0, 1, 2, 3], [16, 17]]
    assert [plan.epochs_before(s) for s in range(6)] == [0, 0, 1, 2, 2, 3]


def test_stopping_sooner_changes_nothing_before() -> None:
    long = make_plan(RunConfig(100, None, 2), 7, None)
    short = make_plan(RunConfig(100, None, 2), 7, 10)
    assert short.stop == 10
    assert [short.batches_of(s) for s in range(10)] == [long.batches_of(s) for s in range(10)]
    assert short.steps == 100
    with pytest.raises(SxError, match="E-RUN-101"):
        make_plan(RunConfig(100, None), 7, 101)


def test_cadences() -> None:
    plan = make_plan(RunConfig(20, None, 3), 6, None)
    assert evaluation_steps(evaluation(every=6), plan) == [6, 12, 18]
    assert evaluation_steps(evaluation(every=10, at_start=True), plan) == [0, 10, 20]
    assert evaluation_steps(evaluation(every="epoch"), plan) == list(range(2, 21, 2))
    assert evaluation_steps(evaluation(at=(3, 19, 25)), plan) == [3, 19]


def test_the_last_step_is_evaluated_and_counts_go_on() -> None:
    plan = make_plan(RunConfig(20, None), 6, None)
    each = turns(evaluation(every=6, at_start=True), plan)
    assert [each.index_at(s, 20) for s in (0, 5, 6, 18, 20)] == [0, None, 1, 3, 4]
    assert [each.index_at(s, 8) for s in (6, 8)] == [1, 2]
    assert each.index_at(12, 20) == 2  # as if nothing had stopped at 8
    listed = turns(evaluation(at=(3,)), plan)
    assert [listed.index_at(s, 20) for s in (3, 20)] == [0, None]
