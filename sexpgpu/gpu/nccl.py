"""Collectives of real GPUs, by NCCL through nccl4py.

One process holds all communicators, so the operations of all ranks are queued as one group. NCCL chooses the order in
which it adds, the same in every run on the same GPUs; sums whose order is to be ours (`:deterministic`) go by
broadcasts and our own kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu import knobs
from sexpgpu.diag import SxError, error
from sexpgpu.gpu.contexts import Turn
from sexpgpu.gpu.cuda import CudaDriver
from sexpgpu.gpu.probe import INSTALL_NCCL

_MEND = f"{INSTALL_NCCL}; without it SEXPGPU_DEVICES has one number"


def require_nccl() -> Any:
    """`nccl.core`, with the library below it; `E-DEV-010` where one of them is not installed.

    NCCL_RUNTIME_CONNECT=0 unless it is set, before the library is loaded: communicators then take their memory when
    they are made, before anybody asks what is free, and not with the first sum, when there may be none left.
    """
    knobs.connect_nccl_early()
    try:
        pathfinder: Any = import_module("cuda.pathfinder")
        nccl: Any = import_module("nccl.core")
    except ImportError:
        raise error("E-DEV-010", "several GPUs need nccl4py", help=_MEND) from None
    try:
        pathfinder.load_nvidia_dynamic_lib("nccl")
    except pathfinder.DynamicLibNotFoundError:
        raise error("E-DEV-010", "several GPUs need NCCL, whose library is not there", help=_MEND) from None
    return nccl


def open_nccl(nccl: Any, ordinals: Sequence[int], drivers: Sequence[CudaDriver], turn: Turn) -> NcclCollective:
    """Communicators of the GPUs with these numbers. `E-DEV-005` where NCCL refuses to make them."""
    made = _done(turn, lambda: nccl.Communicator.init_all(list(ordinals)), "making communicators")
    return NcclCollective(nccl, tuple(drivers), tuple(made), turn)


@frozen(eq=False)
class _Memory:
    """An array of a GPU as NCCL is shown it (CUDA Array Interface, version 3)."""

    __cuda_array_interface__: dict[str, Any]


@frozen(eq=False)
class NcclCollective:
    """`Collective` of GPUs, on each device's own stream. What NCCL refuses ends as `E-DEV-005`."""

    nccl: Any
    drivers: Sequence[CudaDriver]
    communicators: Sequence[Any]
    turn: Turn

    def add(self, addresses: Sequence[Sequence[int]], counts: Sequence[int], dtypes: Sequence[np.dtype[Any]]) -> None:
        def queue() -> None:
            with self.nccl.group():
                for places, count, dtype in zip(addresses, counts, dtypes, strict=True):
                    for driver, made, place in self._each(places) if count else ():
                        memory = _memory(place, count, dtype)
                        made.allreduce(memory, memory, self.nccl.SUM, stream=int(driver.stream))

        _done(self.turn, queue, "adding gradients")

    def broadcast(self, rank: int, addresses: Sequence[int], nbytes: int) -> None:
        def queue() -> None:
            with self.nccl.group():
                for driver, made, place in self._each(addresses):
                    memory = _memory(place, nbytes, np.dtype(np.uint8))
                    made.broadcast(memory, memory, rank, stream=int(driver.stream))

        if nbytes:
            _done(self.turn, queue, "copying between GPUs")

    def _each(self, places: Sequence[int]) -> Sequence[tuple[CudaDriver, Any, int]]:
        return list(zip(self.drivers, self.communicators, places, strict=True))

    def close(self) -> None:
        for made in self.communicators:
            with suppress(Exception):  # one that a fault has broken is gone already
                made.destroy()


def _memory(address: int, count: int, dtype: np.dtype[Any]) -> _Memory:
    shown = {"shape": (count,), "typestr": dtype.str, "data": (address, False), "strides": None, "version": 3}
    return _Memory({**shown, "stream": None})


def _done(turn: Turn, call: Callable[[], Any], doing: str) -> Any:
    """What a call gives; `E-DEV-005` where NCCL, or what is below it, refuses it. It may leave any context current."""
    try:
        return call()
    except SxError:
        raise
    except Exception as fault:  # nccl4py has errors of its own, of NCCL's, and of cuda.core's
        raise error("E-DEV-005", f"NCCL failed at {doing}", actual=str(fault) or type(fault).__name__) from None
    finally:
        turn.context = None
