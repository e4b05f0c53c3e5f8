"""Several GPUs of one process, against stand-ins for the bindings of CUDA and NCCL: whose context is current when, and
calls that fit the signatures of nccl4py. No machine with GPUs has run this.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from attrs import define, field

from sexpgpu.diag import SxError
from sexpgpu.gpu.collectives import DeviceLinks
from sexpgpu.gpu.contexts import Turn
from sexpgpu.gpu.cuda import CudaDriver, open_cuda
from sexpgpu.gpu.driver import Call
from sexpgpu.gpu.memory import Pool
from sexpgpu.gpu.nccl import NcclCollective, open_nccl, require_nccl
from sexpgpu.gpu.ranks import one_kind
from sexpgpu.gpu.transfer import upload
from sexpgpu.runtime.ranks import Links
from sexpgpu.tensortype import TensorType
from tests.gpu.cuda_api import OK, Api
from tests.gpu.test_cuda import FromText

TYPE = TensorType((40,), "f32")


@define(eq=False)
class Gpus(Api):
    """Two GPUs, each with memory and a stream of its own: what a call touches has to be of the current context."""

    count: int = 2
    current: int = -1
    owners: dict[int, int] = field(factory=dict)

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return OK, device

    def cuCtxSetCurrent(self, context: int) -> Any:  # type: ignore[override]
        self.current = context
        return (OK,)

    def cuStreamCreate(self, flags: str) -> Any:
        return OK, 100 + self.current

    def cuMemAlloc(self, nbytes: int) -> Any:
        result, address = Api.cuMemAlloc(self, nbytes)
        self.owners[address] = self.current
        return result, address

    def cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> Any:  # type: ignore[override]
        self.of_current(target, stream)
        return self._move(target, source, nbytes)

    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: int) -> Any:  # type: ignore[override]
        self.of_current(source, stream)
        return self._move(target, source, nbytes)

    def of_current(self, address: int, stream: int) -> None:
        base = max(each for each in self.owners if each <= address)
        assert self.owners[base] == self.current == stream - 100


def opened(api: Any, turn: Turn) -> list[CudaDriver]:
    return [open_cuda(ordinal, api, FromText(), turn) for ordinal in (0, 1)]


def test_a_call_goes_to_the_gpu_it_is_for() -> None:
    api, turn = Gpus(), Turn()
    pools = [Pool(driver) for driver in opened(api, turn)]
    arrays = [upload(pool, np.full(40, rank, np.float32), TYPE) for rank, pool in enumerate(pools)]
    before = api.calls.count("cuCtxSetCurrent")
    assert [array.numpy()[0] for array in arrays] == [0, 1]
    assert [array.numpy()[0] for array in reversed(arrays)] == [1, 0]
    # Once where the GPU changes: 1 to 0, 0 to 1, 1 to 0.
    assert api.calls.count("cuCtxSetCurrent") == before + 3


def test_a_library_finds_its_gpu_current() -> None:
    api, turn = Gpus(), Turn()
    drivers = opened(api, turn)
    seen: list[int] = []
    for driver in drivers:
        driver.run(Call(lambda addresses: seen.append(api.current), np.zeros(0, np.uint64)))
    assert seen == [0, 1]


def test_one_gpu_calls_the_bindings_themselves() -> None:
    api = Api()
    driver = open_cuda(0, api, FromText())
    assert driver.api is api


@define(eq=False)
class Rank:
    """What NCCL does, in this process's memory; every call has to fit the real class's method."""

    nccl: Nccl
    rank: int
    destroyed: bool = False

    def allreduce(self, *given: Any, **named: Any) -> None:
        call = self.nccl.fitting("allreduce", given, named)
        assert call["op"] == self.nccl.SUM
        assert call["stream"] == 100 + self.rank
        self.nccl.queue("allreduce", self.rank, view(call["sendbuf"]), view(call["recvbuf"]))

    def broadcast(self, *given: Any, **named: Any) -> None:
        call = self.nccl.fitting("broadcast", given, named)
        assert call["stream"] == 100 + self.rank
        self.nccl.queue(f"broadcast {call['root']}", self.rank, view(call["sendbuf"]), view(call["recvbuf"]))

    def destroy(self) -> None:
        self.destroyed = True


def view(memory: Any) -> np.ndarray:
    shown = memory.__cuda_array_interface__
    assert (shown["version"], shown["strides"]) == (3, None)
    dtype = np.dtype(shown["typestr"])
    count = shown["shape"][0]
    whole = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(shown["data"][0])
    return np.frombuffer(whole, dtype)


@define(eq=False)
class Nccl:
    """Stands for `nccl.core`; operations of all ranks happen when their group ends, as they do there."""

    api: Gpus
    real: Any
    SUM: str = "sum"
    made: list[Rank] = field(factory=list)
    queued: list[tuple[str, int, np.ndarray, np.ndarray]] = field(factory=list)
    failing: bool = False

    @property
    def Communicator(self) -> Any:
        return self

    def init_all(self, devices: Sequence[int]) -> list[Rank]:
        inspect.signature(self.real.Communicator.init_all).bind(devices)
        self.made = [Rank(self, rank) for rank in range(len(devices))]
        self.api.current = 7  # another's context is left current
        return self.made

    def fitting(self, method: str, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        bound = inspect.signature(getattr(self.real.Communicator, method)).bind(None, *given, **named)
        return dict(bound.arguments)

    def queue(self, what: str, rank: int, source: np.ndarray, target: np.ndarray) -> None:
        assert self.real.NcclDataType(source.dtype) is not None
        self.queued.append((what, rank, source, target))

    @contextmanager
    def group(self) -> Iterator[None]:
        yield
        if self.failing:
            raise RuntimeError("unhandled system error")
        queued, self.queued = self.queued, []
        for start in range(0, len(queued), 2):
            (what, zero, first, to_first), (other, one, second, to_second) = queued[start : start + 2]
            assert (what, zero, one) == (other, 0, 1)
            result = first + second if what == "allreduce" else (first, second)[int(what[-1])].copy()
            to_first[:] = to_second[:] = result
        self.api.current = 7


@pytest.fixture
def nccl() -> Nccl:
    real = pytest.importorskip("nccl.core")
    return Nccl(Gpus(), real)


def joined(nccl: Nccl) -> tuple[list[Pool], Links, NcclCollective]:
    turn = Turn()
    drivers = opened(nccl.api, turn)
    collective = open_nccl(nccl, (0, 1), drivers, turn)
    pools = [Pool(driver) for driver in drivers]
    return pools, DeviceLinks(pools, collective), collective


def test_arrays_of_all_ranks_become_their_sum(nccl: Nccl) -> None:
    pools, links, _ = joined(nccl)
    several = [
        [upload(pool, np.full(40, n + rank, np.float32), TYPE) for rank, pool in enumerate(pools)] for n in (1, 5)
    ]
    links.add(several)
    assert [[array.numpy()[3] for array in each] for each in several] == [[3, 3], [11, 11]]


@pytest.mark.parametrize("rank", [0, 1])
def test_an_array_of_one_rank_goes_to_all(nccl: Nccl, rank: int) -> None:
    pools, links, _ = joined(nccl)
    array = upload(pools[rank], np.arange(40, dtype=np.float32), TYPE)
    copies = links.copies(array, rank)
    assert copies[rank] is array
    assert all(np.array_equal(copy.numpy(), np.arange(40)) for copy in copies)


def test_what_nccl_refuses_is_told(nccl: Nccl) -> None:
    pools, links, _ = joined(nccl)
    nccl.failing = True
    with pytest.raises(SxError) as raised:
        links.copies(upload(pools[0], np.zeros(40, np.float32), TYPE), 0)
    told = raised.value.diagnostic
    assert (told.code, told.actual) == ("E-DEV-005", "unhandled system error")


def test_communicators_end_before_the_gpus(nccl: Nccl) -> None:
    _, links, _ = joined(nccl)
    links.close()
    assert all(made.destroyed for made in nccl.made)


def test_gpus_of_two_kinds() -> None:
    one_kind((0, 2), ((9, 0), (9, 0)))
    with pytest.raises(SxError) as raised:
        one_kind((0, 2), ((9, 0), (8, 0)))
    assert (raised.value.diagnostic.code, raised.value.diagnostic.actual) == ("E-DP-001", "8.0 for GPU 2")


def in_process(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, text=True, capture_output=True
    )
    return done.stdout + done.stderr


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


def test_memory_is_taken_with_the_communicators_unless_it_is_said_otherwise() -> None:
    assert in_process(ASKED).splitlines()[-1] == "0"
    assert in_process(ASKED, NCCL_RUNTIME_CONNECT="1").splitlines()[-1] == "1"


def test_nccl_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nccl.core", None)
    with pytest.raises(SxError) as raised:
        require_nccl()
    assert raised.value.diagnostic.code == "E-DEV-010"
    assert "sexpgpu[cuda,nccl]" in str(raised.value.diagnostic.help)
