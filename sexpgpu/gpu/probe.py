"""What there is of CUDA on this machine, looked at in an order that cannot hang where there is no driver.

The driver's library is looked for before anything of it is called: without it some bindings above it wait for ever.
"""

from __future__ import annotations

from importlib import import_module, util
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from attrs import frozen

from sexpgpu.diag import SxError, error

MINIMUM_DRIVER = 13000
"""CUDA 13.0, as `cuDriverGetVersion` counts."""
MINIMUM_CAPABILITY = (8, 0)
INSTALL_NCCL = "pip install 'sexpgpu[cuda,nccl]'"
INSTALL = "pip install 'sexpgpu[cuda]'"


@frozen
class Probe:
    """One part: whether it is there, what it is or why not, what its absence means, and whether runs need it."""

    what: str
    present: bool
    detail: str
    without: str = ""
    needed: bool = False


def require_bindings() -> Any:
    """`cuda.bindings.driver`, with a driver below it. `E-DEV-010` without cuda-python, `E-DEV-002` without a driver."""
    try:
        pathfinder: Any = import_module("cuda.pathfinder")
        driver: Any = import_module("cuda.bindings.driver")
    except ImportError:
        raise error("E-DEV-010", "the device cuda needs cuda-python", help=INSTALL) from None
    try:
        pathfinder.load_nvidia_dynamic_lib("cuda")
    except pathfinder.DynamicLibNotFoundError:
        raise error(
            "E-DEV-002",
            "this machine has no CUDA driver",
            expected="libcuda.so.1, which the driver of an NVIDIA GPU installs",
            help="`--device sim` runs the same kernels without a GPU",
        ) from None
    return driver


def shown_driver(version: int) -> str:
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def probe() -> list[Probe]:
    """Driver, GPUs, then the libraries, each looked at only where what it needs is there."""
    return [*_driver(), _jit_link(), _cudnn(), _cublaslt(), _nvmath(), _nccl()]


def _driver() -> list[Probe]:
    try:
        api = require_bindings()
    except SxError as fault:
        said = fault.diagnostic
        return [Probe("cuda driver", False, said.message, said.help or "--device cuda cannot run here", True)]
    status, *_ = api.cuInit(0)
    if status != api.CUresult.CUDA_SUCCESS:
        return [Probe("cuda driver", False, f"the driver does not start: {getattr(status, 'name', status)}",
                      "look at nvidia-smi; --device cuda cannot run here", True)]  # fmt: skip
    version = int(api.cuDriverGetVersion()[1])
    new_enough = version >= MINIMUM_DRIVER
    found = [Probe("cuda driver", new_enough, shown_driver(version), f"{shown_driver(MINIMUM_DRIVER)} is needed", True)]
    count = int(api.cuDeviceGetCount()[1])
    if count == 0:
        found.append(Probe("gpu", False, "the driver shows none", "CUDA_VISIBLE_DEVICES may hide them", True))
    return found + [_gpu(api, ordinal) for ordinal in range(count)]


def _gpu(api: Any, ordinal: int) -> Probe:
    device = api.cuDeviceGet(ordinal)[1]
    kinds = api.CUdevice_attribute
    major = int(api.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)[1])
    minor = int(api.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)[1])
    name = api.cuDeviceGetName(256, device)[1].rstrip(b"\0").decode()
    total = int(api.cuDeviceTotalMem(device)[1])
    detail = f"{name}, compute capability {major}.{minor}, {total / 2**30:.1f} GiB"
    return Probe(
        f"gpu {ordinal}", (major, minor) >= MINIMUM_CAPABILITY, detail, "compute capability 8.0 is needed", True
    )


def _jit_link() -> Probe:
    without = "the driver assembles kernels, which are then not kept between runs"
    try:
        linker: Any = import_module("cuda.bindings.nvjitlink")
        major, minor = linker.version()
    except (ImportError, RuntimeError) as fault:
        return Probe("nvJitLink", False, _reason(fault), without)
    return Probe("nvJitLink", True, f"{major}.{minor}")


def _cudnn() -> Probe:
    """cuDNN and its frontend; the version is the library's own, which it says without a GPU."""
    from sexpgpu.gpu.library.cudnn import MINIMUM, shown_version

    without = "attention and convolutions run as generated kernels"
    found = _library("cudnn", "cuDNN", without)
    if not found.present:
        return found
    try:
        frontend: Any = import_module("cudnn")
        found_version = int(frontend.backend_version())
    except (ImportError, RuntimeError, OSError) as fault:
        return Probe("cuDNN", False, f"its frontend does not load: {_reason(fault)}", without)
    if found_version < MINIMUM:
        detail = f"{shown_version(found_version)}, {shown_version(MINIMUM)} or newer is needed"
        return Probe("cuDNN", False, detail, without)
    return Probe("cuDNN", True, f"{shown_version(found_version)}, {found.detail}")


def _cublaslt() -> Probe:
    return _library("cublasLt", "cublasLt", _OWN_PRODUCTS)


def _nvmath() -> Probe:
    """The bindings of cublasLt, by their version: importing them is not needed for that, and calling needs a driver."""
    try:
        found = version("nvmath-python")
    except PackageNotFoundError:
        return Probe("nvmath", False, "not installed", f"{_OWN_PRODUCTS}; {INSTALL}")
    return Probe("nvmath", True, found)


def _nccl() -> Probe:
    """NCCL's library and, by their version, its bindings: importing them takes their time."""
    without = f"a run takes one GPU; {INSTALL_NCCL}"
    try:
        bindings = version("nccl4py")
    except PackageNotFoundError:
        return Probe("NCCL", False, "nccl4py is not installed", without)
    found = _library("nccl", "NCCL", without)
    return Probe("NCCL", True, f"nccl4py {bindings}, {found.detail}") if found.present else found


_OWN_PRODUCTS = "products run as generated kernels"


def _library(name: str, shown: str, without: str) -> Probe:
    """A library, by its file alone: calling it needs a GPU."""
    if util.find_spec("cuda") is None or util.find_spec("cuda.pathfinder") is None:
        return Probe(shown, False, "not looked for without cuda-python", without)
    pathfinder: Any = import_module("cuda.pathfinder")
    try:
        loaded = pathfinder.load_nvidia_dynamic_lib(name)
    except RuntimeError as fault:
        return Probe(shown, False, _reason(fault), without)
    return Probe(shown, True, str(loaded.abs_path))


def _reason(fault: Exception) -> str:
    """Why a library is not there, without the list of the places where it was looked for."""
    return str(fault).strip().partition("\n")[0].partition(": No such file")[0] or type(fault).__name__
