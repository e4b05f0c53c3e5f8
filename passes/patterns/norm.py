"""Layer norm and RMS norm along the last axis, anchored on the inverse root.

    c = x - mean x,  v = mean(c^2),  y = c rsqrt(v + eps) [weight] [+ bias]      layer_norm
    v = mean(x^2),                   y = x rsqrt(v + eps) [weight]               rms_norm

The mean is a sum over the length or times its inverse; the square c c, c^2 or pow(c, 2); the root rsqrt, 1 / sqrt, a
division by sqrt, or pow(., -0.5). Factors come in any order. A missing weight is ones, a missing bias zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.passes.patterns.matching import (
    Match,
    Node,
    View,
    close,
    difference,
    fell_back,
    is_number,
    number,
    operands_of,
    reduced,
    spread,
    square_of,
    through,
)
from sexpgpu.tensortype import TensorType

_REACH = 4  # products between the inverse root and the result


def matches(view: View) -> Iterator[Match]:
    for root in view.each("rsqrt", "sqrt", "pow"):
        if root.name == "pow" and number(root.ins[1]) not in (0.5, -0.5):
            continue
        size = _mean_square(root)
        if size is not None:
            yield from _scaled(size)


@frozen
class _Size:
    """The inverse root of the mean of squares of `line`, plus eps; `whole` is x where line is x less its mean."""

    root: Node
    inverse: bool  # the root is 1/sqrt already
    line: Node
    x: Node
    eps: float
    seen: frozenset[Node]

    @property
    def centred(self) -> bool:
        return self.line is not self.x


def _mean_square(root: Node) -> _Size | None:
    for variance, eps in operands_of(root.ins[0], "add"):
        added = number(eps)
        if added is None or added <= 0:
            continue
        seen: set[Node] = {root, root.ins[0]}
        squares = _mean_of(through(variance, ("reshape",), seen), seen)
        line = None if squares is None else square_of(squares, seen)
        if line is None:
            continue
        inverse = root.name == "rsqrt" or (root.name == "pow" and number(root.ins[1]) == -0.5)
        x = _uncentred(line, seen) or line
        return _Size(root, inverse, line, x, added, frozenset(seen))
    return None


def _mean_of(node: Node, seen: set[Node]) -> Node | None:
    """x where the node is the mean of x along its last axis, with or without that axis."""
    by = None
    total = node
    if node.name == "div":
        by, total = number(node.ins[1]), node.ins[0]
    else:
        for one, other in operands_of(node, "mul"):
            if (factor := number(other)) is not None:
                by, total = 1 / factor if factor else None, one
    total = through(total, ("reshape",), seen)
    if by is None or total.name != "sum":
        return None
    axis = total.ins[0].type.rank - 1
    x = reduced(total, "sum", axis, seen)
    if x is None or not close(by, float(x.shape[-1]), x.type.dtype):
        return None
    seen.add(node)
    return x


def _uncentred(line: Node, seen: set[Node]) -> Node | None:
    """x where the line is x less its mean."""
    inner: set[Node] = set()
    pair = difference(line, inner)
    if pair is None:
        return None
    mean = spread(pair[1], line.type.rank - 1, inner)
    if _mean_of(mean, inner) is not pair[0]:
        return None
    seen |= inner
    return pair[0]


def _scaled(size: _Size) -> Iterator[Match]:
    """The largest product of the line, the inverse root and a weight, and the sum with a bias."""
    found: tuple[Node, Node | None, set[Node]] | None = None
    for product in _products(size.root):
        seen: set[Node] = set(size.seen)
        factors = _factors(product, size, seen)
        if factors is not None:
            found = (product, factors[0], seen)
    if found is None:
        return
    root, weight, seen = found
    if size.x.type.dtype not in ("f32", "f64"):
        yield fell_back("layer_norm", root, f"it is computed in {size.x.type.dtype}")
        return
    bias = None
    if size.centred:
        for user in root.users:
            for one, other in operands_of(user, "add"):
                if one is root and len(root.users) == 1 and (vector := _vector(other, set())) is not None:
                    bias = vector
                    _vector(other, seen)
                    seen.add(root)
                    root = user
    yield _match(size, root, weight, bias, seen)


def _products(root: Node) -> list[Node]:
    """Products and quotients that the inverse root goes into, nearest first."""
    found: list[Node] = []
    level = [root]
    for _ in range(_REACH + 2):
        level = [
            user
            for node in level
            for user in dict.fromkeys(node.users)
            if user.name in ("mul", "div", "broadcast", "reshape", "reciprocal")
        ]
        found += [node for node in level if node.name in ("mul", "div")]
    return found


def _factors(product: Node, size: _Size, seen: set[Node]) -> tuple[Node | None] | None:
    """(weight or None,) where the product is line, inverse root and perhaps a weight; None where it is not that."""
    above: list[Node] = []
    below: list[Node] = []
    if not _flatten(product, above, below, size, seen):
        return None
    axis = size.line.type.rank - 1
    weights: list[Node] = []
    lines = roots = 0
    for node in above:
        if node is size.line:
            lines += 1
        elif (vector := _vector(node, seen)) is not None:
            weights.append(vector)
        else:
            inverse = spread(node, axis, seen)
            if (inverse if size.inverse else _inverted(inverse, seen)) is not size.root:
                return None
            roots += 1
    for node in below:
        if size.inverse or spread(node, axis, seen) is not size.root:
            return None
        roots += 1
    if lines != 1 or roots != 1 or len(weights) > 1:
        return None
    return (weights[0] if weights else None,)


def _inverted(node: Node, seen: set[Node]) -> Node | None:
    """x of 1 / x."""
    if node.name == "reciprocal" or (node.name == "div" and is_number(node.ins[0], 1.0)):
        seen.add(node)
        return node.ins[-1]
    return None


def _flatten(node: Node, above: list[Node], below: list[Node], size: _Size, seen: set[Node]) -> bool:
    """The factors of a full-size product into `above`, its divisors into `below`."""
    if node is size.line or node.shape != size.line.shape or len(above) > _REACH:
        above.append(node)
        return len(above) <= _REACH
    if node.name == "mul":
        seen.add(node)
        return all(_flatten(v, above, below, size, seen) for v in node.ins)
    if node.name == "div" and number(node.ins[0]) is None:
        seen.add(node)
        below.append(node.ins[1])
        return _flatten(node.ins[0], above, below, size, seen)
    above.append(node)
    return True


def _vector(node: Node, seen: set[Node]) -> Node | None:
    """What is repeated over all axes but the last: a value whose elements lie along that axis."""
    if node.name != "broadcast":
        return None
    inner = node.ins[0]
    if inner.type.size != node.shape[-1] or inner.shape[-1:] != node.shape[-1:]:
        return None
    seen.add(node)
    return inner


def _match(size: _Size, root: Node, weight: Node | None, bias: Node | None, seen: set[Node]) -> Match:
    op = "layer_norm" if size.centred else "rms_norm"
    line = TensorType((size.line.shape[-1],), size.x.type.dtype)

    def build(b: Builder, val: Callable[[Node], Val]) -> Val:
        def vector(node: Node | None, fill: float) -> Val:
            if node is None:
                return b.constant(fill, line)
            given = val(node)
            return given if given.type.shape == line.shape else b("reshape", given, shape=line.shape)

        operands = [val(size.x), vector(weight, 1.0)]
        if size.centred:
            operands.append(vector(bias, 0.0))
        return b.several(op, *operands, eps=size.eps)[0]

    parts = [name for name, node in (("weight", weight), ("bias", bias)) if node is not None]
    form = f"with {' and '.join(parts)}" if parts else "alone"
    return Match(op, root, frozenset(seen - {root}), build, form)
