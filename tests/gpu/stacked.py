"""Runs on the simulated device whose calls run a given number of microbatches, for tests of stacking."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sexpgpu.dialects.context import open_context
from sexpgpu.driver import prepared as preparing
from sexpgpu.driver.compile import Compilation, compile_in
from sexpgpu.driver.devices import Device, opened
from sexpgpu.driver.stacking import Choosing, Chosen, choose
from sexpgpu.experiment import Experiment
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.plan.records import DevicePlans
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.run import RunOptions, RunResult, run
from sexpgpu.runtime.stacking import StackedCall


@contextmanager
def by(*degrees: int) -> Iterator[None]:
    """Whatever a device would choose, these degrees are chosen, and measured where they are several."""

    def chosen(experiment: Experiment, plans: DevicePlans, by: Choosing) -> Chosen:
        return Chosen(degrees, choose(experiment, plans, by).why, dict.fromkeys(degrees, 1e-3))

    with patch.object(preparing, "choose", chosen):
        yield


@contextmanager
def prepared(
    file: Path, selection: Selection | None = None, kind: str = "sim"
) -> Iterator[tuple[Compilation, Device, Team]]:
    """An experiment prepared for a device, the simulated one, or for as many as SEXPGPU_DEVICES names."""
    with opened(kind, several=True) as device, open_context() as context:
        done = compile_in(context, file, selection or Selection(), pipeline=None)
        kernels = preparing.prepare_for(done, device)
        assert done.diagnostics.errors == []
        assert preparing.admitted(done, device, kernels) is None
        yield done, device, preparing.team_of(done, device, kernels)


def trained(file: Path, out: Path, degrees: Collection[int], **options: Any) -> list[int]:
    """A run by one degree, or by those that it measures: the degrees of its stacked calls, in order."""
    made: list[int] = []
    plain = StackedCall.__call__

    def counted(call: StackedCall, *given: Any) -> Any:
        made.append(call.degree)
        return plain(call, *given)

    def work() -> RunResult:
        with by(*degrees), prepared(file) as (_, _, team), patch.object(StackedCall, "__call__", counted):
            return run(team.calls[0].engine, RunOptions(out=out, quiet=True, **options), team=team)

    result = run_deep(work)
    assert result.error is None, result.error
    return made
