"""Machine code of PTX, made in this process by nvJitLink where it is installed, which needs no driver, and kept."""

from __future__ import annotations

import hashlib
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import define

from sexpgpu.plan.records import PtxModule

_OWN = re.compile(r"^\.target (sm_\d+a)\b", re.MULTILINE)
"""What PTX says that has instructions of one compute capability alone: for another it is not assembled."""


@define(eq=False)
class Assembler:
    """`folder` keeps what was assembled, by the text, the chip and the assembler; None keeps nothing."""

    folder: Path | None = None

    def cubin(self, module: PtxModule, capability: tuple[int, int]) -> bytes | None:
        """The machine code of a module; None without nvJitLink, or where it refuses, which the driver explains better.

        Not kept where the folder cannot be written: it is only a cache.
        """
        try:
            linker: Any = import_module("cuda.bindings.nvjitlink")
            version = linker.version()
        except (ImportError, RuntimeError):
            return None
        own = _OWN.search(module.text)
        chip = own[1] if own is not None else f"sm_{capability[0]}{capability[1]}"
        path = self._path(module.text, chip, version)
        if path is not None and path.is_file():
            return path.read_bytes()
        made = assemble(linker, module, chip)
        if made is not None and path is not None:
            _keep(path, made)
        return made

    def _path(self, text: str, chip: str, version: tuple[int, int]) -> Path | None:
        if self.folder is None:
            return None
        named = f"{chip} {version[0]}.{version[1]}\n{text}"
        return self.folder / f"{hashlib.sha256(named.encode()).hexdigest()}.cubin"


def assemble(linker: Any, module: PtxModule, chip: str) -> bytes | None:
    """The machine code of a module by `cuda.bindings.nvjitlink`; None where that refuses the text."""
    text = module.text.encode()
    handle = linker.create(1, [f"-arch={chip}"])
    try:
        linker.add_data(handle, linker.InputType.PTX, text, len(text), module.name)
        linker.complete(handle)
        made = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, made)
    except linker.nvJitLinkError:
        return None
    finally:
        linker.destroy(handle)
    return bytes(made)


def _keep(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
