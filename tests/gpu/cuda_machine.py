"""Stand-ins for the bindings of CUDA and of NCCL over PTX interpreters, one a GPU: what they are told to do they do.

What a call touches has to be of the GPU whose context is current, on the stream of that GPU. Calls of NCCL have to fit
the signatures of nccl4py.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from attrs import define, field

from sexpgpu.sim import Machine
from tests.gpu.cuda_api import OK, Api

STREAMS = 100
OTHER = 7  # a context that is none of ours


@define(eq=False)
class Gpus(Api):
    """GPUs whose kernels are executed; a graph keeps what was told while it was captured."""

    count: int = 2
    capability: tuple[int, int] = (8, 0)
    total: int = 8 << 30
    current: int = OTHER
    switches: int = 0
    machines: list[Machine] = field(init=False)
    taken: list[dict[int, int]] = field(init=False)
    captured: list[Callable[[], object]] | None = None

    def __attrs_post_init__(self) -> None:
        self.machines = [Machine() for _ in range(self.count)]
        self.taken = [{} for _ in range(self.count)]

    def _do(self, stream: int, action: Callable[[Machine], object]) -> Any:
        assert stream == STREAMS + self.current
        machine = self.machines[self.current]
        if self.captured is None:
            action(machine)
        else:
            self.captured.append(partial(action, machine))
        return (OK,)

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return OK, device

    def cuCtxSetCurrent(self, context: int) -> Any:  # type: ignore[override]
        self.switches += 1
        self.current = context
        return (OK,)

    def cuStreamCreate(self, flags: str) -> Any:
        return OK, STREAMS + self.current

    def cuMemGetInfo(self) -> Any:
        return OK, self.total - sum(self.taken[self.current].values()), self.total

    def cuMemAlloc(self, nbytes: int) -> Any:
        address = int(self.machines[self.current].allocate(nbytes))
        self.taken[self.current][address] = nbytes
        return OK, address

    def cuMemFree(self, address: int) -> Any:
        del self.taken[self.current][address]
        self.machines[self.current].free(address)
        return (OK,)

    def cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> Any:  # type: ignore[override]
        if self.captured is not None:  # a graph reads the host's memory when it is launched
            pinned = ((start, start + memory.nbytes) for start, memory in self.staged.items())
            assert any(start <= source and source + nbytes <= end for start, end in pinned)
        return self._do(
            stream, lambda machine: machine.write(target, np.frombuffer(ctypes.string_at(source, nbytes), np.uint8))
        )

    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: int) -> Any:  # type: ignore[override]
        def copy(machine: Machine) -> None:
            ctypes.memmove(target, bytes(machine.read(source, nbytes)), nbytes)

        return self._do(stream, copy)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> Any:  # type: ignore[override]
        return self._do(stream, lambda machine: machine.write(target, machine.read(source, nbytes)))

    def cuMemsetD8Async(self, address: int, byte: int, nbytes: int, stream: int) -> Any:  # type: ignore[override]
        return self._do(stream, lambda machine: machine.fill(address, byte, nbytes))

    def cuModuleLoadDataEx(self, image: int, count: int, options: list[str], values: list[Any]) -> Any:
        return OK, self.machines[self.current].load(ctypes.string_at(image))

    def cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        return OK, module.kernel(name.decode())

    def cuLaunchKernel(self, function: Any, *rest: Any) -> Any:
        """Its parameters lie where the pointers say when it is launched."""
        grid, block, shared, stream, where = rest[:3], rest[3:6], rest[6], rest[7], rest[8]
        pointers = ctypes.cast(where, ctypes.POINTER(ctypes.c_uint64))
        arguments = [ctypes.string_at(pointers[i], each.size) for i, each in enumerate(function.parameters)]
        return self._do(
            stream, lambda machine: machine.launch(function, grid=grid, block=block, args=arguments, shared=shared)
        )

    def cuStreamBeginCapture(self, stream: int, mode: str) -> Any:  # type: ignore[override]
        self.captured = []
        return (OK,)

    def cuStreamEndCapture(self, stream: int) -> Any:  # type: ignore[override]
        graph, self.captured = self.captured, None
        return OK, graph

    def cuGraphLaunch(self, graph: Any, stream: int) -> Any:  # type: ignore[override]
        assert stream == STREAMS + self.current
        for action in graph:
            action()
        return (OK,)


@define(eq=False)
class Rank:
    """A communicator."""

    nccl: Nccl
    rank: int
    destroyed: bool = False

    def allreduce(self, *given: Any, **named: Any) -> None:
        call = self.nccl.fitting("allreduce", given, named)
        assert call["op"] == self.nccl.SUM
        self.nccl.queue("sum", self.rank, call)

    def broadcast(self, *given: Any, **named: Any) -> None:
        call = self.nccl.fitting("broadcast", given, named)
        self.nccl.queue(f"from {call['root']}", self.rank, call)

    def destroy(self) -> None:
        self.destroyed = True


@define(eq=False)
class Nccl:
    """Stands for `nccl.core`, which `real` is. Operations of all ranks happen when their group ends."""

    api: Gpus
    real: Any
    SUM: str = "sum"
    made: list[Rank] = field(factory=list)
    queued: list[tuple[str, int, int, int, np.dtype[Any]]] = field(factory=list)
    failing: bool = False

    @property
    def Communicator(self) -> Nccl:
        return self

    def init_all(self, devices: Sequence[int]) -> list[Rank]:
        inspect.signature(self.real.Communicator.init_all).bind(devices)
        self.made = [Rank(self, rank) for rank in range(len(devices))]
        self.api.current = OTHER
        return self.made

    def fitting(self, method: str, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        bound = inspect.signature(getattr(self.real.Communicator, method)).bind(None, *given, **named)
        return dict(bound.arguments)

    def queue(self, what: str, rank: int, call: dict[str, Any]) -> None:
        """In place, on the rank's stream, of a dtype that NCCL knows."""
        assert call["stream"] == STREAMS + rank
        assert call["sendbuf"] is call["recvbuf"]
        shown = call["recvbuf"].__cuda_array_interface__
        assert (shown["version"], shown["strides"]) == (3, None)
        dtype = np.dtype(shown["typestr"])
        assert self.real.NcclDataType(dtype) is not None
        self.queued.append((what, rank, shown["data"][0], shown["shape"][0], dtype))

    @contextmanager
    def group(self) -> Iterator[None]:
        yield
        if self.failing:
            raise RuntimeError("unhandled system error")
        queued, self.queued = self.queued, []
        count = len(self.made)
        for start in range(0, len(queued), count):
            self._together(queued[start : start + count])
        self.api.current = OTHER

    def _together(self, calls: Sequence[tuple[str, int, int, int, np.dtype[Any]]]) -> None:
        assert [rank for _, rank, *_ in calls] == list(range(len(self.made)))
        ((what, size, dtype),) = {(what, size, dtype) for what, _, _, size, dtype in calls}
        arrays = []
        for _, rank, address, *_ in calls:
            data = self.api.machines[rank].read(address, size * dtype.itemsize)
            arrays.append(np.frombuffer(bytes(data), dtype))
        result = arrays[int(what.split()[1])] if what != "sum" else np.sum(arrays, axis=0, dtype=dtype)
        for _, rank, address, *_ in calls:
            self.api.machines[rank].write(address, result)
