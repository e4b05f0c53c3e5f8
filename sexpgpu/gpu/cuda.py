"""The device `cuda`: a GPU through the CUDA driver, by the bindings of cuda-python.

The primary context is used, since libraries of NVIDIA's take it too. Names are those of the CUDA Driver API reference.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from sexpgpu.diag import SxError, error
from sexpgpu.gpu.contexts import InContext, Turn
from sexpgpu.gpu.cubin import Assembler
from sexpgpu.gpu.driver import Call, Command, Copy, Fill, Function, NoMemory, Run, Upload, Words
from sexpgpu.gpu.probe import MINIMUM_CAPABILITY, MINIMUM_DRIVER, require_bindings, shown_driver
from sexpgpu.plan.records import PtxModule
from sexpgpu.plan.tensor_maps import TensorMap

if TYPE_CHECKING:
    from sexpgpu.gpu.library.choice import Libraries

STATIC_SHARED = 48 << 10
"""Bytes of dynamic shared memory that a kernel may have without asking."""
_LOG = 4096


def visible_gpus(api: Any) -> int:
    """How many GPUs the driver shows. `E-DEV-005` where it does not start."""
    _done(api, api.cuInit(0), "starting the CUDA driver")
    return int(_done(api, api.cuDeviceGetCount(), "counting the GPUs"))


def open_cuda(
    ordinal: int = 0, api: Any = None, assembler: Assembler | None = None, turn: Turn | None = None
) -> CudaDriver:
    """The GPU of that number; `api` stands for `cuda.bindings.driver`. GPUs of one process take turns.

    `E-DEV-002` where there is no driver or no GPU, `E-DEV-003` for a driver below CUDA 13, `E-DEV-004` for a compute
    capability below 8.0.
    """
    api = require_bindings() if api is None else api
    _done(api, api.cuInit(0), "starting the CUDA driver")
    version = _done(api, api.cuDriverGetVersion(), "asking for the driver's version")
    if version < MINIMUM_DRIVER:
        raise error(
            "E-DEV-003",
            "the CUDA driver of this machine is too old",
            expected=f"{shown_driver(MINIMUM_DRIVER)} or newer, which the 580 series brings",
            actual=shown_driver(version),
        )
    count = _done(api, api.cuDeviceGetCount(), "counting the GPUs")
    if not 0 <= ordinal < count:
        raise error("E-DEV-002", f"there is no GPU number {ordinal}", actual=f"{count} visible")
    device = _done(api, api.cuDeviceGet(ordinal), "opening the GPU")
    kinds = api.CUdevice_attribute
    major = _done(api, api.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device), "asking")
    minor = _done(api, api.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device), "asking")
    name = _done(api, api.cuDeviceGetName(256, device), "asking for the GPU's name").rstrip(b"\0").decode()
    if (major, minor) < MINIMUM_CAPABILITY:
        raise error(
            "E-DEV-004",
            f"{name} is too old",
            expected="compute capability 8.0 or newer, whose tensor cores multiply bf16",
            actual=f"{major}.{minor}",
        )
    context = _done(api, api.cuDevicePrimaryCtxRetain(device), "making a context")
    if turn is None:
        _done(api, api.cuCtxSetCurrent(context), "making a context")
    else:
        api = InContext(api, context, turn)
    stream = _done(api, api.cuStreamCreate(api.CUstream_flags.CU_STREAM_NON_BLOCKING), "making a stream")
    return CudaDriver(api, device, name, (major, minor), stream, assembler or Assembler())


@define(eq=False)
class Captured:
    """An executable graph; its uploads read `sources`, parts of the host's memory that begins at `staging`.

    `launched` is how often the stream had been waited for when that was last.
    """

    graph: Any
    staging: Any
    sources: tuple[NDArray[np.uint8], ...]
    launched: int = -1


@define(eq=False)
class CudaDriver:
    """An open GPU. What the CUDA driver refuses ends as `E-DEV-005`, memory that is not there as `NoMemory`."""

    api: Any
    device: Any
    name: str
    capability: tuple[int, int]
    stream: Any
    assembler: Assembler
    libraries: Libraries | None = None
    _modules: list[Any] = field(factory=list, init=False)
    _waits: int = field(default=0, init=False)  # how often the stream was waited for

    def enter(self) -> None:
        if isinstance(self.api, InContext):
            self.api.enter()

    def memory(self) -> tuple[int, int]:
        free, total = _done(self.api, self.api.cuMemGetInfo(), "asking for free memory")
        return int(free), int(total)

    def allocate(self, nbytes: int) -> int:
        result = self.api.cuMemAlloc(nbytes)
        if result[0] == self.api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise NoMemory(nbytes)
        return int(_done(self.api, result, "allocating memory"))

    def free(self, address: int) -> None:
        _done(self.api, self.api.cuMemFree(address), "freeing memory")

    def copy_in(self, address: int, data: NDArray[Any]) -> None:
        # From pageable memory the driver returns when it has read the source.
        if data.nbytes:
            where = data.ctypes.data
            _done(self.api, self.api.cuMemcpyHtoDAsync(address, where, data.nbytes, self.stream), "copying to the GPU")

    def copy_out(self, data: NDArray[Any], address: int) -> None:
        if data.nbytes:
            where = data.ctypes.data
            result = self.api.cuMemcpyDtoHAsync(where, address, data.nbytes, self.stream)
            _done(self.api, result, "copying from the GPU")
        self.synchronize()

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        if nbytes:
            _done(self.api, self.api.cuMemsetD8Async(address, byte, nbytes, self.stream), "filling memory")

    def load(self, module: PtxModule) -> Mapping[str, Function]:
        """The kernels of a module: assembled here where nvJitLink is installed, else by the driver."""
        image = self.assembler.cubin(module, self.capability) or module.text.encode() + b"\0"
        options = self.api.CUjit_option
        log = bytes(_LOG)  # the bindings take this type alone; the driver writes into it
        result = self.api.cuModuleLoadDataEx(
            np.frombuffer(image, np.uint8).ctypes.data,
            2,
            [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
            [log, _LOG],
        )
        if result[0] != self.api.CUresult.CUDA_SUCCESS:
            raise not_taken(module, log.rstrip(b"\0").decode(errors="replace").strip() or _reason(self.api, result[0]))
        handle = result[1]
        self._modules.append(handle)
        found = {}
        for kernel in module.kernels:
            function = self.api.cuModuleGetFunction(handle, kernel.encode())
            found[kernel] = _done(self.api, function, f"looking for kernel {kernel}")
        return found

    def encode(self, map: TensorMap, address: int) -> Words:
        api = self.api
        swizzle = f"CU_TENSOR_MAP_SWIZZLE_{map.swizzle}B" if map.swizzle else "CU_TENSOR_MAP_SWIZZLE_NONE"
        result = api.cuTensorMapEncodeTiled(
            api.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            len(map.shape),
            address + map.offset,
            [api.cuuint64_t(n) for n in map.shape],
            [api.cuuint64_t(n) for n in map.strides],
            [api.cuuint32_t(n) for n in map.box],
            [api.cuuint32_t(1)] * len(map.shape),
            api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(api.CUtensorMapSwizzle, swizzle),
            api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        found = _done(api, result, "encoding a tensor map")
        return np.array([int(word) for word in found.opaque], np.uint64)

    def allow_shared(self, function: Function, nbytes: int) -> None:
        if nbytes > STATIC_SHARED:
            kind = self.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _done(self.api, self.api.cuFuncSetAttribute(function, kind, nbytes), "asking for shared memory")

    def run(self, command: Command) -> None:
        match command:
            case Run():
                result = self.api.cuLaunchKernel(
                    command.function,
                    *command.grid,
                    *command.block,
                    command.shared,
                    self.stream,
                    int(command.pointers.ctypes.data),
                    0,
                )
                _done(self.api, result, "launching a kernel")
            case Copy():
                target, source = command.arguments.tolist()
                result = self.api.cuMemcpyDtoDAsync(target, source, command.nbytes, self.stream)
                _done(self.api, result, "copying on the GPU")
            case Upload():
                self.copy_in(int(command.arguments[0]), command.data)
            case Fill():
                self.fill(int(command.arguments[0]), command.byte, command.nbytes)
            case Call():
                self.enter()
                command.execute(command.arguments.tolist())

    def capture(self, commands: Iterable[Command], uploads: int) -> tuple[Captured, int]:
        """An executable CUDA graph, with the arguments in it, and by how much less is free since it is on the GPU."""
        # Memory is not to be asked for while a capture is under way.
        staging = self._pinned(uploads) if uploads else None
        sources: list[NDArray[np.uint8]] = []
        place = 0
        mode = self.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        _done(self.api, self.api.cuStreamBeginCapture(self.stream, mode), "beginning a capture")
        try:
            for command in commands:
                if isinstance(command, Upload):
                    source = _host_memory(staging, place, command.data.nbytes)
                    sources.append(source)
                    place += source.nbytes
                    command = Upload(command.arguments, source)
                self.run(command)
        finally:
            ended = self.api.cuStreamEndCapture(self.stream)
        graph = _done(self.api, ended, "ending a capture")
        free, _ = self.memory()
        result = self.api.cuGraphInstantiate(graph, 0)
        _done(self.api, self.api.cuGraphDestroy(graph), "ending a capture")
        if result[0] == self.api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            self._give_back(staging)
            raise NoMemory(0)
        captured = Captured(_done(self.api, result, "making a graph of launches"), staging, tuple(sources))
        result = self.api.cuGraphUpload(captured.graph, self.stream)
        if result[0] == self.api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            self.forget(captured)
            raise NoMemory(0)
        _done(self.api, result, "uploading a graph of launches")
        return captured, max(0, free - self.memory()[0])

    def replay(self, captured: Captured, uploads: Sequence[NDArray[Any]]) -> None:
        if uploads:
            if captured.launched == self._waits:  # it may still read what it uploaded last
                self.synchronize()
            for source, data in zip(captured.sources, uploads, strict=True):
                source[:] = data.reshape(-1).view(np.uint8)
            captured.launched = self._waits
        _done(self.api, self.api.cuGraphLaunch(captured.graph, self.stream), "launching a graph")

    def forget(self, captured: Captured) -> None:
        self._give_back(captured.staging)
        _done(self.api, self.api.cuGraphExecDestroy(captured.graph), "letting go of a graph")

    def _pinned(self, nbytes: int) -> Any:
        """Memory of the host that a GPU reads while the host goes on."""
        result = self.api.cuMemHostAlloc(nbytes, 0)
        if result[0] == self.api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise NoMemory(nbytes)
        return _done(self.api, result, "allocating memory of the host")

    def _give_back(self, staging: Any) -> None:
        """Memory of the host that graphs read, once none that was launched reads it any more."""
        if staging is not None:
            self.synchronize()
            _done(self.api, self.api.cuMemFreeHost(staging), "freeing memory")

    def mark(self) -> Any:
        event = _done(self.api, self.api.cuEventCreate(self.api.CUevent_flags.CU_EVENT_DEFAULT), "making an event")
        _done(self.api, self.api.cuEventRecord(event, self.stream), "recording an event")
        return event

    def elapsed(self, start: Any, end: Any) -> float:
        _done(self.api, self.api.cuEventSynchronize(end), "waiting for an event")
        milliseconds = _done(self.api, self.api.cuEventElapsedTime(start, end), "reading events")
        return float(milliseconds) / 1e3

    def synchronize(self) -> None:
        _done(self.api, self.api.cuStreamSynchronize(self.stream), "waiting for the GPU")
        self._waits += 1

    def close(self) -> None:
        """Ends the context, and with it modules, memory and graphs; one that a fault has broken is gone already."""
        self.api.cuStreamDestroy(self.stream)
        self.api.cuDevicePrimaryCtxRelease(self.device)


def _host_memory(start: Any, offset: int, nbytes: int) -> NDArray[np.uint8]:
    """Bytes of this process's memory as an array that does not own them."""
    pointer = ctypes.cast(int(start) + offset, ctypes.POINTER(ctypes.c_uint8))
    return np.ctypeslib.as_array(pointer, (nbytes,))


def not_taken(module: PtxModule, reason: str) -> SxError:
    return error("E-DEV-006", f"the device does not take module {module.name}", actual=reason)


def _done(api: Any, result: Any, doing: str) -> Any:
    """What a call of the driver's gave beside its status; `E-DEV-005` where that is not success."""
    status, *values = result
    if status != api.CUresult.CUDA_SUCCESS:
        raise error("E-DEV-005", f"the GPU failed at {doing}", actual=_reason(api, status))
    return values[0] if len(values) == 1 else tuple(values)


def _reason(api: Any, status: Any) -> str:
    found = api.cuGetErrorString(status)
    text = found[1].decode() if found[0] == api.CUresult.CUDA_SUCCESS and found[1] else "an unknown fault"
    return f"{getattr(status, 'name', status)}: {text}"
