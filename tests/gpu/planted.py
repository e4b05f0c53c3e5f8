"""`python -m tests.gpu.planted FILE OUT FAULT`: simulated GPUs train, and one of them has a fault in the second step.

`memory`: it has none to give any more. `bit`: an element of a parameter that it holds becomes another number.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from attrs import define, fields

from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import compile_in
from sexpgpu.driver.devices import opened
from sexpgpu.driver.pipeline import EVERY
from sexpgpu.driver.prepared import admitted, prepare_for, team_of
from sexpgpu.gpu.memory import DeviceArray
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.runtime.calls import Tensors
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.run import RunOptions, run

PARAMETER = "model.out.weight"
ELEMENT, NUMBER = 5, 0.5
_ASKED = {"memory": 4, "bit": 5}
"""When: a step asks for the tensors of all ranks three times, a checkpoint once; the bit changes behind one."""


@define
class Unlucky(Team):
    """The ranks of a process, to the last of which the fault happens."""

    fault: str = ""
    asked: int = 0

    def tensors(self, own: Tensors) -> list[Tensors]:
        found = super().tensors(own)
        self.asked += 1
        if self.asked == _ASKED[self.fault]:
            _happen(self.fault, found[-1].params[PARAMETER])
        return found


def _happen(fault: str, weight: DeviceArray) -> None:
    pool = weight.memory.pool
    if fault == "memory":
        assert isinstance(pool.driver, SimDriver)
        pool.release()
        pool.driver.total = 0
        return
    values = weight.numpy()
    values.reshape(-1)[ELEMENT] = np.float32(NUMBER)
    pool.driver.copy_in(weight.address, values)
    pool.writes += 1


def main(file: Path, out: Path, fault: str) -> int:
    with opened("sim", several=True) as device, open_context() as context:
        done = run_deep(lambda: compile_in(context, file, Selection(), pipeline=None, passes=EVERY))
        kernels = prepare_for(done, device)
        assert admitted(done, device, kernels) is None
        whole = team_of(done, device, kernels)
        team = Unlucky(**{each.name: getattr(whole, each.name) for each in fields(Team)}, fault=fault)
        result = run(team.calls[0].engine, RunOptions(out=out, quiet=True), team=team)
    if result.error is not None:
        said = result.error
        print(said.code, said.message, said.expected, said.actual, said.help, sep="\n")  # noqa: T201
    return result.code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
