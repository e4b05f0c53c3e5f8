"""Runs a few lines of PTX over arrays: one lane an element, inputs in registers, outputs read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.sim import Checks, Machine, Report

Array = npt.NDArray[Any]
HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
BLOCK = 128


def entry(body: str, parameters: int = 1, name: str = "k", before: str = "") -> str:
    """A module with one kernel: its parameters are pointers, in %p0, %p1, …; %i is the number of the thread."""
    declared = ", ".join(f".param .u64 {name}_{n}" for n in range(parameters))
    loads = "".join(f"  ld.param.u64 %p{n}, [{name}_{n}];\n" for n in range(parameters))
    return (
        f"{HEAD}{before}.visible .entry {name}({declared})\n{{\n  .reg .u64 %p<{parameters + 1}>, %q<8>;\n"
        f"  .reg .b32 %i, %t<4>;\n{loads}"
        "  mov.u32 %t0, %ctaid.x; mov.u32 %t1, %ntid.x; mov.u32 %t2, %tid.x; mad.lo.u32 %i, %t0, %t1, %t2;\n"
        f"{body}\n  ret;\n}}\n"
    )


def _register(size: int) -> str:
    return {1: "b16", 2: "b16", 4: "b32", 8: "b64"}[size]


def lanes(text: str, outputs: Mapping[str, Any], **inputs: Array) -> dict[str, Array]:
    """Run `text` with registers %name of each input; what registers of the `outputs` (name to dtype) hold then.

    An output of bool is a predicate. Inputs are arrays of one length, any.
    """
    n = max(len(x) for x in inputs.values()) if inputs else BLOCK
    names = [*inputs, *outputs]
    body = ""
    for k, name in enumerate(names):
        given = inputs.get(name)
        dtype = np.dtype(outputs[name] if given is None else given.dtype)
        kind = "pred" if dtype == np.bool_ else _register(dtype.itemsize)
        body += f"  .reg .{kind} %{name}; .reg .b16 %h{name}; .reg .u64 %at{name};\n"
        body += f"  mad.wide.u32 %at{name}, %i, {max(dtype.itemsize, 1)}, %p{k};\n"
        if given is not None:
            load = f"ld.global.b{dtype.itemsize * 8}"
            if dtype == np.bool_:
                body += f"  ld.global.u8 %h{name}, [%at{name}]; setp.ne.b16 %{name}, %h{name}, 0;\n"
            else:
                body += f"  {load} %{name}, [%at{name}];\n"
    body += f"  {{ {text} }}\n"
    for name, wanted in outputs.items():
        if np.dtype(wanted) == np.bool_:
            body += f"  selp.b16 %h{name}, 1, 0, %{name}; st.global.u8 [%at{name}], %h{name};\n"
        else:
            body += f"  st.global.b{np.dtype(wanted).itemsize * 8} [%at{name}], %{name};\n"
    machine = Machine(Checks(uninitialised=True))
    padded = -(-n // BLOCK) * BLOCK
    addresses = []
    for name in names:
        dtype = np.dtype(outputs[name] if name in outputs else inputs[name].dtype)
        address = machine.allocate(padded * dtype.itemsize, name)
        if name in inputs:
            machine.write(address, np.resize(inputs[name], padded))
        addresses.append(address)
    module = machine.load(entry(body, len(names)), "snippet")
    machine.launch(module.kernel("k"), (padded // BLOCK, 1, 1), (BLOCK, 1, 1), addresses)
    found = {}
    for name, address in zip(names, addresses, strict=True):
        if name in outputs:
            dtype = np.dtype(outputs[name])
            found[name] = machine.read(address, padded * dtype.itemsize).view(dtype)[:n].copy()
    return found


def one(text: str, dtype: Any, **inputs: Array) -> Array:
    """The output %o of `text`."""
    return lanes(text, {"o": dtype}, **inputs)["o"]


def launch(
    text: str,
    *buffers: Array | int,
    grid: int = 1,
    block: int = 32,
    shared: int = 0,
    checks: Checks | None = None,
    name: str = "k",
    write: bool = True,
) -> tuple[Report, list[Array]]:
    """Run a module's kernel with a buffer for each parameter (an integer: so many bytes that nobody wrote)."""
    machine = Machine(checks or Checks.every())
    addresses = []
    for n, buffer in enumerate(buffers):
        size = buffer if isinstance(buffer, int) else buffer.nbytes
        addresses.append(machine.allocate(size, f"buffer {n}"))
        if not isinstance(buffer, int) and write:
            machine.write(addresses[-1], buffer)
    module = machine.load(text, name)
    report = machine.launch(module.kernel(name), (grid, 1, 1), (block, 1, 1), addresses, shared)
    sizes = [b if isinstance(b, int) else b.nbytes for b in buffers]
    return report, [machine.read(a, n).copy() for a, n in zip(addresses, sizes, strict=True)]


def fault(text: str, *buffers: Array | int, **options: Any) -> Diagnostic:
    """The diagnostic that a kernel is stopped with."""
    try:
        launch(text, *buffers, **options)
    except SxError as error:
        return error.diagnostic
    raise AssertionError("nothing was reported")
