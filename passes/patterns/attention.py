"""Attention, anchored on the softmax of scores: all from the product that makes them to the one that mixes values.

    scores = q k^T;  scale, bias and mask in any order;  y = softmax(scores) v            attention, attention_biased

The scale may stand on q, on k or on the scores, as a factor or a divisor. A mask is a `where` with a very low number,
or numbers that are added; one made of positions becomes `causal` and `window`, any other a bias, as does what else is
added. Heads of k and v that are repeated for groups of queries are read as they are. Axes in front may be one, two or
more, merged or not. Under bf16 the casts around the softmax are part of it, and a scale on q or k stays outside unless
it is a power of two, since the product with it rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from attrs import evolve, frozen

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.passes.patterns.heads import side
from sexpgpu.passes.patterns.mask import LOWEST, Band, band, hidden, inverse
from sexpgpu.passes.patterns.matching import Match, Node, View, fell_back, number, operands_of

_STEPS = 12


@frozen
class _Scores:
    """What lies between the product and the softmax. Biases are nodes to add, with a factor; masks what is seen."""

    product: Node
    scale: float = 1.0
    biases: tuple[tuple[Node, float], ...] = ()
    masks: tuple[Node, ...] = ()
    limits: tuple[Band, ...] = ()
    seen: frozenset[Node] = frozenset()
    written: tuple[str, ...] = ()
    trouble: str = ""

    def past(self, *nodes: Node) -> _Scores:
        return evolve(self, seen=self.seen | set(nodes))

    def scaled(self, by: float) -> _Scores:
        return evolve(self, scale=self.scale * by, biases=tuple((node, factor * by) for node, factor in self.biases))

    def noted(self, text: str) -> _Scores:
        return self if text in self.written else evolve(self, written=(*self.written, text))


def matches(view: View) -> Iterator[Match]:
    for softmax in view.each("softmax"):
        rank = softmax.type.rank
        if rank < 2 or softmax.attrs["axis"] != rank - 1:
            continue
        found = _scores(softmax.ins[0], softmax.shape[-2:], _STEPS)
        if found is None:
            continue
        mixed = _mixed(softmax)
        if isinstance(mixed, str):
            yield fell_back("attention", softmax, mixed)
        elif mixed is not None:
            yield _match(softmax, found, *mixed)


def _mixed(softmax: Node) -> tuple[Node, set[Node]] | str | None:
    """(the product of the weights with the values, what lies before it), or why it is out of reach."""
    seen: set[Node] = set()
    node = softmax
    while True:
        if len(node.users) != 1:
            return "the weights are read by more than one operation" if node.users else None
        user = node.users[0]
        if user.name == "matmul":
            return (user, seen) if user.ins[0] is node and node.shape[-1] == softmax.shape[-1] else None
        if user.name == "where" or (user.name in ("mul", "div") and number(user.ins[1]) is not None):
            return "an operation stands between the weights and the product with the values, as dropout does"
        if user.name not in ("cast", "reshape") or user.shape[-1:] != softmax.shape[-1:]:
            return None
        seen.add(user)
        node = user


def _scores(node: Node, shape: tuple[int, ...], steps: int) -> _Scores | None:
    """The steps from the softmax's operand down to a product, None where there is no way to one."""
    if steps == 0:
        return None
    rows, columns = shape[-2:]
    match node.name:
        case "matmul":
            return _Scores(node)
        case "cast" if node.ins[0].type.dtype == "bf16":
            found = _scores(node.ins[0], shape, steps - 1)
            return None if found is None else found.past(node)
        case "reshape":
            inner = node.ins[0].shape
            if len(inner) < 2 or inner[-1] != columns or inner[-2] % rows:
                return None
            found = _scores(node.ins[0], shape, steps - 1)
            if found is None or (inner[-2] != rows and (found.masks or found.biases or found.limits)):
                return None
            return found.past(node)
        case "mul" | "div":
            return _rescaled(node, shape, steps)
        case "where":
            return _chosen(node, (rows, columns), steps)
        case "add" | "sub":
            return _added(node, (rows, columns), steps)
    return None


def _rescaled(node: Node, shape: tuple[int, ...], steps: int) -> _Scores | None:
    pairs = operands_of(node, "mul") if node.name == "mul" else ((node.ins[0], node.ins[1]),)
    for one, other in pairs:
        by = number(other)
        if by and (found := _scores(one, shape, steps - 1)) is not None:
            factor = by if node.name == "mul" else 1 / by
            if factor < 0 and (found.masks or found.limits):
                return None
            text = "scale on the scores" if node.name == "mul" else "scores divided"
            return found.scaled(factor).past(node).noted(text)
    return None


def _chosen(node: Node, shape: tuple[int, int], steps: int) -> _Scores | None:
    """where(mask, scores, lowest), or where(mask, lowest, scores)."""
    mask, yes, no = node.ins
    for scores, fill, limit_of, straight in ((yes, number(no), band, True), (no, number(yes), inverse, False)):
        if fill is None or fill > LOWEST:
            continue
        found = _scores(scores, shape, steps - 1)
        if found is None:
            continue
        found = found.past(node)
        limits = limit_of(mask, shape)
        if limits is not None and _sees_all_rows(limits, shape):
            return evolve(found, limits=(*found.limits, limits)).noted("mask by where")
        if fill != -math.inf:
            return evolve(found, trouble="a mask that is not made of positions, with a finite number for what it hides")
        if not straight:
            return evolve(found, trouble="a mask that is not made of positions and says what is hidden")
        return evolve(found, masks=(*found.masks, mask)).noted("mask by where")
    return None


def _added(node: Node, shape: tuple[int, int], steps: int) -> _Scores | None:
    sign = 1.0 if node.name == "add" else -1.0
    pairs = operands_of(node, "add") if node.name == "add" else ((node.ins[0], node.ins[1]),)
    for scores, other in pairs:
        found = _scores(scores, shape, steps - 1)
        if found is None:
            continue
        found = found.past(node)
        limits = hidden(other, shape) if sign > 0 else None
        if limits is not None and _sees_all_rows(limits, shape):
            return evolve(found, limits=(*found.limits, limits)).noted("mask added")
        return evolve(found, biases=(*found.biases, (other, sign))).noted("bias added")
    return None


def _sees_all_rows(limits: Band, shape: tuple[int, int]) -> bool:
    """Whether every row sees a column; one that sees none has weights that depend on how it was hidden."""
    rows, columns = shape
    return limits.high >= max(limits.low, 0) and rows - 1 + limits.low <= columns - 1


@frozen
class _Seen:
    """The band as the composite says it; `exact` where it can."""

    causal: bool
    window: int
    exact: bool


def _positions(whole: Band, shape: tuple[int, ...]) -> _Seen:
    """A band of column - row as `causal` and `window`, with the last row at the last column."""
    rows, columns = shape[-2:]
    offset = columns - rows
    low = -math.inf if whole.low <= 1 - rows else whole.low - offset
    high = math.inf if whole.high >= columns - 1 else whole.high - offset
    if math.isinf(low) and math.isinf(high):
        return _Seen(False, 0, True)
    if high == 0:
        return _Seen(True, 0 if math.isinf(low) else int(1 - low), True)
    if low == -high:
        return _Seen(False, int(high) + 1, True)
    return _Seen(False, 0, False)


def _match(softmax: Node, scores: _Scores, mixed: Node, between: set[Node]) -> Match:
    product, shape = scores.product, softmax.shape
    dtypes = {v.type.dtype for v in (*product.ins, *mixed.ins)}
    soft = softmax.type.dtype
    if len(dtypes) != 1 or soft == "bf16" or dtypes not in ({"bf16"}, {soft}):
        return fell_back("attention", mixed, "the softmax is not computed in f32")
    if scores.trouble:
        return fell_back("attention", mixed, scores.trouble)
    together = Band()
    for each in scores.limits:
        together = together.meet(each)
    if not _sees_all_rows(together, (shape[-2], shape[-1])):
        return fell_back("attention", mixed, "masks that hide every key from a row")
    positions = _positions(together, shape)
    if not positions.exact:
        return fell_back("attention", mixed, "a mask whose diagonal is neither causal nor a window")
    layout = _layout(shape, product)
    if layout is None or mixed.ins[0].type.size != softmax.type.size:
        return fell_back("attention", mixed, "the axes of the heads are mixed with others")
    batch, heads = layout
    rows, keys = shape[-2:]
    kv = heads if product.ins[0].shape[-2] == rows else 1
    rounds = dtypes == {"bf16"}
    q = side(product.ins[0], (batch, heads, rows), swapped=False, exact=rounds, repeated=False)
    k = side(product.ins[1], (batch, kv, keys), swapped=True, exact=rounds, repeated=True)
    v = side(mixed.ins[1], (batch, kv, keys), swapped=False, exact=True, repeated=True)
    inside = {softmax, product, *scores.seen, *between}
    written = [*(["scale on q"] if q.scale != 1 else []), *(["scale on k"] if k.scale != 1 else []), *scores.written]
    if k.heads != heads:
        written.append(f"{k.heads} heads for {heads}")
    if positions.causal:
        written.append("causal")
    if positions.window:
        written.append(f"window {positions.window}")
    biased = bool(scores.biases or scores.masks)
    attrs = {
        "scale": scores.scale * q.scale * k.scale,
        "causal": positions.causal,
        "window": positions.window,
        "rounded": rounds,
    }
    op = "attention_biased" if biased else "attention"
    if k.heads != v.heads:
        return fell_back("attention", mixed, "k and v are shared by different groups")

    def build(b: Builder, val: Callable[[Node], Val]) -> Val:
        operands = [part.build(b, val) for part in (q, k, v)]
        if biased:
            operands.append(_bias(b, val, scores, shape, (batch, heads)))
        y = b.several(op, *operands, **attrs)[0]
        return y if y.type.shape == mixed.shape else b("reshape", y, shape=mixed.shape)

    return Match(op, mixed, frozenset(inside - {mixed}), build, ", ".join(written) or "plain")


def _layout(shape: tuple[int, ...], product: Node) -> tuple[int, int] | None:
    """(batch, heads) such that scores [..., rows, keys] are [batch, heads, rows, keys]; None where they are not that.

    A product whose rows are several heads' gives those as heads that share one of the keys.
    """
    front, rows = shape[:-2], shape[-2]
    group, rest = divmod(product.shape[-2], rows)
    if rest or product.shape[-1] != shape[-1]:
        return None
    if group == 1:
        return (math.prod(front[:-1]), front[-1]) if front else (1, 1)
    count = math.prod(product.shape[:-2])
    axes = len(front)
    inner = 1
    while axes and inner < group:
        axes -= 1
        inner *= front[axes]
    return (count, group) if inner == group and math.prod(front[:axes]) == count else None


def _bias(
    b: Builder, val: Callable[[Node], Val], scores: _Scores, shape: tuple[int, ...], layout: tuple[int, int]
) -> Val:
    """What is added to the scaled scores, -inf where a mask hides them, with axes of size 1 where it repeats."""
    total: Val | None = None
    for node, factor in scores.biases:
        part = _small(b, val, node, shape, layout)
        part = part if factor == 1 else part * factor
        total = part if total is None else _joined(b, "add", total, part)
    for mask in scores.masks:
        seen = _small(b, val, mask, shape, layout)
        dtype = scores.product.type.dtype
        wide = evolve(seen.type, dtype="f32" if dtype == "bf16" else dtype)
        if total is None:
            total = b("where", seen, b.constant(0, wide), b.constant(-math.inf, wide))
        else:
            seen, total = _stretched(b, seen, total)
            total = b("where", seen, total, b.constant(-math.inf, total.type))
    assert total is not None
    return total


def _joined(b: Builder, op: str, x: Val, y: Val) -> Val:
    return b(op, *_stretched(b, x, y))


def _stretched(b: Builder, x: Val, y: Val) -> tuple[Val, Val]:
    """Both of the shape that they broadcast to."""
    shape = tuple(max(n, m) for n, m in zip(x.type.shape, y.type.shape, strict=True))
    first, second = (v if v.type.shape == shape else b("broadcast", v, shape=shape) for v in (x, y))
    return first, second


def _small(b: Builder, val: Callable[[Node], Val], node: Node, shape: tuple[int, ...], layout: tuple[int, int]) -> Val:
    """A tensor that is added to scores, [batch, heads, rows, keys] with ones where it repeats."""
    inner = node
    while inner.name == "broadcast" and inner.shape == shape:
        inner = inner.ins[0]
    padded = (*(1,) * (len(shape) - inner.type.rank), *inner.shape)
    front, behind = padded[:-2], padded[-2:]
    if math.prod(front) == 1:
        wanted = (1, 1, *behind)
    elif len(front) == 2 and shape[:-2] == layout:
        wanted = padded
    else:
        inner, wanted = node, (*layout, *shape[-2:])
    given = val(inner)
    return given if given.type.shape == wanted else b("reshape", given, shape=wanted)
