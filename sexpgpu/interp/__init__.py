"""The CPU device: plans executed with NumPy in one arena, and the reference that walks the module itself."""

from sexpgpu.interp.arena import Arena
from sexpgpu.interp.program import Program

__all__ = ["Arena", "Program"]
