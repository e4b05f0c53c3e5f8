"""Signals in every phase of a run: what they stop, what they leave, how the process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sexpgpu.experiment import Evaluation, RunConfig
from sexpgpu.runtime.checkpoint import numbered
from sexpgpu.runtime.run import RunResult, run
from sexpgpu.runtime.signals import Signals
from tests.runtime.killing import in_child
from tests.runtime.line_fit import Function, evaluate, loader, make_engine, options, train
from tests.runtime.reading import events, last_tensors, status, timeless

CONFIG = RunConfig(6, None, 3, precision="f64")


def signalling(function: Function, number: int, call: int, times: int = 1) -> Function:
    """The graph, sending this process a signal in one of its calls."""
    count = iter(range(10_000))

    def called(*inputs: np.ndarray) -> Any:
        if next(count) == call:
            for _ in range(times):
                os.kill(os.getpid(), number)
        return function(*inputs)

    return called


def stopped_run(folder: Path, out: Path, functions: dict[str, Function]) -> RunResult:
    return run(make_engine(folder, CONFIG, functions=functions), options(out))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("call", [0, 1, 4, 5, 12])
def test_a_stop_finishes_the_step_and_commits_it(number: int, code: int, call: int, folder: Path) -> None:
    run(make_engine(folder, CONFIG), options(folder / "whole"))
    out = folder / "out"
    before = signal.getsignal(number)
    result = stopped_run(folder, out, {"train": signalling(train, number, call)})
    assert result.code == code
    assert result.error is None
    assert result.step == call // 3 + 1
    assert signal.getsignal(number) is before
    assert status(out)["state"] == "stopped"
    assert events(out)[-1]["state"] == "stopped"
    assert [step for step, _ in numbered(out / "checkpoints")] == [result.step]
    assert run(make_engine(folder, CONFIG), options(out, resume="latest")).code == 0
    assert last_tensors(out) == last_tensors(folder / "whole")
    assert timeless(out) == timeless(folder / "whole")


@pytest.mark.parametrize("call", [0, 3, 6, 7, 9, 20])
def test_a_stop_within_an_evaluation_leaves_it_for_later(call: int, folder: Path) -> None:
    run(make_engine(folder, CONFIG), options(folder / "whole"))
    out = folder / "out"
    result = stopped_run(folder, out, {"eval": signalling(evaluate, signal.SIGTERM, call)})
    assert result.code == 143
    assert run(make_engine(folder, CONFIG), options(out, resume="latest")).code == 0
    assert last_tensors(out) == last_tensors(folder / "whole")
    assert timeless(out) == timeless(folder / "whole")


def test_a_stop_in_the_last_step_is_too_late_to_matter(folder: Path) -> None:
    engine = make_engine(folder, CONFIG, evaluations=(), functions={"train": signalling(train, signal.SIGTERM, 17)})
    result = run(engine, options(folder / "out"))
    assert result.code == 0
    assert status(folder / "out")["state"] == "finished"


def test_a_checkpoint_on_request(folder: Path) -> None:
    result = stopped_run(folder, folder / "out", {"train": signalling(train, signal.SIGUSR1, 4)})
    assert result.code == 0
    assert [step for step, _ in numbered(folder / "out" / "checkpoints")] == [2, 6]


def test_a_second_signal_ends_at_once(folder: Path) -> None:
    out = folder / "out"

    def work() -> int:
        return stopped_run(folder, out, {"train": signalling(train, signal.SIGTERM, 4, times=2)}).code

    assert in_child(work) == 143
    assert [event["step"] for event in events(out, "step")] == [0]  # it did not even finish the step
    assert not (out / "checkpoints").exists()


def test_a_forked_child_does_not_answer_for_the_run() -> None:
    with Signals() as signals:

        def work() -> int:
            os.kill(os.getpid(), signal.SIGTERM)
            return 0

        assert in_child(work) == -signal.SIGTERM
        assert not signals.stopped()


def test_other_threads_leave_signals_alone(folder: Path) -> None:
    results = []
    before = signal.getsignal(signal.SIGTERM)
    engine = make_engine(folder, CONFIG, evaluations=())
    thread = threading.Thread(target=lambda: results.append(run(engine, options(folder / "out"))))
    thread.start()
    thread.join()
    assert results[0].code == 0
    assert signal.getsignal(signal.SIGTERM) is before


SLOW = """
import sys, time
from pathlib import Path
from sexpgpu.experiment import RunConfig
from sexpgpu.runtime.run import run
from tests.runtime.line_fit import make_engine, options, train

def slow(*inputs):
    time.sleep(0.02)
    return train(*inputs)

folder = Path(sys.argv[1])
engine = make_engine(folder, RunConfig(10_000, None, 3, precision="f64"), functions={"train": slow})
sys.exit(run(engine, options(folder / "out")).code)
"""


def test_a_process_is_stopped_from_outside(folder: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(folder)], cwd=root)
    try:
        deadline = time.monotonic() + 30
        stream = folder / "out" / "events.jsonl"
        while not (stream.exists() and b'"event":"step"' in stream.read_bytes()):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 143
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert status(folder / "out")["state"] == "stopped"
    assert len(numbered(folder / "out" / "checkpoints")) == 1


def test_evaluation_only_at_its_steps_hears_a_stop_too(folder: Path) -> None:
    each = (Evaluation("once", loader(folder, "l", 1, "sequential"), "eval", at=(2,)),)
    functions: dict[str, Function] = {"eval": signalling(evaluate, signal.SIGINT, 5)}
    engine = make_engine(folder, CONFIG, batch=4, evaluations=each, functions=functions)
    result = run(engine, options(folder / "out"))
    assert (result.code, result.step) == (130, 2)
    assert events(folder / "out", "eval") == []
