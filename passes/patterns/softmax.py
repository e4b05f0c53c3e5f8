"""softmax, log-softmax, logsumexp: e^z over lines, with or without the shift by each line's maximum.

e = exp(x - max x)    e / sum e, e * (1 / sum e)                                   softmax
                      log(sum e) + max x                                           logsumexp
                      x - max x - log(sum e), x - logsumexp x, log(softmax x)      log_softmax
exp(log_softmax x)                                                                 softmax
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from sexpgpu.passes.patterns.matching import (
    Match,
    Node,
    View,
    composite,
    difference,
    fell_back,
    is_number,
    number,
    one_axis,
    operands_of,
    readers,
    reduced,
    spread,
    through,
)

_SPREADS = ("broadcast", "reshape")
_SHIFTED, _PLAIN = "shifted by the maximum", "not shifted"


def matches(view: View) -> Iterator[Match]:
    for exp in view.each("exp"):
        for total in exp.users:
            if total.name == "sum" and (axis := one_axis(total)) is not None:
                yield from _of_powers(exp, total, axis)
    for lines in view.each("logsumexp"):
        yield from _less_logsumexp(lines)
    for log in view.each("log"):
        softmax = log.ins[0]
        if softmax.name == "softmax":
            yield composite("log_softmax", log, {softmax}, softmax.ins[0], form="log of softmax", **softmax.attrs)
    for exp in view.each("exp"):
        inner = exp.ins[0]
        if inner.name == "log_softmax" and inner.users == [exp]:
            yield composite("softmax", exp, {inner}, inner.ins[0], form="exp of log-softmax", **inner.attrs)


@frozen
class _Powers:
    """exp(z), where z is x less `peak`, or x itself when there is no peak, and its sum along the axis."""

    exp: Node
    total: Node
    axis: int
    x: Node
    peak: Node | None
    seen: frozenset[Node]

    @property
    def form(self) -> str:
        return _PLAIN if self.peak is None else _SHIFTED


def _of_powers(exp: Node, total: Node, axis: int) -> Iterator[Match]:
    x, peak, seen = shift(exp.ins[0], axis)
    powers = _Powers(exp, total, axis, x, peak, frozenset({exp, total, *seen}))
    for user in readers(total, _SPREADS):
        if user.op is None:
            continue
        if user.name == "div" and user.ins[0] is exp:
            yield from _quotient(powers, user, user.ins[1], None)
        elif user.name == "reciprocal" or (user.name == "div" and is_number(user.ins[0], 1.0)):
            for product in readers(user, _SPREADS):
                for one, other in operands_of(product, "mul"):
                    if one is exp:
                        yield from _quotient(powers, product, other, user)
        elif user.name == "log":
            yield from _logarithm(powers, user)


def _quotient(powers: _Powers, root: Node, divisor: Node, inverse: Node | None) -> Iterator[Match]:
    """e / sum e, where `divisor` repeats the sum, or its `inverse`, along the axis."""
    axis, seen = powers.axis, set(powers.seen)
    behind = spread(divisor, axis, seen)
    if inverse is not None:
        if behind is not inverse:
            return
        seen.add(inverse)
        behind = through(spread(inverse.ins[-1], axis, seen), ("reshape",), seen)
    if behind is not powers.total:
        return
    if powers.peak is None and _other_shift(powers.exp.ins[0], axis):
        yield fell_back("softmax", root, "the shift is not the maximum of the line")
    else:
        yield composite("softmax", root, seen, powers.x, form=powers.form, axis=axis)


def _logarithm(powers: _Powers, log: Node) -> Iterator[Match]:
    """What the logarithm of the sum ends up in: a log-softmax, a logsumexp with the shift put back, or one without."""
    axis, x, peak = powers.axis, powers.x, powers.peak
    z = powers.exp.ins[0]
    base = set(powers.seen) | {log}
    raised = False
    for user in readers(log, _SPREADS):
        seen = set(base)
        pair = difference(user, seen)
        if pair is not None and pair[0] is z and spread(pair[1], axis, seen) is log:
            raised = True
            yield composite("log_softmax", user, seen, x, form=powers.form, axis=axis)
        elif peak is not None:
            for one, other in operands_of(user, "add"):
                if _stat(one, base) is log and _stat(other, base) is peak:
                    raised = True
                    keeps = user.shape == _kept(x, axis)
                    if keeps or user.shape == _dropped(x, axis):
                        form = powers.form
                        yield composite("logsumexp", user, base, x, form=form, axis=axis, keepdims=keeps)
    if not raised and log.op is not None and log.users:
        if peak is None and _other_shift(z, axis):
            yield fell_back("logsumexp", log, "the shift is not the maximum of the line")
            return
        seen = {powers.exp, powers.total}
        keeps = powers.total.attrs["keepdims"]
        if log.shape == powers.total.shape:
            yield composite("logsumexp", log, seen, z, form=_PLAIN, axis=axis, keepdims=keeps)


def _kept(x: Node, axis: int) -> tuple[int, ...]:
    return (*x.shape[:axis], 1, *x.shape[axis + 1 :])


def _dropped(x: Node, axis: int) -> tuple[int, ...]:
    return x.shape[:axis] + x.shape[axis + 1 :]


def _stat(node: Node, seen: set[Node]) -> Node:
    """One number a line, whatever its shape, behind what guards it: no gradient, infinities as zeros."""
    while True:
        node = through(node, ("reshape", "stop_gradient"), seen)
        guard = node.ins[0] if node.name == "where" else None
        if guard is None or guard.name != "isfinite" or number(node.ins[2]) != 0:
            return node
        if through(guard.ins[0], ("reshape", "stop_gradient"), set()) is not through(
            node.ins[1], ("reshape", "stop_gradient"), set()
        ):
            return node
        seen.update((node, guard))
        node = node.ins[1]


def shift(z: Node, axis: int) -> tuple[Node, Node | None, set[Node]]:
    """(x, its maximum along the axis, what lies between) of z = x - max x; (z, None, nothing) of any other z."""
    seen: set[Node] = set()
    pair = difference(z, seen)
    if pair is not None:
        peak = _stat(spread(pair[1], axis, seen), seen)
        source = reduced(peak, "amax", axis, seen)
        if source is not None and through(source, ("stop_gradient",), seen) is pair[0]:
            return pair[0], peak, seen
    return z, None, set()


def _other_shift(z: Node, axis: int) -> bool:
    """Whether z is x less something constant along the axis that is not x's maximum."""
    pair = difference(z, set())
    return pair is not None and number(pair[1]) is None and spread(pair[1], axis, set()) is not pair[1]


def _less_logsumexp(lines: Node) -> Iterator[Match]:
    x, axis = lines.ins[0], lines.attrs["axis"]
    for user in readers(lines, _SPREADS):
        seen = {lines}
        pair = difference(user, seen)
        if pair is not None and pair[0] is x and spread(pair[1], axis, seen) is lines:
            yield composite("log_softmax", user, seen, x, form="less logsumexp", axis=axis)
