"""A stand-in for `cuda.bindings.driver`: it keeps memory as arrays and writes down every call, and has no GPU."""

from __future__ import annotations

import ctypes
import enum
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from attrs import define, field


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_INVALID_PTX = 218


def _names(*names: str) -> SimpleNamespace:
    return SimpleNamespace(**{name: name for name in names})


OK = CUresult.CUDA_SUCCESS


@define(eq=False)
class Api:
    """Answers as a driver of `version` with `count` GPUs of `capability` does; `failing` names what fails and how."""

    version: int = 13010
    count: int = 1
    capability: tuple[int, int] = (9, 0)
    total: int = 1 << 30
    failing: dict[str, CUresult] = field(factory=dict)
    calls: list[str] = field(factory=list)
    launched: list[tuple[Any, ...]] = field(factory=list)
    encoded: list[tuple[Any, ...]] = field(factory=list)
    blocks: dict[int, np.ndarray] = field(factory=dict)
    staged: dict[int, np.ndarray] = field(factory=dict)
    recording: list[tuple[Any, ...]] | None = None
    CUresult: ClassVar[Any] = CUresult
    CUdevice_attribute: ClassVar[Any] = _names(
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"
    )
    CUstream_flags: ClassVar[Any] = _names("CU_STREAM_NON_BLOCKING")
    CUevent_flags: ClassVar[Any] = _names("CU_EVENT_DEFAULT")
    CUstreamCaptureMode: ClassVar[Any] = _names("CU_STREAM_CAPTURE_MODE_THREAD_LOCAL")
    CUfunction_attribute: ClassVar[Any] = _names("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES")
    CUtensorMapDataType: ClassVar[Any] = _names("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16")
    CUtensorMapInterleave: ClassVar[Any] = _names("CU_TENSOR_MAP_INTERLEAVE_NONE")
    CUtensorMapSwizzle: ClassVar[Any] = _names("CU_TENSOR_MAP_SWIZZLE_128B")
    CUtensorMapL2promotion: ClassVar[Any] = _names("CU_TENSOR_MAP_L2_PROMOTION_L2_128B")
    CUtensorMapFloatOOBfill: ClassVar[Any] = _names("CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE")
    cuuint32_t: ClassVar[Any] = int
    cuuint64_t: ClassVar[Any] = int
    CUjit_option: ClassVar[Any] = _names("CU_JIT_ERROR_LOG_BUFFER", "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES")

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("cu") and callable(found):
            self.calls.append(name)
            if name in self.failing:
                return lambda *arguments: (self.failing[name],)
        return found

    def cuInit(self, flags: int) -> Any:
        return (OK,)

    def cuDriverGetVersion(self) -> Any:
        return OK, self.version

    def cuDeviceGetCount(self) -> Any:
        return OK, self.count

    def cuDeviceGet(self, ordinal: int) -> Any:
        return OK, ordinal

    def cuDeviceGetAttribute(self, kind: str, device: int) -> Any:
        return OK, self.capability["MINOR" in kind]

    def cuDeviceGetName(self, size: int, device: int) -> Any:
        return OK, b"Test GPU" + bytes(size - 8)

    def cuDeviceTotalMem(self, device: int) -> Any:
        return OK, self.total

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return OK, "context"

    def cuCtxSetCurrent(self, context: str) -> Any:
        return (OK,)

    def cuStreamCreate(self, flags: str) -> Any:
        return OK, "stream"

    def cuMemGetInfo(self) -> Any:
        return OK, self.total - sum(block.nbytes for block in self.blocks.values()), self.total

    def cuMemAlloc(self, nbytes: int) -> Any:
        if nbytes > self.cuMemGetInfo()[1]:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
        block = np.zeros(nbytes, np.uint8)
        self.blocks[block.ctypes.data] = block
        return OK, block.ctypes.data

    def cuMemFree(self, address: int) -> Any:
        del self.blocks[address]
        return (OK,)

    def cuMemHostAlloc(self, nbytes: int, flags: int) -> Any:
        assert self.recording is None, "nothing is allocated while a capture is under way"
        memory = np.zeros(nbytes, np.uint8)
        self.staged[memory.ctypes.data] = memory
        return OK, memory.ctypes.data

    def cuMemFreeHost(self, address: int) -> Any:
        del self.staged[address]
        return (OK,)

    def _move(self, target: int, source: int, nbytes: int) -> Any:
        ctypes.memmove(target, source, nbytes)
        return (OK,)

    def cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: str) -> Any:
        return self._move(target, source, nbytes)

    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: str) -> Any:
        return self._move(target, source, nbytes)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: str) -> Any:
        return self._move(target, source, nbytes)

    def cuMemsetD8Async(self, address: int, byte: int, nbytes: int, stream: str) -> Any:
        ctypes.memset(address, byte, nbytes)
        return (OK,)

    def cuModuleLoadDataEx(self, image: int, count: int, options: list[str], values: list[int]) -> Any:
        return OK, "module"

    def cuModuleGetFunction(self, module: str, name: bytes) -> Any:
        return OK, name.decode()

    def cuFuncSetAttribute(self, function: str, kind: str, value: int) -> Any:
        self.launched.append(("allowed", function, value))
        return (OK,)

    def cuTensorMapEncodeTiled(self, dtype: str, rank: int, address: int, *rest: Any) -> Any:
        """Writes down what is encoded; the words of the map count from the address."""
        self.encoded.append((dtype, rank, address, *rest))
        return OK, SimpleNamespace(opaque=[address + number for number in range(16)])

    def cuLaunchKernel(self, function: str, *rest: Any) -> Any:
        """Writes down the launch with the arguments that the pointers show: two of them."""
        grid, block, shared, _, where, _ = rest[:3], rest[3:6], rest[6], rest[7], rest[8], rest[9]
        pointers = ctypes.cast(where, ctypes.POINTER(ctypes.c_uint64))
        arguments = [ctypes.cast(pointers[i], ctypes.POINTER(ctypes.c_uint64))[0] for i in range(2)]
        launch = (function, grid, block, shared, arguments)
        (self.launched if self.recording is None else self.recording).append(launch)
        return (OK,)

    def cuStreamBeginCapture(self, stream: str, mode: str) -> Any:
        self.recording = []
        return (OK,)

    def cuStreamEndCapture(self, stream: str) -> Any:
        graph, self.recording = self.recording, None
        return OK, graph

    def cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        return OK, tuple(graph)

    def cuGraphUpload(self, graph: Any, stream: str) -> Any:
        return (OK,)

    def cuGraphDestroy(self, graph: Any) -> Any:
        return (OK,)

    def cuGraphLaunch(self, graph: Any, stream: str) -> Any:
        self.launched += graph
        return (OK,)

    def cuGraphExecDestroy(self, graph: Any) -> Any:
        return (OK,)

    def cuEventCreate(self, flags: str) -> Any:
        return OK, "event"

    def cuEventRecord(self, event: str, stream: str) -> Any:
        return (OK,)

    def cuEventSynchronize(self, event: str) -> Any:
        return (OK,)

    def cuEventElapsedTime(self, start: str, end: str) -> Any:
        return OK, 1.5

    def cuStreamSynchronize(self, stream: str) -> Any:
        return (OK,)

    def cuStreamDestroy(self, stream: str) -> Any:
        return (OK,)

    def cuDevicePrimaryCtxRelease(self, device: int) -> Any:
        return (OK,)

    def cuGetErrorString(self, status: CUresult) -> Any:
        return OK, status.name.lower().encode()
