"""A function as plain Python objects, and the questions that patterns ask of it.

`read` walks a function once. A `Node` is a value with the operation that makes it, the nodes that operation reads and
the operations that read the value. A pattern gives a `Match`: which value a composite replaces, what builds it, and
the nodes that disappear with it. Questions see through spelling: `number` through movements of a constant, `reduced`
through the reshape and broadcast that bring a reduction back to its operand's shape, `difference` through x + (-y).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import numpy_dtype
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of
from sexpgpu.dialects.signature import type_of
from sexpgpu.tensortype import DType, TensorType

ARGUMENT, RESULT = "argument", "result"  # names of nodes that are no operation's first result
_SOURCES = (ARGUMENT, RESULT, "constant", "iota")
_WHOLE = {
    "bool": (0, 1),
    "u8": (0, 2**8 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "bf16": (-(2**8), 2**8),
    "f32": (-(2**24), 2**24),
    "f64": (-(2**53), 2**53),
}
"""The longest run of whole numbers around 0 that a dtype has."""
_TOLERANCE = {"f64": 5e-12, "f32": 5e-7, "bf16": 5e-7}


class Node:
    """A value. `name` is its operation's without the dialect; a further result of one has the name `result`."""

    __slots__ = ("_attrs", "_type", "ins", "name", "op", "users", "value")

    def __init__(self, name: str, op: Any, value: Any, ins: list[Node]) -> None:
        self.name = name
        self.op = op
        self.value = value
        self.ins = ins
        self.users: list[Node] = []
        self._type: TensorType | None = None
        self._attrs: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"{self.name}{self.type.shape}"

    @property
    def type(self) -> TensorType:
        if self._type is None:
            self._type = type_of(self.value)
        return self._type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def attrs(self) -> dict[str, Any]:
        if self._attrs is None:
            self._attrs = attrs_of(self.op)
        return self._attrs

    def is_source(self) -> bool:
        """Whether nothing is computed for it that a match could save: an argument, a constant, an iota."""
        return self.name in _SOURCES


Build = Callable[[Builder, Callable[[Node], Val]], Val]
"""Adds a composite and what fits it in at the builder's place; the function gives the `Val` of a node."""


@frozen(eq=False)
class Match:
    """A region that is operation `op`: `root` is replaced by what `build` gives, and `interior` goes with it.

    `form` says which of a family's spellings it was. A match that says why it `fell_back` is left as it is.
    """

    op: str
    root: Node
    interior: frozenset[Node] = frozenset()
    build: Build | None = None
    form: str = ""
    fell_back: str = ""


def composite(op: str, root: Node, seen: set[Node], *operands: Node, form: str = "", **attrs: Any) -> Match:
    """The match of an operation of one result on nodes as they are."""

    def build(b: Builder, val: Callable[[Node], Val]) -> Val:
        return b(op, *map(val, operands), **attrs)

    return Match(op, root, frozenset(seen - {root}), build, form)


def fell_back(op: str, root: Node, reason: str) -> Match:
    """A region that would be `op` but for the reason."""
    return Match(op, root, fell_back=reason)


class View:
    """The nodes of a function, those of each operation name in order; kept true while matches are applied."""

    def __init__(self, block: Any) -> None:
        self.named: dict[str, list[Node]] = {}
        self._nodes: dict[Any, Node] = {a: Node(ARGUMENT, None, a, []) for a in block.arguments}
        for op in block.operations:
            self._add(op.operation)

    def _add(self, op: Any) -> Node:
        nodes = self._nodes
        name = op.name
        results = op.results
        ins = [nodes[v] for v in op.operands]
        node = Node(name[3:] if name.startswith("sx.") else name, op, results[0] if len(results) else None, ins)
        for other in ins:
            other.users.append(node)
        self.named.setdefault(node.name, []).append(node)
        for i, value in enumerate(results):
            nodes[value] = node if i == 0 else Node(RESULT, op, value, [])
        return node

    def each(self, *names: str) -> list[Node]:
        """The nodes of these operations that are still in the function; a list, so that matches may change it."""
        return [node for name in names for node in self.named.get(name, ()) if node.op is not None]

    def node(self, value: Any) -> Node:
        return self._nodes[value]

    def adopt(self, value: Any) -> list[Node]:
        """Make nodes of what was just built for `value`: its operation, and those behind it, which come first."""
        if value in self._nodes:
            return []
        op = value.owner
        return [node for operand in op.operands for node in self.adopt(operand)] + [self._add(op)]

    def replace(self, node: Node, value: Any) -> None:
        """Readers of `node` read `value` instead; operations that nobody reads any more go."""
        other = self._nodes[value]
        node.value.replace_all_uses_with(value)
        for user in node.users:
            user.ins = [other if v is node else v for v in user.ins]
        other.users += node.users
        node.users = []
        self._drop(node)

    def _drop(self, node: Node) -> None:
        if node.users or node.name == ARGUMENT or node.name == RESULT or node.op is None:
            return
        op = node.op
        if len(op.results) != 1 or not op.name.startswith("sx."):
            return
        node.op = None
        del self._nodes[node.value]  # a later value may live at the address of this one
        op.erase()
        for other in node.ins:
            other.users.remove(node)
        for other in node.ins:
            self._drop(other)


def close(a: float, b: float, dtype: str) -> bool:
    """Whether two coefficients are the same number, up to how constants of the dtype are rounded."""
    return abs(a - b) <= _TOLERANCE.get(dtype, 0.0) * abs(b)


def number(node: Node) -> float | None:
    """The number that fills a constant, through movements and casts of it.

    What a cast to a float rounds off is left in: a composite takes the number as it was written.
    """
    casts = []
    while node.name in ("broadcast", "reshape", "cast"):
        if node.name == "cast" and not node.type.is_float:
            casts.append(node.type.dtype)
        node = node.ins[0]
    if node.name != "constant" or not node.attrs["value"].is_splat:
        return None
    value = node.attrs["value"].data
    if casts:
        number = np.asarray(value, numpy_dtype(node.type.dtype))
        for dtype in reversed(casts):
            number = OPS["cast"].numpy(number, dtype=dtype)
        value = number.item()
    return float(value)


def counts(dtype: DType, least: float, most: float) -> bool:
    """Whether the dtype has every whole number from `least` to `most`."""
    low, high = _WHOLE[dtype]
    return low <= least and most <= high


def is_number(node: Node, wanted: float) -> bool:
    found = number(node)
    return found is not None and (found == wanted or close(found, wanted, node.type.dtype))


def through(node: Node, names: Iterable[str], seen: set[Node]) -> Node:
    """The first node at or behind `node` that is none of the one-operand operations `names`; those passed are seen."""
    while node.name in names:
        seen.add(node)
        node = node.ins[0]
    return node


def operands_of(node: Node, name: str) -> tuple[tuple[Node, Node], ...]:
    """The operands of a commutative operation in both orders; none where the node is another operation."""
    if node.name != name:
        return ()
    x, y = node.ins
    return ((x, y), (y, x)) if x is not y else ((x, y),)


def difference(node: Node, seen: set[Node]) -> tuple[Node, Node] | None:
    """(x, y) of a node that is x - y or x + (-y)."""
    if node.name == "sub":
        seen.add(node)
        return node.ins[0], node.ins[1]
    for x, y in operands_of(node, "add"):
        if y.name == "neg":
            seen.update((node, y))
            return x, y.ins[0]
    return None


def square_of(node: Node, seen: set[Node]) -> Node | None:
    """x of x^2, x x or pow(x, 2)."""
    if node.name == "square" or (node.name == "mul" and node.ins[0] is node.ins[1]):
        seen.add(node)
        return node.ins[0]
    if node.name == "pow" and number(node.ins[1]) == 2:
        seen.add(node)
        return node.ins[0]
    return None


def spread(node: Node, axis: int, seen: set[Node]) -> Node:
    """What a value that is constant along `axis` repeats there: behind its broadcast, and reshapes that add the 1.

    The node itself where it is no such value.
    """
    shape = node.shape
    if node.name != "broadcast":
        return node
    inner = node.ins[0]
    given = inner.shape
    if (1,) * (len(shape) - len(given)) + given != (*shape[:axis], 1, *shape[axis + 1 :]):
        return node
    seen.add(node)
    return through(inner, ("reshape",), seen)


def reduced(node: Node, name: str, axis: int, seen: set[Node]) -> Node | None:
    """x where the node is the reduction `name` of x along just `axis`."""
    if node.name != name or node.attrs["axes"] != (axis,):
        return None
    seen.add(node)
    return node.ins[0]


def one_axis(node: Node) -> int | None:
    """The axis of a reduction along one."""
    axes = node.attrs["axes"]
    return axes[0] if len(axes) == 1 else None


def readers(node: Node, names: Iterable[str]) -> list[Node]:
    """What reads the node, seen through operations of one operand called `names`, which are left out."""
    found = []
    for user in node.users:
        found += readers(user, names) if user.name in names else [user]
    return found


def outside(match: Match) -> Node | None:
    """A node of the interior that something outside the region reads, None when there is none."""
    inside = match.interior | {match.root}
    for node in match.interior:
        if not node.is_source() and any(user not in inside for user in node.users):
            return node
    return None
