"""Stacked graphs give what calls of one microbatch give, bit for bit: whole steps of examples on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.signature import read_graph
from sexpgpu.driver.compile import Compilation, compile_in, conclude, finish
from sexpgpu.driver.degrees import ask_for_stacks
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.pipeline import run_named
from sexpgpu.driver.planning import plans_of
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.passes.base import graphs, run_pipeline
from sexpgpu.passes.stack import Stack
from sexpgpu.runtime.arrays import HostArrays
from sexpgpu.runtime.calls import Calls
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.run import RunOptions, run
from sexpgpu.runtime.stacking import Stacking
from tests.runtime.reading import last_tensors, timeless

EXAMPLES = ("shakespeare", "char-lstm", "moons", "digits", "wgan-gp", "moe-gpt")
"""Attention and dropout; loops and buffers of each microbatch; f64; ragged epochs; gradients of gradients; experts."""


def compiled(done: Compilation, degree: int) -> None:
    """The pipeline of the CPU, with a stacked graph beside that of one microbatch."""
    assert done.traced is not None
    ask_for_stacks(done.traced, done.module, (1, degree))
    finish(done)
    run_pipeline(done.module, done.context, [Stack()])
    run_named(done.module, done.context, "cpu")
    conclude(done, map(read_graph, graphs(done.module)))
    done.plans = plans_of(done.module, done.context)


def trained(file: Path, text: str, out: Path, degree: int) -> None:
    def work() -> None:
        with open_context() as context:
            overlay = {str(file): text}
            done = compile_in(context, file, Selection("smoke"), pipeline=None, overlay=overlay)
            assert done.diagnostics.errors == []
            compiled(done, 2)
            team = Team([Calls(CpuEngine(done), HostArrays())], stacking=Stacking({2: "train stacked 2"}, degree))
            options = RunOptions(out=out, quiet=True, steps=2)
            assert run(team.calls[0].engine, options, team=team).error is None
            assert bool(team.stacking.calls) == (degree > 1), "stacked graphs were called"

    run_deep(work)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_train_alike(name: str, root: Path, tmp_path: Path) -> None:
    """Two microbatches are all of a step, so that even the sums of gradients are those of two calls."""
    file = root / "examples" / f"{name}.sx"
    text = file.read_text("utf-8").replace(":microbatches 1", "").replace("(defrun ", "(defrun :microbatches 2 ")
    for degree in (1, 2):
        trained(file, text, tmp_path / str(degree), degree)
    assert timeless(tmp_path / "2", "step") == timeless(tmp_path / "1", "step")
    one, two = last_tensors(tmp_path / "1"), last_tensors(tmp_path / "2")
    assert one.keys() == two.keys()
    for key, (dtype, shape, data) in one.items():
        assert two[key] == (dtype, shape, data), (key, np.frombuffer(data, dtype), np.frombuffer(two[key][2], dtype))
