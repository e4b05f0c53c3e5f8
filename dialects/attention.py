"""Attention: softmax(scale q k^T + bias) v over heads, with the logarithm of each line's sum beside the result.

    q [batch, heads, time, dim], k [batch, kv, keys, dim], v [batch, kv, keys, width] -> y [batch, heads, time, width]

Each head of k and v serves heads / kv heads of q, neighbours. The last query stands at the last key: with `causal` a
row sees no key behind its own place, with a `window` none that is `window` or more away (0: no limit). The bias,
[batch or 1, heads or 1, time or 1, keys or 1], is added to the scaled scores; a mask is a bias of 0 and -inf.

With P the weights, D = sum(g y) along the width less the cotangent h of the logarithm (for bf16, whose y is rounded,
the same as sum(P (g v^T)) along the keys):
    dv = P^T g,  S = P (g v^T - D),  dq = scale S k,  dk = scale S^T q,  dbias = S summed where the bias repeats.

`rounded` says that the operands are bf16: their products and the weights are too; scores, bias and softmax are f32.
Vaswani et al., "Attention is all you need" (2017); Ainslie et al. (2023) for shared heads; Dao et al. (2022) for what
is saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sexpgpu.diag import error
from sexpgpu.dialects.arrays import deliver
from sexpgpu.dialects.attention_blocks import Form, attend, attend_back, bias_back
from sexpgpu.dialects.movement import reshaped
from sexpgpu.dialects.opdef import Array, Attr, Composite, OpDef, Sample, parse_type, sample
from sexpgpu.dialects.rules import require_dtype, require_same, require_same_dtype
from sexpgpu.tensortype import FLOATS, TensorType

_ATTRS = (Attr("scale", "float"), Attr("causal", "bool"), Attr("window", "int"), Attr("rounded", "bool"))


def _check(op: str, form: Form, q: TensorType, k: TensorType, v: TensorType, bias: TensorType | None) -> TensorType:
    """The type of the result after checking the operands."""
    require_dtype(op, "q", q, FLOATS)
    require_same_dtype(op, "q", q, "k", k)
    require_same_dtype(op, "q", q, "v", v)
    fits = (
        q.rank == k.rank == v.rank == 4
        and q.shape[0] == k.shape[0] == v.shape[0]
        and k.shape[1:3] == v.shape[1:3]
        and q.shape[3] == k.shape[3]
        and k.shape[1] > 0
        and q.shape[1] % k.shape[1] == 0
    )
    if not fits or form.window < 0 or form.rounded != (q.dtype == "bf16"):
        raise error("E-SHAPE-046", f"{op}: q, k and v do not fit together",
                    expected="[batch, heads, time, dim], [batch, kv, keys, dim], [batch, kv, keys, width]",
                    actual=f"q: {q}, k: {k}, v: {v}, {form}")  # fmt: skip
    line = _line(q)
    if bias is not None:
        require_same_dtype(op, "the scores", line, "bias", bias)
        full = (*q.shape[:3], k.shape[2])
        if bias.rank != 4 or any(n not in (1, m) for n, m in zip(bias.shape, full, strict=True)):
            raise error("E-SHAPE-001", f"{op}: the bias does not stretch to the scores",
                        expected=f"axes of size 1 or those of {list(full)}", actual=f"bias: {bias}")  # fmt: skip
    return TensorType((*q.shape[:3], v.shape[3]), q.dtype)


def _line(q: TensorType) -> TensorType:
    """The type of one number a line of scores."""
    return TensorType(q.shape[:3], "f32" if q.dtype == "bf16" else q.dtype)


def _infer(op: str) -> Callable[..., tuple[TensorType, TensorType]]:
    def infer(q: TensorType, k: TensorType, v: TensorType, *bias: TensorType, **attrs: Any) -> Any:
        return _check(op, Form(**attrs), q, k, v, *(bias or (None,))), _line(q)

    return infer


def _back_infer(op: str, gives: Callable[..., Any]) -> Callable[..., Any]:
    def infer(g: TensorType, h: TensorType, q: TensorType, k: TensorType, v: TensorType, y: TensorType,
              lse: TensorType, *bias: TensorType, **attrs: Any) -> Any:  # fmt: skip
        require_same(op, ("the result", "g", "y"), (_check(op, Form(**attrs), q, k, v, *(bias or (None,))), g, y))
        require_same(op, ("a number a line", "h", "lse"), (_line(q), h, lse))
        return gives(q, k, v, *bias)

    return infer


def _attend(
    q: Array, k: Array, v: Array, bias: Array | None = None, out: tuple[Array, ...] | None = None, **attrs: Any
) -> tuple[Array, ...]:
    return attend(q, k, v, bias, Form(**attrs), out)


def _back(
    g: Array, h: Array, q: Array, k: Array, v: Array, y: Array, lse: Array, bias: Array | None = None,
    out: tuple[Array, ...] | None = None, **attrs: Any,
) -> tuple[Array, ...]:  # fmt: skip
    return attend_back(q, k, v, bias, Form(**attrs), (g, h, y, lse), out)


def _bias_back(
    g: Array, h: Array, q: Array, k: Array, v: Array, y: Array, lse: Array, bias: Array, out: Array | None = None,
    **attrs: Any,
) -> Array:  # fmt: skip
    return deliver(bias_back(q, k, v, bias, Form(**attrs), (g, h, y, lse)), out)


class _Parts:
    """The operations of attention, with the heads that share keys stacked: [batch, kv, group time, ...]."""

    def __init__(self, b: Any, q: Any, k: Any, v: Any, bias: Any | None, form: Form) -> None:
        self.b, self.k, self.v, self.form, self.bias = b, k, v, form, bias
        self.heads = q.type.shape[:3]
        self.q = self.stacked(q)

    def stacked(self, x: Any) -> Any:
        batch, kv = self.k.type.shape[:2]
        _, heads, time, last = x.type.shape
        return reshaped(self.b, x, (batch, kv, heads // kv * time, last))

    def apart(self, x: Any) -> Any:
        return reshaped(self.b, x, (*self.heads, x.type.shape[-1]))

    def swapped(self, x: Any) -> Any:
        return self.b("transpose", x, perm=(0, 1, 3, 2))

    def wide(self, x: Any) -> Any:
        return self.b("cast", x, dtype="f32") if self.form.rounded else x

    def narrow(self, x: Any) -> Any:
        return self.b("cast", x, dtype="bf16") if self.form.rounded else x

    def across(self, lines: Any) -> Any:
        """A number a line, for each of its scores."""
        kept = self.b("reshape", lines, shape=(*lines.type.shape, 1))
        return self.b("broadcast", kept, shape=(*self.heads, self.k.type.shape[2]))

    def scores(self) -> Any:
        b, form = self.b, self.form
        scores = self.wide(self.apart(b("matmul", self.q, self.swapped(self.k))))
        if form.scale != 1:
            scores = scores * form.scale
        shape = scores.type.shape
        if self.bias is not None:
            scores = scores + b("broadcast", self.bias, shape=shape)
        if form.causal or form.window:
            lowest = b.constant(-math.inf, scores.type)
            scores = b("where", b("broadcast", self.seen(shape[2:]), shape=shape), scores, lowest)
        return scores

    def seen(self, shape: tuple[int, ...]) -> Any:
        """Which keys a row sees."""
        b, form = self.b, self.form
        here = b("iota", shape=shape, axis=0, dtype="i32") + (shape[1] - shape[0])
        there = b("iota", shape=shape, axis=1, dtype="i32")
        tests = [b("ge", here, there)] if form.causal else []
        if form.window:
            tests.append(b("gt", there, here - form.window))
            if not form.causal:
                tests.append(b("lt", there, here + form.window))
        seen = tests[0]
        for test in tests[1:]:
            seen = b("logical_and", seen, test)
        return seen

    def slopes(self, g: Any, h: Any, y: Any, lse: Any) -> tuple[Any, Any]:
        """(weights, the derivative to the scores before they are scaled)."""
        b = self.b
        weights = b("exp", self.scores() - self.across(lse))
        reached = self.wide(self.apart(b("matmul", self.stacked(g), self.swapped(self.v))))
        terms = weights * reached if self.form.rounded else g * y
        share = b("sum", terms, axes=(3,), keepdims=False) - h
        return weights, weights * (reached - self.across(share))


def _parts(b: Any, q: Any, k: Any, v: Any, bias: Any | None = None, **attrs: Any) -> tuple[Any, Any]:
    parts = _Parts(b, q, k, v, bias, Form(**attrs))
    scores = parts.scores()
    weights = parts.narrow(b("softmax", scores, axis=3))
    y = parts.apart(b("matmul", parts.stacked(weights), v))
    return y, b("logsumexp", scores, axis=3, keepdims=False)


def _back_parts(
    b: Any, g: Any, h: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, bias: Any | None = None, **attrs: Any
) -> tuple[Any, Any, Any]:
    parts = _Parts(b, q, k, v, bias, Form(**attrs))
    weights, slopes = parts.slopes(g, h, y, lse)
    if parts.form.scale != 1:
        slopes = slopes * parts.form.scale
    weights, slopes = parts.stacked(parts.narrow(weights)), parts.stacked(parts.narrow(slopes))
    dq = parts.apart(b("matmul", slopes, k))
    dk = b("matmul", parts.swapped(slopes), parts.q)
    return dq, dk, b("matmul", parts.swapped(weights), parts.stacked(g))


def _bias_back_parts(b: Any, g: Any, h: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, bias: Any, **attrs: Any) -> Any:
    parts = _Parts(b, q, k, v, bias, Form(**attrs))
    _, slopes = parts.slopes(g, h, y, lse)
    repeats = tuple(axis for axis, (n, m) in enumerate(zip(bias.type.shape, slopes.type.shape, strict=True)) if n != m)
    return b("sum", slopes, axes=repeats, keepdims=True) if repeats else slopes


def _vjp(b: Any, g: tuple[Any, Any], out: tuple[Any, Any], q: Any, k: Any, v: Any, **attrs: Any) -> tuple[Any, ...]:
    given: tuple[Any, ...] = b.several("attention_grad", *g, q, k, v, *out, **attrs)
    return given


def _biased_vjp(
    b: Any, g: tuple[Any, Any], out: tuple[Any, Any], q: Any, k: Any, v: Any, bias: Any, **attrs: Any
) -> tuple[Any, ...]:
    given = (*g, q, k, v, *out, bias)
    return (*b.several("attention_biased_grad", *given, **attrs), b("attention_bias_grad", *given, **attrs))


def _sample(dtype: str, q: str, k: str, v: str, bias: str = "", *, scale: float = 0.5, causal: bool = False,
            window: int = 0) -> tuple[tuple[str, ...], dict[str, Any]]:  # fmt: skip
    operands = (q, k, v, bias) if bias else (q, k, v)
    types = tuple(f"{dtype}[{sizes}]" for sizes in operands)
    return types, {"scale": scale, "causal": causal, "window": window, "rounded": False}


_PLAIN = (
    _sample("f64", "1, 2, 3, 2", "1, 2, 3, 2", "1, 2, 3, 4"),
    _sample("f64", "2, 4, 3, 2", "2, 2, 3, 2", "2, 2, 3, 1", causal=True),
    _sample("f64", "1, 2, 2, 2", "1, 1, 4, 2", "1, 1, 4, 2", scale=1.0, causal=True),
    _sample("f64", "1, 1, 5, 1", "1, 1, 5, 1", "1, 1, 5, 2", causal=True, window=2),
    _sample("f64", "1, 1, 4, 2", "1, 1, 5, 2", "1, 1, 5, 1", window=2),
    _sample("f64", "1, 2, 150, 3", "1, 1, 150, 3", "1, 1, 150, 2", causal=True),
    _sample("f64", "1, 1, 300, 2", "1, 1, 300, 2", "1, 1, 300, 2", causal=True, window=40),
    _sample("f32", "0, 2, 3, 2", "0, 2, 3, 2", "0, 2, 3, 2"),
    _sample("f32", "1, 2, 4, 2", "1, 2, 4, 2", "1, 2, 4, 2", causal=True),
)
_BIASED = (
    _sample("f64", "1, 2, 3, 2", "1, 2, 3, 2", "1, 2, 3, 4", "1, 2, 3, 3"),
    _sample("f64", "2, 4, 3, 2", "2, 2, 3, 2", "2, 2, 3, 1", "2, 1, 1, 3", causal=True),
    _sample("f64", "1, 2, 2, 2", "1, 1, 4, 2", "1, 1, 4, 2", "1, 2, 1, 1", scale=1.0),
    _sample("f64", "1, 1, 5, 1", "1, 1, 5, 1", "1, 1, 5, 2", "1, 1, 5, 5", causal=True, window=2),
    _sample("f64", "1, 2, 150, 3", "1, 1, 150, 3", "1, 1, 150, 2", "1, 2, 150, 150", causal=True),
)


_MANY = 100  # above, a sample is for the blocks, and its differences would take long


def _samples(given: tuple[Any, ...], *, backward: bool) -> tuple[Sample, ...]:
    return tuple(
        sample(*(_backward_types(types) if backward else types), smooth=parse_type(types[0]).size < _MANY, **attrs)
        for types, attrs in given
    )


def _backward_types(types: tuple[str, ...]) -> tuple[str, ...]:
    q, k, v, *bias = types
    line = q.rpartition(",")[0] + "]"
    y = line[:-1] + "," + v.rpartition(",")[2]
    return (y, line, q, k, v, y, line, *bias)


_FORWARD = ("q", "k", "v")
_BACKWARD = ("g", "h", "q", "k", "v", "y", "lse")


def _operation(name: str, doc: str, *, biased: bool, backward: bool, results: int, **functions: Any) -> OpDef:
    return OpDef(
        name=name,
        kind=Composite("attention", backward),
        operands=(*(_BACKWARD if backward else _FORWARD), *(("bias",) if biased else ())),
        attrs=_ATTRS,
        results=results,
        samples=_samples(_BIASED if biased else _PLAIN, backward=backward),
        doc=doc,
        **functions,
    )


OPERATIONS = (
    _operation("attention", "softmax(scale q k^T) v, and the logarithm of each line's sum of exponentials",
               biased=False, backward=False, results=2,
               infer=_infer("attention"), numpy=_attend, vjp=_vjp, decompose=_parts),
    _operation("attention_biased", "attention with a bias added to the scaled scores",
               biased=True, backward=False, results=2,
               infer=_infer("attention_biased"), numpy=_attend, vjp=_biased_vjp, decompose=_parts),
    _operation("attention_grad", "the derivatives of attention to q, k and v, from what it saved",
               biased=False, backward=True, results=3,
               infer=_back_infer("attention_grad", lambda q, k, v: (q, k, v)),
               numpy=_back, vjp=None, decompose=_back_parts),
    _operation("attention_biased_grad", "the derivatives of attention_biased to q, k and v, from what it saved",
               biased=True, backward=True, results=3,
               infer=_back_infer("attention_biased_grad", lambda q, k, v, bias: (q, k, v)),
               numpy=_back, vjp=None, decompose=_back_parts),
    _operation("attention_bias_grad", "the derivative of attention_biased to the bias, from what it saved",
               biased=True, backward=True, results=1,
               infer=_back_infer("attention_bias_grad", lambda q, k, v, bias: bias),
               numpy=_bias_back, vjp=None, decompose=_bias_back_parts),
)  # fmt: skip
