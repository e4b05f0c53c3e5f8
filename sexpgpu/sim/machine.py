"""The simulated device: memory, modules, launches."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from attrs import define, field, frozen

from sexpgpu.diag import error, nearest
from sexpgpu.sim.between import GlobalTrace
from sexpgpu.sim.bulk import Flight
from sexpgpu.sim.checks import Checks
from sexpgpu.sim.clock import Clock
from sexpgpu.sim.code import Code, assemble
from sexpgpu.sim.counters import Counters
from sexpgpu.sim.crew import Crew
from sexpgpu.sim.lanes import WARP, Dims, Lanes, Layout, Shape
from sexpgpu.sim.memory import Memory
from sexpgpu.sim.parse import parse
from sexpgpu.sim.program import Program, Symbol, flatten
from sexpgpu.sim.races import SharedTrace
from sexpgpu.sim.report import Report, report_of
from sexpgpu.sim.run import run
from sexpgpu.sim.source import Source, Variable
from sexpgpu.sim.types import Array

LANES = 1 << 15  # lanes of a batch
SHARED = 1 << 26  # bytes of shared memory of a batch, and of local memory
MOST_THREADS = 1024
MOST_SHARED = 227 * 1024
MODULES = 256
Argument = int | float | bytes


@lru_cache(MODULES)
def _parsed(digest: bytes, text: str, name: str) -> Source:
    return parse(text, name)


@define(eq=False)
class Kernel:
    """An entry of a loaded module; its code is made at the first launch."""

    name: str
    program: Program
    globals: dict[str, Symbol]
    made: Code | None = None

    @property
    def code(self) -> Code:
        if self.made is None:
            self.made = assemble(self.program, self.globals)
        return self.made

    @property
    def parameters(self) -> tuple[Variable, ...]:
        return self.program.parameters

    @property
    def shared(self) -> int:
        """Bytes of static shared memory."""
        return self.program.shared


@define(eq=False)
class Module:
    """PTX that is loaded: its variables have addresses."""

    source: Source
    globals: dict[str, Symbol]
    kernels: dict[str, Kernel] = field(factory=dict)

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.source.functions.values() if f.entry)

    def kernel(self, name: str) -> Kernel:
        """The entry of this name. Raises E-SIM-004 where there is none, E-SIM-010/011 for what is not known."""
        found = self.kernels.get(name)
        if found is None:
            function = self.source.functions.get(name)
            if function is None or not function.entry:
                near = nearest(name, self.entries)
                raise error(
                    "E-SIM-004",
                    f"the module {self.source.file} has no entry {name}",
                    actual=", ".join(self.entries) or "no entries",
                    help=f"did you mean {near}?" if near else None,
                )
            found = self.kernels[name] = Kernel(name, flatten(self.source, function), self.globals)
            _ = found.code
        return found


@frozen(eq=False)
class Machine:
    """A device without hardware. One batch of lanes runs at a time, on the thread that calls `launch`."""

    checks: Checks = field(factory=Checks)
    memory: Memory = field(init=False)

    @memory.default
    def _memory(self) -> Memory:
        return Memory(self.checks.uninitialised)

    def allocate(self, size: int, name: str = "memory") -> int:
        """The address of `size` new bytes, a multiple of 256; `name` is what diagnostics call them."""
        return self.memory.allocate(size, name)

    def free(self, address: int) -> None:
        """Give back what `allocate` gave."""
        self.memory.free(address)

    def write(self, address: int, data: bytes | bytearray | memoryview | Array) -> None:
        """Copy the bytes of an array, or bytes, to the device."""
        flat = _flat(data)
        self.memory.view(address, flat.size)[:] = flat
        self.memory.mark(address, flat.size)

    def read(self, address: int, size: int) -> Array:
        """`size` bytes of the device as uint8: a view, which later launches change."""
        return self.memory.view(address, size)

    def fill(self, address: int, value: int, size: int) -> None:
        """Set bytes."""
        self.memory.view(address, size)[:] = value & 0xFF
        self.memory.mark(address, size)

    def load(self, ptx: str | bytes, name: str = "module") -> Module:
        """A module from PTX text. The text is read once in a process. Raises E-SIM-001 where it is not PTX."""
        text = ptx if isinstance(ptx, str) else ptx.rstrip(b"\0").decode("utf-8", "replace")
        file = name if "." in name or name == "-" else f"{name}.ptx"
        source = _parsed(hashlib.sha256(text.encode()).digest(), text, file)
        return Module(source, self._place(source))

    def _place(self, source: Source) -> dict[str, Symbol]:
        found: dict[str, Symbol] = {}
        for variable in source.variables.values():
            if variable.space not in ("global", "const"):
                continue
            address = self.memory.allocate(variable.size, variable.name)
            if variable.initial:
                self.write(address, variable.initial)
            else:
                self.fill(address, 0, variable.size)
            found[variable.name] = Symbol(variable.space, address, variable.size, variable.name)
        return found

    def launch(self, kernel: Kernel, grid: Dims, block: Dims, args: Sequence[Argument], shared: int = 0) -> Report:
        """Run a kernel to its end; `args` in the order of its parameters, `shared` bytes beyond the static ones.

        Raises E-SIM-005 for a launch that the hardware would refuse, and the diagnostics of what the kernel does wrong.
        """
        program = kernel.program
        dynamic = program.shared if program.dynamic is None else program.dynamic
        total = dynamic + shared if shared or program.dynamic is not None else program.shared
        shape = Shape(kernel.name, program.file, grid, block, total, shared, program.local)
        _allowed(shape, program)
        params = np.frombuffer(pack(program, args), np.uint8)
        code = kernel.code
        counters = Counters([0] * len(code.blocks), [0] * len(code.blocks))
        random = None if self.checks.race is None else np.random.default_rng(self.checks.race)
        order = np.arange(shape.blocks) if random is None else random.permutation(shape.blocks)
        per = batch(shape)
        layouts: list[Layout] = []
        trace = GlobalTrace(code.granule) if self.checks.races else None
        with np.errstate(all="ignore"):
            for start in range(0, shape.blocks, per):
                blocks = order[start : start + per]
                if not layouts or layouts[0].blocks != len(blocks) or random is not None:
                    layouts = [Layout(shape, len(blocks), warps) for warps in crews_of(shape, len(blocks), random)]
                begin = Start(blocks, self.memory, params, self.checks, counters, random, trace)
                run(code, crews(shape, code, layouts, begin), random, self.checks.most_visits)
        return report_of(shape, code, counters)


@frozen(eq=False)
class Start:
    """What the lanes of a batch begin with."""

    blocks: Array
    memory: Memory
    params: Array
    checks: Checks
    counters: Counters
    random: np.random.Generator | None
    launch: GlobalTrace | None


def crews(shape: Shape, code: Code, layouts: Sequence[Layout], start: Start) -> list[Crew]:
    """The warps of a batch of blocks at the beginning of the code."""
    checks, blocks = start.checks, len(start.blocks)
    unset = list(code.unset)
    shared = np.zeros(blocks * shape.stride, np.uint8)
    flights: list[Flight] = []
    known = np.zeros(len(shared), np.uint8) if checks.uninitialised else None
    warps = shape.padded // WARP
    clock = Clock.of(blocks, warps) if checks.races else None
    trace = SharedTrace.of(len(shared), code.granule, warps) if checks.races and shape.shared else None
    return [
        Crew(
            Lanes(
                layout,
                start.blocks,
                shared,
                flights,
                start.memory,
                start.params,
                checks,
                start.counters,
                list(unset),
                unset,
                start.random,
                clock,
                trace,
                start.launch,
                known,
            )
        )
        for layout in layouts
    ]


def crews_of(shape: Shape, blocks: int, random: np.random.Generator | None) -> list[Array]:
    """The warps of each block that run together: all, or one a crew in a random order of each block's own."""
    warps = np.tile(np.arange(shape.padded // WARP, dtype=np.int64), (blocks, 1))
    if random is None:
        return [warps]
    mixed = random.permuted(warps, axis=1)
    return [np.ascontiguousarray(mixed[:, i : i + 1]) for i in range(mixed.shape[1])]


def batch(shape: Shape) -> int:
    """How many blocks run at once."""
    room = [LANES // shape.padded]
    if shape.shared:
        room.append(SHARED // shape.shared)
    if shape.local:
        room.append(SHARED // (shape.local * shape.padded))
    return max(1, min(room))


def _flat(data: bytes | bytearray | memoryview | Array) -> Array:
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8)


def _allowed(shape: Shape, program: Program) -> None:
    wrong: str | None = None
    if min(shape.grid) < 1 or min(shape.block) < 1:
        wrong = "a dimension is not positive"
    elif shape.threads > MOST_THREADS:
        wrong = f"{shape.threads} threads a block, {MOST_THREADS} at most"
    elif program.threads is not None and shape.block != program.threads:
        wrong = f"block {shape.block}, and the kernel was compiled for {program.threads}"
    elif program.most_threads is not None and shape.threads > program.most_threads:
        wrong = f"{shape.threads} threads a block, and the kernel was compiled for {program.most_threads} at most"
    elif shape.shared > MOST_SHARED:
        wrong = f"{shape.shared} bytes of shared memory, {MOST_SHARED} at most"
    elif shape.grid[0] >= 1 << 31 or max(shape.grid[1:]) >= 1 << 16:
        wrong = f"the grid {shape.grid} is too large"
    if wrong is not None:
        raise error("E-SIM-005", f"the launch of {shape.kernel} is not possible", actual=wrong)


def pack(program: Program, args: Sequence[Argument]) -> bytes:
    """The arguments as the bytes that the kernel's parameters are. Raises E-SIM-005 where they do not fit."""
    parameters = program.parameters
    if len(args) != len(parameters):
        raise error(
            "E-SIM-005",
            f"the launch of {program.name} is not possible",
            expected=f"{len(parameters)} arguments",
            actual=f"{len(args)}",
        )
    out = bytearray(program.parameter_bytes)
    for parameter, offset, value in zip(parameters, program.offsets, args, strict=True):
        encoded = _encoded(program, parameter, value)
        out[offset : offset + len(encoded)] = encoded
    return bytes(out)


def _encoded(program: Program, parameter: Variable, value: Argument) -> bytes:
    size = parameter.size
    if isinstance(value, bytes | bytearray | memoryview):
        if len(value) != size:
            raise _misfit(program, parameter, f"{len(value)} bytes")
        return bytes(value)
    if parameter.type.kind == "float" or isinstance(value, float | np.floating):
        if size not in (4, 8):
            raise _misfit(program, parameter, repr(value))
        return struct.pack("<f" if size == 4 else "<d", float(value))
    number = int(value)
    if not -(1 << 8 * size - 1) <= number < 1 << 8 * size:
        raise _misfit(program, parameter, str(number))
    return (number & (1 << 8 * size) - 1).to_bytes(size, "little")


def _misfit(program: Program, parameter: Variable, actual: str) -> Exception:
    return error(
        "E-SIM-005",
        f"an argument of {program.name} does not fit its parameter {parameter.name}",
        expected=f".{parameter.type.name} of {parameter.size} bytes",
        actual=actual,
    )
