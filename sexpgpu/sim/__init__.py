"""The simulated GPU: executes PTX on NumPy arrays and reports what a kernel does wrong.

`Machine` is the device: allocate, write, load a module, launch a kernel, read. Faults of kernels are diagnostics
(`E-SIM-…`) with the kernel, the block, the thread and the line. Only NumPy and attrs are needed.
"""

from sexpgpu.sim.checks import Checks
from sexpgpu.sim.machine import Argument, Kernel, Machine, Module
from sexpgpu.sim.report import Report, Traffic, to_json, to_text
from sexpgpu.sim.tensormap import encode_tensor_map

__all__ = [
    "Argument",
    "Checks",
    "Kernel",
    "Machine",
    "Module",
    "Report",
    "Traffic",
    "encode_tensor_map",
    "to_json",
    "to_text",
]
