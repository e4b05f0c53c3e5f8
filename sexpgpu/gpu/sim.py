"""The device `sim`: the PTX interpreter behind the same driver that a GPU has."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from sexpgpu.gpu.driver import Call, Command, Copy, Fill, Function, NoMemory, Run, Upload, Words
from sexpgpu.plan.records import PtxModule
from sexpgpu.plan.tensor_maps import TensorMap
from sexpgpu.sim import Checks, Machine
from sexpgpu.sim.machine import Argument
from sexpgpu.sim.tensormap import encode_tensor_map

if TYPE_CHECKING:
    from sexpgpu.gpu.library.choice import Libraries

MEMORY = 64 << 30
"""Bytes that the simulated device has; what is really there is the memory of this process."""
BF16 = 2


@frozen
class _Captured:
    commands: tuple[tuple[Command, list[int]], ...]


@define(eq=False)
class SimDriver:
    """Everything happens at once, so nothing waits. `total` bounds the memory as a device's size does."""

    checks: Checks = field(factory=Checks)
    chip: tuple[int, int] = (8, 0)
    total: int = MEMORY
    libraries: Libraries | None = None
    machine: Machine = field(init=False)
    _sizes: dict[int, int] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.machine = Machine(checks=self.checks)

    @property
    def name(self) -> str:
        return "PTX interpreter"

    @property
    def capability(self) -> tuple[int, int]:
        return self.chip

    def enter(self) -> None:
        """Nothing of it is current."""

    def memory(self) -> tuple[int, int]:
        return self.total - sum(self._sizes.values()), self.total

    def allocate(self, nbytes: int) -> int:
        if nbytes > self.memory()[0]:
            raise NoMemory(nbytes)
        try:
            address = int(self.machine.allocate(nbytes))
        except MemoryError:
            raise NoMemory(nbytes) from None
        self._sizes[address] = nbytes
        return address

    def free(self, address: int) -> None:
        del self._sizes[address]
        self.machine.free(address)

    def copy_in(self, address: int, data: NDArray[Any]) -> None:
        self.machine.write(address, data)

    def copy_out(self, data: NDArray[Any], address: int) -> None:
        target = data.reshape(-1).view(np.uint8)
        target[:] = np.frombuffer(self.machine.read(address, data.nbytes), np.uint8)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self.machine.fill(address, byte, nbytes)

    def load(self, module: PtxModule) -> Mapping[str, Function]:
        loaded = self.machine.load(module.text, name=module.name)
        return {name: loaded.kernel(name) for name in module.kernels}

    def encode(self, map: TensorMap, address: int) -> Words:
        return np.frombuffer(encoded(map, address), np.uint64)

    def allow_shared(self, function: Function, nbytes: int) -> None:
        """The interpreter gives what a launch asks for."""

    def run(self, command: Command) -> None:
        self._run(command, command.arguments.tolist())

    def _run(self, command: Command, arguments: list[int]) -> None:
        match command:
            case Run():
                place = len(arguments) - sum(command.values)
                given: list[Argument] = [*arguments[:place]]
                for size in command.values:
                    given.append(np.array(arguments[place : place + size], np.uint64).tobytes())
                    place += size
                self.machine.launch(
                    command.function, grid=command.grid, block=command.block, args=given, shared=command.shared
                )
            case Copy():
                target, source = arguments
                self.machine.write(target, self.machine.read(source, command.nbytes))
            case Upload():
                self.copy_in(arguments[0], command.data)
            case Fill():
                self.fill(arguments[0], command.byte, command.nbytes)
            case Call():
                command.execute(arguments)

    def capture(self, commands: Iterable[Command], uploads: int) -> tuple[_Captured, int]:
        kept = tuple([(command, command.arguments.tolist()) for command in commands])
        return _Captured(kept), sum(command.arguments.nbytes for command, _ in kept)

    def replay(self, captured: _Captured, uploads: Sequence[NDArray[Any]]) -> None:
        brought = iter(uploads)
        for command, arguments in captured.commands:
            if isinstance(command, Upload):
                self.copy_in(arguments[0], next(brought))
            else:
                self._run(command, arguments)

    def forget(self, captured: _Captured) -> None:
        """Nothing of it is outside this process."""

    def mark(self) -> float:
        return time.perf_counter()

    def elapsed(self, start: float, end: float) -> float:
        return end - start

    def synchronize(self) -> None:
        """Everything has happened already."""

    def close(self) -> None:
        for address in list(self._sizes):
            self.free(address)


def encoded(map: TensorMap, address: int) -> bytes:
    """A tensor map as the interpreter reads it."""
    return encode_tensor_map(address + map.offset, BF16, map.shape, map.strides, map.box, map.swizzle)
