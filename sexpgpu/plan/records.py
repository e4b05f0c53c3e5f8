"""The plan of a graph as plain data: values in numbered slots, steps over them, and where each value lives.

A plan names operations of the table by name and holds neither MLIR nor functions: it can be compared, hashed, written
to a file and read by another process. What runs it is a device.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen
from numpy.typing import NDArray

from sexpgpu.diag import Span
from sexpgpu.experiment import Graph
from sexpgpu.plan.library import Library
from sexpgpu.plan.tables import Table
from sexpgpu.plan.tensor_maps import TensorMap
from sexpgpu.tensortype import TensorType


@frozen
class Given:
    """An argument of the graph: memory of the caller, never written."""

    place: int


@frozen
class Fixed:
    """A constant of the plan."""

    place: int


@frozen
class At:
    """Bytes of the arena from `offset`, in row-major order."""

    offset: int


@frozen
class Into:
    """Memory that the caller gives for a result of the graph."""

    place: int


@frozen
class View:
    """The memory of another slot, seen with another shape or stride."""

    of: int


@frozen
class Own:
    """Memory made when the value is: what a plan without a memory plan has."""


Home = Given | Fixed | At | Into | View | Own


@frozen
class Slot:
    """A value: its type and where it lives."""

    type: TensorType
    home: Home


@frozen
class Turns:
    """A step's body runs once for each place along the axes of its items (`dialects/loops.py` says how)."""

    states: int
    items: tuple[int, ...]
    outs: tuple[int, ...]
    reverse: bool
    count: int


@frozen
class Tiles:
    """A step's body runs once for each tile of the leading axes `extent`.

    `cut` says for each operand, then for each result, whether it has these axes; `shapes` are the shapes that tiles
    have, whole ones first, each with a body of its own. A result that is not cut is what the tiles give, in order,
    under its fold: `add`, `mul`, `max`, `min`, `or` or `and`.
    """

    extent: tuple[int, ...]
    cut: tuple[bool, ...]
    shapes: tuple[tuple[int, ...], ...]
    folds: tuple[str, ...]


FAULTS = -1
"""The argument of a kernel that is what the host looks at for indices out of range and updates that are not finite.

Four i32: whether there was such an index, the index, the length of its axis, and whether there was such an update.
"""
NOT_FINITE = 3
"""The last of them."""
SCALE = -2
"""The argument of a kernel that is what an update multiplies gradients by: an f64, and the same as two f32."""


@frozen
class Launch:
    """One kernel run once by a grid of blocks of threads.

    `args` are its pointers: numbers of the step's operands, then of its results, then of its temporaries, or `FAULTS`
    or `SCALE`.
    What an operand's pointer points to is the buffer that its slot looks into, from the first byte: offsets and strides
    of views are in the kernel. `shared` are bytes of dynamic shared memory. `how` says for reports how the work was
    divided, where the kernel had a choice. Behind `args` the kernel takes its `table`, if there is one, and its `maps`.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    args: tuple[int, ...]
    how: str = ""
    table: Table | None = None
    maps: tuple[TensorMap, ...] = ()


@frozen
class Launches:
    """A step is kernels run in order; `temporaries` are the bytes of each, one behind another in the workspace.

    With `over`, the number of an operand, the kernels change the first result, which holds that operand before: either
    both are the same memory, or the operand is copied there. With a `library` the device may run its graph instead.
    Where one kernel has a table, those without one make what is the same for every tensor.
    """

    kernels: tuple[Launch, ...]
    temporaries: tuple[int, ...] = ()
    over: int = -1
    library: Library | None = None


@frozen
class Step:
    """One operation of the table, one loop (`scan`) or one fused group: `outs` from `ins`.

    A loop or group has `bodies`, which run as `how` says in the `workspace`: (offset, bytes) of the arena.
    """

    op: str
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    how: Turns | Tiles | Launches | None = None
    bodies: tuple[GraphPlan, ...] = ()
    workspace: tuple[int, int] = (0, 0)
    span: Span | None = None
    path: str = ""


@frozen
class Memory:
    """What the arena of a graph needs, in bytes.

    `live` is the most that is live at once: no placement can do with less, for this order. `step` is where that is.
    """

    arena: int
    live: int
    step: int


@frozen(eq=False)
class GraphPlan:
    """A graph that a device can run: `spec` says what goes in and comes out.

    A constant has one place along the axes on which it repeats. `results` names the slot of each result.
    """

    spec: Graph
    slots: tuple[Slot, ...]
    steps: tuple[Step, ...]
    constants: tuple[NDArray[Any], ...]
    results: tuple[int, ...]
    memory: Memory | None


Plans = dict[str, GraphPlan]
"""The plans of an experiment's graphs, by the symbols of their functions."""


@frozen
class PtxModule:
    """A text of PTX and the kernels in it."""

    name: str
    text: str
    kernels: tuple[str, ...]


@frozen
class Stacked:
    """A way to run a step's microbatches: `degree` of them a call of graph `symbol`, predicted to take `seconds`."""

    degree: int
    symbol: str
    seconds: float


@frozen
class DevicePlans:
    """Plans whose steps are launches, and the modules that hold their kernels, made for `chip`: `sm_80`.

    `stacked` are the ways to run a step's microbatches, where there are several. The gradients of a call are predicted
    to be added to those before in `folding` seconds, and a step's generators to take `generating`.

    `reports` are what the lowering report says of an experiment's graphs, below its first line, by the degrees that a
    run may stack by: for these the modules have kernels. `lowering` is that of the run.
    """

    plans: Plans
    modules: tuple[PtxModule, ...]
    chip: str
    lowering: str = ""
    reports: tuple[tuple[tuple[int, ...], str], ...] = ()
    stacked: tuple[Stacked, ...] = ()
    folding: float = 0.0
    generating: float = 0.0
