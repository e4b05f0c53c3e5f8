"""The CUDA driver's calls, against a stand-in for its bindings; and a machine that has none of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.diag import SxError
from sexpgpu.gpu.cubin import Assembler
from sexpgpu.gpu.cuda import Captured, CudaDriver, open_cuda
from sexpgpu.gpu.driver import Command, Copy, Fill, NoMemory, Run, Upload
from sexpgpu.gpu.memory import Pool
from sexpgpu.gpu.transfer import copy_array, upload
from sexpgpu.plan.records import PtxModule
from sexpgpu.plan.tensor_maps import TensorMap
from sexpgpu.tensortype import TensorType
from tests.gpu.cuda_api import Api, CUresult


class FromText(Assembler):
    """Leaves assembling to the driver."""

    def cubin(self, module: PtxModule, capability: tuple[int, int]) -> bytes | None:
        return None


def opened(api: Api) -> CudaDriver:
    return open_cuda(0, api, FromText())


def code(api: Api, ordinal: int = 0) -> str:
    with pytest.raises(SxError) as raised:
        open_cuda(ordinal, api, FromText())
    return raised.value.diagnostic.code


def test_an_open_gpu_says_what_it_is() -> None:
    driver = opened(Api())
    assert (driver.name, driver.capability) == ("Test GPU", (9, 0))
    assert driver.memory() == (1 << 30, 1 << 30)
    driver.close()


@pytest.mark.parametrize(
    ("api", "wanted", "last"),
    [
        (Api(version=12080), "E-DEV-003", "cuDriverGetVersion"),
        (Api(count=0), "E-DEV-002", "cuDeviceGetCount"),
        (Api(capability=(7, 5)), "E-DEV-004", "cuDeviceGetName"),
    ],
)
def test_what_is_too_old_is_refused_before_a_context_is_made(api: Api, wanted: str, last: str) -> None:
    assert code(api) == wanted
    assert api.calls[-1] == last


def test_an_ordinal_that_is_not_there() -> None:
    assert code(Api(count=2), 2) == "E-DEV-002"


@pytest.mark.parametrize("call", ["cuInit", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuStreamCreate"])
def test_what_the_driver_refuses_is_told(call: str) -> None:
    api = Api(failing={call: CUresult.CUDA_ERROR_LAUNCH_FAILED})
    with pytest.raises(SxError) as raised:
        opened(api)
    told = raised.value.diagnostic
    assert (told.code, told.actual) == ("E-DEV-005", "CUDA_ERROR_LAUNCH_FAILED: cuda_error_launch_failed")


def test_memory_goes_out_and_back() -> None:
    pool = Pool(opened(Api()))
    type = TensorType((40, 40), "bf16")
    given = np.ones((40, 40), np.float32)
    first, second = upload(pool, given, type), pool.array(type)
    copy_array(pool, second, first)
    assert np.array_equal(second.numpy(), given)
    pool.driver.fill(second.address, 0, type.nbytes)
    assert not second.numpy().any()


def test_memory_that_is_not_there() -> None:
    driver = opened(Api(total=1 << 20))
    with pytest.raises(NoMemory):
        driver.allocate(2 << 20)


def run_of(words: np.ndarray) -> Run:
    pointers = np.uint64(words.ctypes.data) + np.arange(2, dtype=np.uint64) * np.uint64(8)
    return Run("kernel", (3, 1, 1), (128, 1, 1), 64, words, pointers)


def test_a_launch_takes_the_arguments_of_the_moment_and_a_capture_keeps_them() -> None:
    api = Api()
    driver = opened(api)
    words = np.array([4096, 8192], np.uint64)
    launch = run_of(words)
    driver.run(launch)
    captured, _ = driver.capture([launch], 0)
    words[1] = 1
    driver.run(launch)
    driver.replay(captured, [])
    driver.forget(captured)
    grid_and_block = ((3, 1, 1), (128, 1, 1), 64)
    assert api.launched == [
        ("kernel", *grid_and_block, [4096, 8192]),
        ("kernel", *grid_and_block, [4096, 1]),
        ("kernel", *grid_and_block, [4096, 8192]),
    ]


def test_a_graph_uploads_what_it_is_given_each_time() -> None:
    """From memory of its own, which is pinned, is let go with it, and is not written while a launch may read it."""
    api = Api()
    driver = opened(api)
    target = np.zeros(4, np.float32)
    words = np.array([target.ctypes.data], np.uint64)
    data = np.arange(4, dtype=np.float32)
    commands: list[Command] = [Upload(words, data), Fill(words + np.uint64(4), 0, 4)]
    captured, _ = driver.capture(commands, data.nbytes)
    (staged,) = api.staged.values()
    other, _ = driver.capture(commands, data.nbytes)
    for scale in (1, 5):
        api.calls.clear()
        driver.replay(captured, [data * scale])
        assert np.array_equal(staged.view(np.float32), data * scale)
        assert api.calls.count("cuStreamSynchronize") == (scale == 5)
        driver.replay(other, [data])  # which has memory of its own
        assert api.calls.count("cuStreamSynchronize") == (scale == 5)
    driver.copy_out(np.zeros(1, np.float32), target.ctypes.data)
    api.calls.clear()
    driver.replay(captured, [data])
    assert "cuStreamSynchronize" not in api.calls
    driver.forget(captured)
    driver.forget(other)
    assert api.staged == {}


@pytest.mark.parametrize("call", ["cuGraphInstantiate", "cuMemHostAlloc", "cuGraphUpload"])
def test_a_graph_that_there_is_no_memory_for(call: str) -> None:
    """Of the GPU's, or of the host's that its uploads read."""
    api = Api(failing={call: CUresult.CUDA_ERROR_OUT_OF_MEMORY})
    driver = opened(api)
    with pytest.raises(NoMemory):
        driver.capture([run_of(np.array([0, 0], np.uint64)), Upload(np.zeros(1, np.uint64), np.zeros(0, "u1"))], 8)
    assert api.staged == {}


def test_a_capture_is_ended_whatever_happens_in_it() -> None:
    api = Api(failing={"cuLaunchKernel": CUresult.CUDA_ERROR_LAUNCH_FAILED})
    driver = opened(api)
    with pytest.raises(SxError):
        driver.capture([run_of(np.zeros(2, np.uint64))], 0)
    assert "cuStreamEndCapture" in api.calls


def test_a_kernel_that_fails() -> None:
    driver = opened(Api(failing={"cuStreamSynchronize": CUresult.CUDA_ERROR_LAUNCH_FAILED}))
    source = np.zeros(4, np.float32)
    target = np.zeros(4, np.float32)
    driver.run(Copy(np.array([target.ctypes.data, source.ctypes.data], np.uint64), 16))
    with pytest.raises(SxError) as raised:
        driver.copy_out(target, source.ctypes.data)
    assert raised.value.diagnostic.code == "E-DEV-005"


def test_modules_and_shared_memory() -> None:
    api = Api()
    driver = opened(api)
    functions = driver.load(PtxModule("kernels", ".version 8.0", ("one", "two")))
    assert dict(functions) == {"one": "one", "two": "two"}
    driver.allow_shared(functions["one"], 40 << 10)
    driver.allow_shared(functions["two"], 96 << 10)
    assert api.launched == [("allowed", "two", 96 << 10)]


def test_a_module_that_is_not_taken() -> None:
    driver = opened(Api(failing={"cuModuleLoadDataEx": CUresult.CUDA_ERROR_INVALID_PTX}))
    with pytest.raises(SxError) as raised:
        driver.load(PtxModule("kernels", "nonsense", ()))
    assert raised.value.diagnostic.code == "E-DEV-006"


def test_moments_of_the_stream() -> None:
    driver = opened(Api())
    assert driver.elapsed(driver.mark(), driver.mark()) == 0.0015


def test_the_bindings_take_what_they_are_given() -> None:
    """Every call of the driver's with cuda-python's own conversions, up to the library that is not there."""
    api = pytest.importorskip("cuda.bindings.driver")
    pathfinder = pytest.importorskip("cuda.pathfinder")
    try:
        pathfinder.load_nvidia_dynamic_lib("cuda")
    except pathfinder.DynamicLibNotFoundError:
        pass
    else:
        pytest.skip("this machine has a driver, whose calls would happen")
    driver = CudaDriver(api, api.CUdevice(0), "none", (8, 0), api.CUstream(0), FromText())
    data, words = np.zeros(4, np.float32), np.zeros(2, np.uint64)
    launch = Run(api.CUfunction(1), (1, 1, 1), (32, 1, 1), 0, words, words)
    kept = Captured(api.CUgraphExec(0), None, (data.view(np.uint8),))
    calls: list[Callable[[], object]] = [
        lambda: open_cuda(0, api, FromText()),
        driver.memory,
        lambda: driver.allocate(256),
        lambda: driver.free(4096),
        lambda: driver.copy_in(4096, data),
        lambda: driver.copy_out(data, 4096),
        lambda: driver.fill(4096, 0, 16),
        lambda: driver.load(PtxModule("kernels", ".version 8.0", ("one",))),
        lambda: driver.allow_shared(api.CUfunction(1), 96 << 10),
        lambda: driver.encode(TensorMap(0, 16, (80, 40), (160,), (64, 32), 128), 4096),
        lambda: driver.run(launch),
        lambda: driver.run(Copy(words, 16)),
        lambda: driver.capture([launch], 0),
        lambda: driver.capture([Upload(words, data), Fill(words, 0, 16)], 16),
        lambda: api.cuMemFreeHost(4096),
        lambda: driver.replay(kept, [data]),
        lambda: driver.forget(kept),
        driver.mark,
        lambda: driver.elapsed(api.CUevent(0), api.CUevent(0)),
        driver.synchronize,
        driver.close,
    ]
    for call in calls:
        with pytest.raises(pathfinder.DynamicLibNotFoundError):
            call()


PROBE = """
import sys
from sexpgpu.gpu.probe import probe
for each in probe():
    print(each.what, each.present, sep="|")
print("cuda.core" in sys.modules, "cuda.bindings.runtime" in sys.modules)
"""


def test_a_machine_without_a_driver_is_probed_in_no_time(tmp_path: Path) -> None:
    """Nothing that waits for a driver is touched; the packages of CUDA may or may not be installed."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=tmp_path, env=dict(os.environ), text=True, capture_output=True, timeout=60
    )
    *found, last = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert [line.split("|")[0] for line in found if not line.startswith("gpu")] == [
        "cuda driver",
        "nvJitLink",
        "cuDNN",
        "cublasLt",
        "nvmath",
        "NCCL",
    ]
    assert last == "False False"
