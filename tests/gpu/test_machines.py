"""Runs over two machines, each a process: the bits of one machine, gradients as bf16, what stops all of them."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.gpu.machines import Machines, ended, until
from tests.gpu.test_device_memory import ADAM, WIDE, memory
from tests.gpu.test_engine import MODEL, sexpgpu, steps, tensors
from tests.trace.experiments import write
from tests.trace.test_curriculum import experiment as staged

LONG = "(defrun :steps 2000 :microbatches 2 :seed 1 :checkpoint '(:every 2 :keep 2))"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Two, of an experiment that a test writes to this place."""
    found = Machines(tmp_path / "experiment.sx", tmp_path / "machines")
    yield found
    found.close()


def one_machine(file: Path, ranks: int) -> Path:
    out = file.parent / "one"
    names = ",".join(map(str, range(ranks)))
    done = sexpgpu("run", file, "--device", "sim", "--out", out, "--quiet", SEXPGPU_DEVICES=names)
    assert done.returncode == 0, done.stderr
    return out


def trained(machines: Machines, *flags: object, **environment: str) -> Path:
    for code, text in machines.run("--quiet", *flags, **environment):
        assert code == 0, text
    return machines.out


def same(one: Path, several: Path) -> None:
    assert steps(several) == steps(one)
    wanted, found = tensors(one), tensors(several)
    assert wanted.keys() == found.keys()
    assert all(np.array_equal(found[key], array) for key, array in wanted.items())


DROPOUT = """(defmodel net ()
  (defsub out (linear width 2))
  (defbuffer centre () :init (zeros-init))
  (forward (x) (when (training-p) (set-buffer centre (lerp centre (mean x) 0.5))) (out (dropout (- x centre) 0.5))))"""


def test_two_machines_train_the_bits_of_one_with_two_ranks(machines: Machines, tmp_path: Path) -> None:
    """Averaged buffers, dropout, clipping, an evaluation, a batch of an epoch's end that is shorter."""
    run = "(defrun :steps 3 :microbatches 4 :clip-norm 0.05 :seed 1)"
    file = write(tmp_path, model=DROPOUT, run=run, optimizer="(def optimizer (adam :lr 0.1))")
    same(one_machine(file, 2), trained(machines, SEXPGPU_NODE_GRADIENTS="f32"))


def test_two_machines_of_two_gpus_train_the_bits_of_four_ranks(machines: Machines, tmp_path: Path) -> None:
    file = write(tmp_path, model=MODEL, run="(defrun :steps 2 :microbatches 4 :seed 1)")
    same(one_machine(file, 4), trained(machines, SEXPGPU_NODE_GRADIENTS="f32", SEXPGPU_DEVICES="0,1"))


PRECISE = "(defun prepare (batch) (values (cast (field batch 'x) :float) (field batch 'y)))"


@pytest.mark.parametrize(
    ("count", "parts"),
    [
        pytest.param(2, {"run": "(defrun :steps 2 :microbatches 2 :seed 1 :precision :bf16)"}, id="bf16"),
        pytest.param(
            2, {"run": "(defrun :steps 2 :microbatches 2 :seed 1 :precision :f64)", "prepare": PRECISE}, id="f64"
        ),
        pytest.param(3, {"run": "(defrun :steps 3 :microbatches 3 :seed 1)"}, id="three machines"),
    ],
)
def test_precisions_and_more_machines(machines: Machines, tmp_path: Path, count: int, parts: dict[str, str]) -> None:
    machines.count = count
    file = write(tmp_path, model=MODEL, **parts)
    same(one_machine(file, count), trained(machines, SEXPGPU_NODE_GRADIENTS="f32"))


def test_a_deterministic_run_is_that_of_one_device_whatever_gradients_travel_as(
    machines: Machines, tmp_path: Path
) -> None:
    file = write(tmp_path, model=MODEL, run="(defrun :steps 2 :microbatches 4 :seed 1 :deterministic t)")
    same(one_machine(file, 1), trained(machines))


def test_masked_means_and_buffers_of_each_microbatch(machines: Machines, tmp_path: Path) -> None:
    """A pass for the step's totals goes before; a recurrent state is kept for each microbatch."""
    model = """(defmodel net ()
  (defsub out (linear width 2))
  (defbuffer seen () :init (zeros-init) :per-microbatch t)
  (forward (x) (when (training-p) (set-buffer seen (+ (* 0.5 seen) (mean x)))) (out (+ x seen))))"""
    objective = """(defun objective (logits labels)
  (cross-entropy logits labels :ignore-index 0))"""
    file = write(tmp_path, model=model, objective=objective, run="(defrun :steps 3 :microbatches 2 :seed 1)")
    same(one_machine(file, 2), trained(machines, SEXPGPU_NODE_GRADIENTS="f32"))


SCALED = """(defmodel net () (defsub out (linear width 2)) (defparam gain () :init (constant-init 1.0))
  (forward (x) (* gain (out x))))"""


def test_bf16_gradients_are_near_and_their_errors_are_made_up_for(machines: Machines, tmp_path: Path) -> None:
    """Plain descent: after many steps the sum of rounding errors is that of one step, not of all.

    Gradients are below 1/4 here, so that half their last bit is 2**-11, once for a gradient and once for a sum.
    """
    run = "(defrun :steps 40 :microbatches 2 :seed 1)"
    file = write(tmp_path, model=SCALED, run=run, optimizer="(def optimizer (sgd :lr 0.01))", eval="")
    exact, near = tensors(one_machine(file, 2)), tensors(trained(machines))
    assert any(not np.array_equal(near[key], array) for key, array in exact.items())
    for key, array in exact.items():
        assert np.allclose(near[key], array, rtol=0, atol=0.01 * 2**-10), key


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("gradients", ["f32", "bf16"])
def test_machines_hold_what_was_planned(machines: Machines, tmp_path: Path, precision: str, gradients: str) -> None:
    run = f"(defrun :steps 2 :microbatches 4 :precision :{precision} :seed 1)"
    write(tmp_path, model=WIDE, optimizer=ADAM, run=run, eval="")
    _, last = memory(trained(machines, SEXPGPU_NODE_GRADIENTS=gradients))
    assert 0.85 * last["planned"] <= last["peak"] <= last["planned"]


def test_machine_0_alone_writes_the_run(machines: Machines, tmp_path: Path) -> None:
    write(tmp_path, run="(defrun :steps 2 :microbatches 2 :seed 1)")
    other = tmp_path / "other"
    first = machines.start(0)
    machines.out = other
    second = machines.start(1)
    (code, told), (other_code, other_told) = ended([first, second])
    assert (code, other_code) == (0, 0), told + other_told
    assert f"machine 1 of 2: waiting for the others at 127.0.0.1:{machines.port}\n" in other_told
    assert "machine 1 of 2: finished at step 2 of 2" in other_told
    assert not other.exists()
    assert {path.name for path in (tmp_path / "machines").iterdir()} >= {"events.jsonl", "status.json", "checkpoints"}


@pytest.mark.parametrize("devices", ["0", "0,1"])
def test_what_rounding_took_is_kept_with_a_checkpoint(machines: Machines, tmp_path: Path, devices: str) -> None:
    """Of the gradients of every rank and of their sums: the run that goes on is the one that never stopped."""
    write(tmp_path, model=SCALED, run="(defrun :steps 6 :microbatches 4 :seed 1)", optimizer="(def optimizer (adam))")
    whole, machines.out = trained(machines, SEXPGPU_DEVICES=devices), tmp_path / "parts"
    trained(machines, "--steps", 3, SEXPGPU_DEVICES=devices)
    kept = [key for key in tensors(machines.out) if key.startswith("rounding/")]
    ranks = 2 * len(devices.split(","))
    assert {key.split("/")[1] for key in kept} == {*map(str, range(ranks)), "sum"}
    assert any(tensors(machines.out)[key].any() for key in kept)
    trained(machines, "--resume", "latest", SEXPGPU_DEVICES=devices)
    same(whole, machines.out)


def test_a_run_that_sends_exactly_says_that_it_loses_what_rounding_took(machines: Machines, tmp_path: Path) -> None:
    write(tmp_path, run="(defrun :steps 3 :microbatches 2 :seed 1)")
    trained(machines, "--steps", 2)
    results = machines.run("--quiet", "--resume", "latest", SEXPGPU_NODE_GRADIENTS="f32")
    assert [code for code, _ in results] == [0, 0]
    assert "warning[W-CKPT-006]" in results[0][1]
    assert not any(key.startswith("rounding/") for key in tensors(machines.out))


def test_a_run_that_is_resumed_is_the_run_that_never_stopped(machines: Machines, tmp_path: Path) -> None:
    file = write(tmp_path, optimizer="(def optimizer (adam :lr 0.1))", run="(defrun :steps 4 :microbatches 2 :seed 1)")
    whole = one_machine(file, 2)
    trained(machines, "--steps", 2, SEXPGPU_NODE_GRADIENTS="f32")
    trained(machines, "--resume", "latest", SEXPGPU_NODE_GRADIENTS="f32")
    same(whole, machines.out)
    alone = sexpgpu("run", file, "--device", "sim", "--out", machines.out, "--resume", "latest", SEXPGPU_DEVICES="0,1")
    assert alone.returncode == 1
    assert "E-DP-002" in alone.stderr
    assert "written by another number of machines" in alone.stderr


@pytest.mark.parametrize("machine", [0, 1])
def test_a_machine_that_is_killed_ends_the_others(machines: Machines, tmp_path: Path, machine: int) -> None:
    write(tmp_path, run=LONG)
    both = [machines.start(0), machines.start(1)]
    until(machines.out / "events.jsonl", "checkpoint", both[0])
    began = time.monotonic()
    both[machine].send_signal(signal.SIGKILL)
    results = ended(both)
    assert time.monotonic() - began < 20
    code, text = results[1 - machine]
    assert code == 1
    assert "E-DP-007" in text
    assert f"machine {machine} left the run" in text
    assert "  help: start every machine again with `--resume latest`" in text


def test_a_machine_that_is_silent_is_lost(machines: Machines, tmp_path: Path) -> None:
    write(tmp_path, run=LONG)
    machines.wait = 8
    both = [machines.start(0), machines.start(1)]
    until(machines.out / "events.jsonl", "checkpoint", both[0])
    both[1].send_signal(signal.SIGSTOP)
    ((code, text),) = ended(both[:1])
    assert code == 1
    assert "machine 1 left the run" in text
    assert "it has said nothing for 8 s" in text


@pytest.mark.parametrize("machine", [0, 1])
def test_a_signal_to_one_machine_stops_all_after_a_checkpoint(machines: Machines, tmp_path: Path, machine: int) -> None:
    write(tmp_path, run=LONG)
    both = [machines.start(0), machines.start(1)]
    until(machines.out / "events.jsonl", "step", both[0])
    both[machine].send_signal(signal.SIGTERM)
    assert [code for code, _ in ended(both)] == [143, 143]
    assert '"state":"stopped"' in (machines.out / "status.json").read_text("utf-8")
    assert tensors(machines.out)


def test_signals_to_all_machines_at_once_are_one(machines: Machines, tmp_path: Path) -> None:
    write(tmp_path, run=LONG)
    both = [machines.start(0), machines.start(1)]
    until(machines.out / "events.jsonl", "step", both[0])
    for process in both[::-1]:
        process.send_signal(signal.SIGTERM)
    assert [code for code, _ in ended(both)] == [143, 143]
    assert tensors(machines.out)


def test_memory_that_ends_on_one_machine_ends_the_run(machines: Machines, tmp_path: Path) -> None:
    write(tmp_path, run=LONG)
    machines.program = ("tests.gpu.planted", machines.file, machines.out, "memory")
    second = machines.start(1)
    machines.program = ()
    (code, text), (other_code, other_text) = ended([machines.start(0, "--quiet"), second])
    assert (code, other_code) == (1, 1)
    assert other_text.startswith("E-MEM-003\nstep 1, microbatch 1: the device has no memory for it")
    assert "machine 1 left the run" in text
    assert "E-MEM-003: step 1, microbatch 1" in text


def test_a_number_that_does_not_fit_on_one_machine_is_told_by_both(machines: Machines, tmp_path: Path) -> None:
    """The last record has a label that no class has; the second microbatch of the second step reads it."""
    file = write(tmp_path, run="(defrun :steps 4 :microbatches 2 :seed 1)")
    labels = np.load(file.parent / "y.npy")
    labels[5] = 7
    np.save(file.parent / "y.npy", labels)
    (code, text), (other_code, other_text) = machines.run()
    assert (code, other_code) == (1, 1)
    assert "E-DP-007" in text
    assert "machine 1 left the run" in text
    assert f"E-VALUE-101: cross_entropy: an index lies outside the axis: index 7 ({file}:" in text
    assert "  help: mend what ended it, then start every machine again with `--resume latest`" in text
    assert "error[E-VALUE-101]" in other_text


def test_steps_that_are_not_finite_are_refused_on_all(machines: Machines, tmp_path: Path) -> None:
    file = write(tmp_path, run="(defrun :steps 9 :microbatches 2 :seed 1)", eval="")
    values = np.load(file.parent / "x.npy")
    values[5] = np.inf
    np.save(file.parent / "x.npy", values)
    (code, text), (other_code, other_text) = machines.run()
    assert "W-NUM-001" in text
    assert code == other_code, text + other_text


def test_a_curriculum_of_machine_0_moves_all(machines: Machines, tmp_path: Path) -> None:
    """Machine 0 evaluates and chooses the stage, which decides what all read; its graphs know the stage too."""
    file = staged(tmp_path, run="(defrun :steps 14 :seed 1 :microbatches 2)", optimizer="(def optimizer (sgd :lr 0.3))")
    machines.file = file
    one, several = one_machine(file, 2), trained(machines, SEXPGPU_NODE_GRADIENTS="f32")
    assert {step["train/stage"] for step in steps(several)} > {0.0}
    same(one, several)


def test_a_checkpoint_that_a_signal_to_machine_1_asks_for(machines: Machines, tmp_path: Path) -> None:
    write(tmp_path, run="(defrun :steps 2000 :microbatches 2 :seed 1)")
    both = [machines.start(0), machines.start(1)]
    until(machines.out / "events.jsonl", "step", both[0])
    both[1].send_signal(signal.SIGUSR1)
    until(machines.out / "events.jsonl", "checkpoint", both[0])
    both[0].send_signal(signal.SIGINT)
    assert [code for code, _ in ended(both)] == [130, 130]


def test_a_stranger_is_let_go(machines: Machines, tmp_path: Path) -> None:
    """One says nothing, one sends what is no hello, one goes away in the middle of one, many come at once."""
    write(tmp_path, run="(defrun :steps 2 :microbatches 2 :seed 1)")
    first = machines.start(0, "--quiet")
    silent = connected(machines.port)
    loud = [connected(machines.port) for _ in range(70)]
    for number, each in enumerate(loud):
        each.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" if number % 2 else b"sxgp\x01\x01\x00\x00\xff\xff\xff\xff")
    half = connected(machines.port)
    half.sendall(b"sxgp\x01\x01")
    half.close()
    second = machines.start(1, "--quiet")
    for code, text in ended([first, second]):
        assert code == 0, text
    for each in (silent, *loud):
        each.close()


def connected(port: int) -> socket.socket:
    """A connection, when somebody listens."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
