"""The reference device: a module's functions executed operation by operation with NumPy."""

from sexpgpu.interp.program import Program, load

__all__ = ["Program", "load"]
