"""Products as cublasLt has them: one product, and behind it no more than an epilogue of cublasLt's computes.

    d = f(scale a b + c + bias)         f: nothing, relu, gelu with tanh, or times the derivative of that gelu

The group may round between these steps where the library rounds once, at the end. Matrices have one axis whose elements
lie one behind another; the result lies dense, and what is added has its dtype ("cuBLAS library", cublasLtMatmul).
"""

from __future__ import annotations

import math

from attrs import define, field

from sexpgpu.dialects.opdef import Constant, Contract, Dense, Move, Pointwise
from sexpgpu.passes.gpu.layout import Ints, Layout
from sexpgpu.passes.gpu.product_tiling import LAUNCH, Problem, clocks, tiling_of
from sexpgpu.passes.gpu.shown import reshaped, shown
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.dataflow import Node
from sexpgpu.plan.library import Activation, LibraryTensor, ProductGraph, pitch
from sexpgpu.tensortype import TensorType

FACTORS = ("bf16", "f32")
GRAIN = 8
"""What the columns of `aux` are a multiple of."""


def product_graph(task: Task) -> ProductGraph | None:
    """The graph for a group that holds one product, in whose flow composites stand in one piece."""
    (node,) = [n for n in task.flow.nodes if n.record is not None and isinstance(n.record.kind, Contract)]
    (*batch, rows, depth), columns = task.flow.types[node.ins[0]].shape, task.flow.types[node.ins[1]].shape[-1]
    count = math.prod(batch)
    a = _tensor(task, "a", node.ins[0], (count, rows, depth))
    b = _tensor(task, "b", node.ins[1], (count, depth, columns))
    if a is None or b is None or any(pitch(m) is None and pitch(m, turned=True) is None for m in (a, b)):
        return None
    dtype = a.type.dtype
    problem = Problem(count, rows, columns, depth, dtype, tf32=task.tf32)
    if dtype != b.type.dtype or dtype not in FACTORS or is_small(problem):
        return None
    following = _Following(task, (count, rows, columns), node.outs[0])
    if not following.walk():
        return None
    made = following.made()
    if made is None or made[0].type.dtype not in (dtype, "f32"):
        return None
    tensors = (a, b, *following.parts, *made)
    if any(each.type.dtype != made[0].type.dtype for each in tensors[2:]):
        return None
    return ProductGraph(tensors, following.scale, following.activation, task.tf32 and dtype == "f32")


def is_small(problem: Problem) -> bool:
    """Whether a kernel takes so little time that no other could be worth starting in its stead."""
    return not problem.size or not problem.depth or clocks(problem, tiling_of(problem)) < LAUNCH


@define(eq=False)
class _Following:
    """What is made of a product's sums, followed from value to value: `shape` is [batch, rows, columns]."""

    task: Task
    shape: Ints
    value: int
    scale: float = field(default=1.0, init=False)
    activation: Activation = field(default="none", init=False)
    parts: list[LibraryTensor] = field(factory=list, init=False)
    _results: list[tuple[int, Activation, int]] = field(factory=list, init=False)  # argument, f, parts by then

    def walk(self) -> bool:
        """Whether it is an epilogue."""
        flow = self.task.flow
        while True:
            places = [place for place, value in enumerate(flow.results) if value == self.value]
            self._results += [(self.task.result(place), self.activation, len(self.parts)) for place in places]
            users = [node for node in flow.nodes if self.value in node.ins]
            if not users:
                return True
            if len(users) > 1 or users[0].ins.count(self.value) > 1 or not self._takes(users[0]):
                return False
            (self.value,) = users[0].outs

    def made(self) -> tuple[LibraryTensor, ...] | None:
        """d, and what f is taken of where that is a result; None where the results are others."""
        last = (self.activation, len(self.parts))
        ends = [argument for argument, *state in self._results if tuple(state) == last]
        before = [argument for argument, *state in self._results if tuple(state) != last]
        if len(ends) != 1 or len(before) > 1:
            return None
        d = self._dense("d", ends[0])
        if not before:
            return (d,)
        whole = all(state == len(self.parts) for _, _, state in self._results)
        if self.activation != "gelu" or not whole or self.shape[-1] % GRAIN:
            return None
        return (d, self._dense("aux", before[0]))

    def _dense(self, role: str, argument: int) -> LibraryTensor:
        type = TensorType(self.shape, self.task.type(argument).dtype)
        return LibraryTensor(role, argument, type, Layout.dense(self.shape).strides)

    def _takes(self, node: Node) -> bool:
        """Whether the epilogue goes on with an operation."""
        if node.record is None:
            return False
        others = [value for value in node.ins if value != self.value]
        match node.record.kind:
            case Move(form="reshape" | "same"):
                return True
            case Pointwise(scalar="cast"):
                return self.task.flow.types[node.outs[0]].dtype in FACTORS
            case Pointwise(scalar="add"):
                return self.activation == "none" and self._adds(others[0])
            case Pointwise(scalar="mul"):
                factor = _number(self.task, others[0])
                first = self.activation == "none" and not self.parts and self.scale == 1
                self.scale = factor if factor is not None else 1.0
                return first and factor is not None and math.isfinite(factor)
            case Pointwise(scalar="relu"):
                return self._becomes("relu")
            case Pointwise(scalar="gelu"):
                return node.attrs["approximate"] == "tanh" and self._becomes("gelu")
            case Pointwise(scalar="gelu_grad"):
                plain = node.attrs["approximate"] == "tanh" and node.ins[0] == self.value and not self.parts
                return (
                    plain
                    and self.shape[-1] % GRAIN == 0
                    and self._adds(others[0], "aux")
                    and self._becomes("gelu_slope")
                )
            case _:
                return False

    def _becomes(self, activation: Activation) -> bool:
        first = self.activation == "none"
        self.activation = activation
        return first

    def _adds(self, value: int, role: str = "") -> bool:
        """Whether a value is an operand that cublasLt adds, or reads in the stated role; it is noted then."""
        whole = _tensor(self.task, role or "c", value, self.shape)
        if whole is not None and not role and self._is_bias(whole):
            whole = LibraryTensor(
                "bias", whole.argument, TensorType(self.shape[-1:], whole.type.dtype), (1,), whole.offset
            )
        elif whole is None or pitch(whole) is None:
            return False
        if any(each.role == whole.role for each in self.parts):
            return False
        self.parts.append(whole)
        return True

    def _is_bias(self, tensor: LibraryTensor) -> bool:
        count, rows, columns = self.shape
        repeated = all(not step or n == 1 for step, n in zip(tensor.strides[:-1], (count, rows), strict=True))
        return count * rows > 1 and repeated and tensor.strides[-1] == 1 and columns > 1


def _tensor(task: Task, role: str, value: int, shape: Ints) -> LibraryTensor | None:
    """An operand as a tensor of the shape, where a value is a view of one: what widens its elements changes none."""
    found = shown(task, value)
    if found is None or not all(_widens(task, node) for node in found.computed):
        return None
    layout = reshaped(found.layout, shape)
    if layout is None:
        return None
    type = TensorType(shape, task.type(found.argument).dtype)
    return LibraryTensor(role, found.argument, type, layout.strides, layout.offset)


def _widens(task: Task, node: Node) -> bool:
    assert node.record is not None
    given, made = (task.flow.types[values[0]].dtype for values in (node.ins, node.outs))
    return node.record.kind == Pointwise("cast") and (given == made or (given == "bf16" and made == "f32"))


def _number(task: Task, value: int) -> float | None:
    """The number that every element of a value is; None where none is known."""
    makers = {out: node for node in task.flow.nodes for out in node.outs}
    while value in makers:
        node = makers[value]
        if node.record is None:
            return None
        if isinstance(node.record.kind, Constant) and not node.ins:
            dense = node.attrs["value"]
            return float(dense.data) if isinstance(dense, Dense) and dense.is_splat else None
        if not isinstance(node.record.kind, Move) or len(node.ins) != 1:
            return None
        (value,) = node.ins
    return None
