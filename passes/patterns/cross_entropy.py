"""The tail of a cross-entropy: the log-probability of each line's label, however it is picked.

    take_along_axis(log_softmax x, label)                     gather of log-probabilities
    log(take_along_axis(softmax x, label))                    log of gathered probabilities
    take_along_axis(x, label) - logsumexp x, or its opposite  gather of shifted logits
    sum(one_hot * log_softmax x)                              one-hot sum of log-probabilities
    sum(one_hot * x) - logsumexp x, or its opposite           one-hot sum of shifted logits

The composite gives minus that for each line; what follows (a mask, a weight, the mean or the sum) stays as it is. A
negation of the lines is taken in, one behind the reduction cancels against the composite's sign later. A shift of the
logits by their maximum, which changes nothing, and the cast of bf16 logits go in too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from attrs import evolve, frozen

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.passes.patterns.matching import (
    Build,
    Match,
    Node,
    View,
    counts,
    is_number,
    number,
    operands_of,
    readers,
    through,
)
from sexpgpu.passes.patterns.softmax import shift

_LINEAR = ("reshape", "sum", "mul", "div", "where", "broadcast", "add", "cast")
_STEPS = 8


@frozen
class _Picked:
    """`sign` times the log-probability of the label, or the label's logit, on each line, as `root` holds it.

    `folded` are axes that the root sums over beside the classes.
    """

    root: Node
    source: Node
    labels: Node
    outside: str
    how: str
    sign: int = 1
    folded: tuple[int, ...] = ()
    seen: frozenset[Node] = frozenset()

    def at(self, root: Node, *seen: Node, sign: int = 1) -> _Picked:
        return evolve(self, root=root, seen=self.seen | {self.root, *seen}, sign=self.sign * sign)


def matches(view: View) -> Iterator[Match]:
    for take in view.each("take_along_axis"):
        source, indices = take.ins
        last = source.type.rank - 1
        if take.attrs["axis"] == last and indices.shape[-1] == 1:
            yield from _of(_Picked(take, source, indices, "error", "gather"), last)
    for total in view.each("sum"):
        picked = _one_hot_sum(total)
        if picked is not None:
            yield from _of(picked, picked.source.type.rank - 1)
    for tail in view.each("cross_entropy"):
        yield from _saved(view, tail)


def _saved(view: View, tail: Node) -> Iterator[Match]:
    """A logsumexp of the same logits further on, as a z-loss takes it, is what the composite has saved."""
    logits = tail.ins[0]
    lse = view.node(tail.op.results[1])
    for lines in list(logits.users):
        last = lines.name == "logsumexp" and lines.attrs["axis"] == logits.type.rank - 1
        if last and lse.type.dtype == logits.type.dtype and tail.op.is_before_in_block(lines.op):
            yield Match("logsumexp", lines, build=_reads(lse, lines.shape))


def _reads(node: Node, shape: tuple[int, ...]) -> Build:
    return lambda b, val: _shaped(b, val(node), shape)


def _of(picked: _Picked, last: int) -> Iterator[Match]:
    source = picked.source
    if source.name == "log_softmax" and source.attrs["axis"] == last:
        form = f"{_way(picked)} of log-probabilities"
        yield _match(picked, source.ins[0], {source}, form, "zero")
    elif source.name == "softmax" and source.attrs["axis"] == last and picked.how == "gather":
        for user in readers(picked.root, ("reshape",)):
            if user.name == "log":
                between = _between(picked.root, user)
                yield _match(picked.at(user, *between), source.ins[0], {source}, "log of gathered probabilities", "")
    elif not picked.folded and picked.sign > 0:
        for user in readers(picked.root, ("reshape",)):
            if user.name == "sub":
                yield from _less_logsumexp(picked, user, last)


def _way(picked: _Picked) -> str:
    return "gather" if picked.how == "gather" else "one-hot sum"


def _between(low: Node, high: Node) -> list[Node]:
    """The reshapes from `high` down to `low`."""
    found = []
    node = high.ins[0]
    while node is not low:
        found.append(node)
        node = node.ins[0]
    return found


def _less_logsumexp(picked: _Picked, difference: Node, last: int) -> Iterator[Match]:
    for place, sign in ((0, 1), (1, -1)):
        seen: set[Node] = set()
        one = through(difference.ins[place], ("reshape",), seen)
        lines = through(difference.ins[1 - place], ("reshape",), seen)
        source = picked.source
        if one is picked.root and lines.name == "logsumexp" and lines.attrs["axis"] == last and lines.ins[0] is source:
            form = f"{_way(picked)} of shifted logits"
            yield _match(picked.at(difference, *seen, sign=sign), source, {lines}, form, "logsumexp")
            return


def _one_hot_sum(total: Node) -> _Picked | None:
    """The sum of a product with a one-hot tensor, or of a choice by what would be one."""
    x = total.ins[0]
    last = x.type.rank - 1
    axes = total.attrs["axes"]
    if last not in axes:
        return None
    seen: set[Node] = set()
    sign = 1
    while x.name == "neg":
        seen.add(x)
        sign, x = -sign, x.ins[0]
    folded = tuple(axis for axis in axes if axis != last)
    if x.name == "where" and number(x.ins[2]) == 0:
        pairs: list[tuple[Node | None, Node]] = [(x.ins[0], x.ins[1])]
    else:
        pairs = [(_hot(one, seen), other) for one, other in operands_of(x, "mul")]
    for hit, source in pairs:
        labels = None if hit is None else _labels(hit, last, seen)
        if labels is None:
            continue
        seen.add(x)
        while source.name == "neg":
            seen.add(source)
            sign, source = -sign, source.ins[0]
        return _Picked(total, source, labels, "", "one-hot", sign, folded, frozenset(seen))
    return None


def _hot(node: Node, seen: set[Node]) -> Node | None:
    """The test behind a cast of it to numbers."""
    if node.name != "cast" or node.ins[0].name != "eq":
        return None
    seen.add(node)
    return node.ins[0]


def _labels(hit: Node, last: int, seen: set[Node]) -> Node | None:
    """The labels that a place along the last axis is compared with."""
    for one, other in operands_of(hit, "eq"):
        if not _counts_along_last(one) or other.name != "broadcast":
            continue
        column = other.ins[0]
        if column.shape == (*hit.shape[:-1], 1) and not column.type.is_float and column.type.dtype != "bool":
            seen.update((hit, other))
            return column
    return None


def _counts_along_last(node: Node) -> bool:
    """Whether it is an iota along its last axis, through movements that keep the axis and casts that keep numbers."""
    axis, length = node.type.rank - 1, node.shape[-1]
    while node.name in ("broadcast", "reshape", "cast"):
        inner = node.ins[0]
        if node.name == "cast":
            if not counts(node.type.dtype, 0, length - 1):
                return False
        elif node.name == "broadcast":
            axis -= node.type.rank - inner.type.rank
            if axis < 0 or inner.shape[axis] != length:
                return False
        else:
            kept = _kept_axis(node.shape, axis, inner.shape)
            if kept is None:
                return False
            axis = kept
        node = inner
    return node.name == "iota" and node.attrs["axis"] == axis and counts(node.type.dtype, 0, length - 1)


def _kept_axis(shape: tuple[int, ...], axis: int, before: tuple[int, ...]) -> int | None:
    """Which axis of the shape `before` a reshape to `shape` is `axis`; None where it is split or joined with others."""
    behind = math.prod(shape[axis + 1 :])
    for place, length in enumerate(before):
        if length == shape[axis] and math.prod(before[place + 1 :]) == behind:
            return place
    return None


def _match(picked: _Picked, logits: Node, seen: set[Node], form: str, outside: str) -> Match:
    last = logits.type.rank - 1
    inside = set(picked.seen) | seen
    root, sign, inside = _negated(picked, inside)
    labels = through(picked.labels, ("reshape",), inside)
    x = _unshifted(logits, last, inside)
    x, cast = _narrow(x, inside)
    how = picked.outside or outside
    negation = _negation(root, sign, picked)
    folded = picked.folded
    keeps = bool(folded) and picked.root.attrs["keepdims"]

    def build(b: Builder, val: Callable[[Node], Val]) -> Val:
        given = _shaped(b, val(x), logits.shape) if cast else val(x)
        wanted = _shaped(b, val(labels), logits.shape[:-1])
        if wanted.type.dtype not in ("i32", "i64"):
            wanted = b("cast", wanted, dtype="i32")
        value = b.several("cross_entropy", given, wanted, outside=how)[0]
        if folded:
            value = b("sum", value, axes=folded, keepdims=keeps)
        return _shaped(b, value if sign < 0 else -value, root.shape)

    return Match("cross_entropy", root, frozenset(inside - {root}), build, f"{form}, {negation}")


def _shaped(b: Builder, value: Val, shape: tuple[int, ...]) -> Val:
    return value if value.type.shape == shape else b("reshape", value, shape=shape)


def _negated(picked: _Picked, inside: set[Node]) -> tuple[Node, int, set[Node]]:
    """The picked log-probabilities with a reshape and a negation that follow at once taken in."""
    node, sign = picked.root, picked.sign
    passed: list[Node] = []
    root = node
    while len(node.users) == 1 and node.users[0].name in ("reshape", "neg", "mul"):
        user = node.users[0]
        if user.name == "mul" and not any(
            one is node and is_number(other, -1.0) for one, other in operands_of(user, "mul")
        ):
            break
        passed.append(node)
        node = user
        if node.name != "reshape":
            sign = -sign
            root = node
            inside = inside | set(passed)
    return root, sign, inside


def _negation(root: Node, sign: int, picked: _Picked) -> str:
    """Where the sign of the loss comes from, for the report."""
    if sign < 0:
        return "negated after the reduction" if picked.folded else "negated per row"
    node = root
    for _ in range(_STEPS):
        if len(node.users) != 1:
            break
        node = node.users[0]
        if node.name == "neg" or any(is_number(other, -1.0) for _, other in operands_of(node, "mul")):
            return "negated after the reduction"
        if node.name not in _LINEAR:
            break
    return "not negated"


def _unshifted(x: Node, last: int, inside: set[Node]) -> Node:
    """The logits before a shift by their maximum, which cancels."""
    source, _, seen = shift(x, last)
    if source is not x:
        inside |= {x, *seen}
    return source


def _narrow(x: Node, inside: set[Node]) -> tuple[Node, bool]:
    """bf16 logits behind a cast that nobody else reads, as the composite takes them itself."""
    seen: set[Node] = set()
    node = through(x, ("reshape",), seen)
    if node.name != "cast" or node.ins[0].type.dtype != "bf16":
        return x, False
    seen.add(node)
    if any(user not in seen and user not in inside for passed in seen for user in passed.users):
        return x, False
    inside |= seen
    return node.ins[0], True
