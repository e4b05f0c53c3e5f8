"""Several GPUs of one process, against stand-ins for the bindings of CUDA and NCCL: no machine with GPUs ran this."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sexpgpu.diag import SxError
from sexpgpu.driver.devices import opened
from sexpgpu.gpu import cubin, nccl, probe
from sexpgpu.gpu.choices import Choices
from sexpgpu.gpu.collectives import DeviceLinks
from sexpgpu.gpu.contexts import Turn
from sexpgpu.gpu.cuda import CudaDriver, open_cuda
from sexpgpu.gpu.driver import Call
from sexpgpu.gpu.library import opened as library
from sexpgpu.gpu.library.choice import Libraries
from sexpgpu.gpu.memory import Pool
from sexpgpu.gpu.ranks import one_kind
from sexpgpu.gpu.transfer import upload
from sexpgpu.lang.limits import run_deep
from sexpgpu.runtime.ranks import Links
from sexpgpu.runtime.run import RunOptions, RunResult, run
from sexpgpu.tensortype import TensorType
from tests.gpu.cuda_api import Api
from tests.gpu.cuda_machine import Gpus, Nccl
from tests.gpu.stacked import prepared
from tests.gpu.test_cuda import FromText
from tests.gpu.test_engine import MODEL, evaluated, steps, tensors
from tests.trace.experiments import write

TYPE = TensorType((40,), "f32")


@pytest.fixture
def api() -> Gpus:
    return Gpus()


@pytest.fixture
def stand_in(api: Gpus) -> Nccl:
    return Nccl(api, pytest.importorskip("nccl.core"))


def open_both(api: Gpus, turn: Turn) -> list[CudaDriver]:
    return [open_cuda(ordinal, api, FromText(), turn) for ordinal in (0, 1)]


def joined(api: Gpus, stand_in: Nccl) -> tuple[list[Pool], Links]:
    turn = Turn()
    drivers = open_both(api, turn)
    collective = nccl.open_nccl(stand_in, (0, 1), drivers, turn)
    pools = [Pool(driver) for driver in drivers]
    return pools, DeviceLinks(pools, collective)


def test_a_call_goes_to_the_gpu_it_is_for(api: Gpus) -> None:
    pools = [Pool(driver) for driver in open_both(api, Turn())]
    arrays = [upload(pool, np.full(40, rank, np.float32), TYPE) for rank, pool in enumerate(pools)]
    before = api.switches
    assert [array.numpy()[0] for array in arrays] == [0, 1]
    assert [array.numpy()[0] for array in reversed(arrays)] == [1, 0]
    # Once where the GPU changes: 1 to 0, 0 to 1, 1 to 0.
    assert api.switches == before + 3


def test_a_library_finds_its_gpu_current(api: Gpus) -> None:
    seen: list[int] = []
    for driver in open_both(api, Turn()):
        driver.run(Call(lambda addresses: seen.append(api.current), np.zeros(0, np.uint64)))
    assert seen == [0, 1]


def test_one_gpu_calls_the_bindings_themselves() -> None:
    plain = Api()
    assert open_cuda(0, plain, FromText()).api is plain


def test_arrays_of_all_ranks_become_their_sum(api: Gpus, stand_in: Nccl) -> None:
    pools, links = joined(api, stand_in)
    several = [[upload(pool, np.full(40, n + r, np.float32), TYPE) for r, pool in enumerate(pools)] for n in (1, 5)]
    links.add(several)
    assert [[array.numpy()[3] for array in each] for each in several] == [[3, 3], [11, 11]]


@pytest.mark.parametrize("rank", [0, 1])
def test_an_array_of_one_rank_goes_to_all(api: Gpus, stand_in: Nccl, rank: int) -> None:
    pools, links = joined(api, stand_in)
    array = upload(pools[rank], np.arange(40, dtype=np.float32), TYPE)
    copies = links.copies(array, rank)
    assert copies[rank] is array
    assert all(np.array_equal(copy.numpy(), np.arange(40)) for copy in copies)


def test_what_nccl_refuses_is_told(api: Gpus, stand_in: Nccl) -> None:
    pools, links = joined(api, stand_in)
    array = upload(pools[0], np.zeros(40, np.float32), TYPE)
    stand_in.failing = True
    with pytest.raises(SxError) as raised:
        links.copies(array, 0)
    told = raised.value.diagnostic
    assert (told.code, told.actual) == ("E-DEV-005", "unhandled system error")


def trained(file: Path, out: Path) -> Path:
    """A run on the devices that the environment names, as a command has it."""

    def work() -> RunResult:
        with prepared(file, kind="cuda") as (_, device, team):
            assert device.words == "cuda compute_80 Test GPU, 2 ranks"
            return run(team.calls[0].engine, RunOptions(out=out, quiet=True), team=team)

    result = run_deep(work)
    assert result.error is None, result.error
    return out


@pytest.mark.parametrize("deterministic", ["", ":deterministic t"])
def test_two_gpus_train_what_two_simulated_ones_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: Gpus, stand_in: Nccl, deterministic: str
) -> None:
    """The whole of the way: contexts, memory, launches, graphs of launches, sums by NCCL, or by broadcasts."""
    monkeypatch.setenv("SEXPGPU_DEVICES", "0,1")
    run_form = f"(defrun :steps 4 :microbatches 4 :clip-norm 0.05 :seed 1 {deterministic})"
    file = write(tmp_path, model=MODEL, run=run_form, optimizer="(def optimizer (adam :lr 0.1))")

    def simulated() -> RunResult:
        with prepared(file) as (_, _, team):
            return run(team.calls[0].engine, RunOptions(out=tmp_path / "sim", quiet=True), team=team)

    assert run_deep(simulated).error is None
    monkeypatch.setattr(probe, "require_bindings", lambda: api)
    monkeypatch.setattr(nccl, "require_nccl", lambda: stand_in)
    monkeypatch.setattr(cubin, "Assembler", lambda folder: FromText())
    monkeypatch.setattr(library, "open_libraries", lambda *given: Libraries({}, Choices()))
    cuda = trained(file, tmp_path / "cuda")
    assert steps(cuda) == steps(tmp_path / "sim")
    assert evaluated(cuda) == evaluated(tmp_path / "sim")
    wanted, found = tensors(tmp_path / "sim"), tensors(cuda)
    assert all(np.array_equal(found[key], array) for key, array in wanted.items())
    assert all(made.destroyed for made in stand_in.made)


def test_a_verb_that_takes_one_gpu_needs_no_nccl(monkeypatch: pytest.MonkeyPatch, api: Gpus) -> None:
    def missing() -> Any:
        raise AssertionError

    monkeypatch.setattr(probe, "require_bindings", lambda: api)
    monkeypatch.setattr(nccl, "require_nccl", missing)
    monkeypatch.setattr(library, "open_libraries", lambda *given: Libraries({}, Choices()))
    with opened("cuda") as device:
        assert (device.words, device.others, device.links) == ("cuda compute_80 Test GPU", (), None)


def test_gpus_of_two_kinds() -> None:
    one_kind((0, 2), ((9, 0), (9, 0)))
    with pytest.raises(SxError) as raised:
        one_kind((0, 2), ((9, 0), (8, 0)))
    assert (raised.value.diagnostic.code, raised.value.diagnostic.actual) == ("E-DP-001", "8.0 for GPU 2")


ASKED = """
import os
from sexpgpu.diag import SxError
from sexpgpu.gpu.nccl import require_nccl
try:
    require_nccl()
except SxError as fault:
    print(fault.diagnostic.code)
print(os.environ["NCCL_RUNTIME_CONNECT"])
"""


@pytest.mark.parametrize(("said", "wanted"), [({}, "0"), ({"NCCL_RUNTIME_CONNECT": "1"}, "1")])
def test_memory_is_taken_with_the_communicators_unless_it_is_said_otherwise(said: dict[str, str], wanted: str) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "NCCL_RUNTIME_CONNECT"}
    done = subprocess.run([sys.executable, "-c", ASKED], env=kept | said, text=True, capture_output=True)
    assert done.stdout.splitlines()[-1] == wanted, done.stderr


def test_nccl_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nccl.core", None)
    with pytest.raises(SxError) as raised:
        nccl.require_nccl()
    assert raised.value.diagnostic.code == "E-DEV-010"
    assert "sexpgpu[cuda,nccl]" in str(raised.value.diagnostic.help)
