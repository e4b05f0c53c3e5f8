"""Cases of the losses, the measures, and attention."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from tests.golden.references import case, exact, few, index, positive, real, truth, within

LABELS = [2, 0, -100, 1, 0]
labels, spare = exact([2, 0, 1, 1, 0], "int64"), exact(LABELS, "int64")

case("cross-entropy", "(cross-entropy x y)", lambda x, y: F.cross_entropy(x, y), x=real(5, 3, scale=3), y=labels)
case(
    "cross-entropy-more-axes",
    "(cross-entropy x y)",
    lambda x, y: F.cross_entropy(x.reshape(-1, 4), y.reshape(-1).long()),
    x=real(2, 3, 4),
    y=index(4, 2, 3, dtype="uint8"),
)
case(
    "cross-entropy-smooth",
    "(cross-entropy x y :label-smoothing 0.1)",
    lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
    x=real(5, 3),
    y=labels,
)
case(
    "cross-entropy-ignore",
    "(cross-entropy x y :ignore-index -100)",
    lambda x, y: F.cross_entropy(x, y),
    x=real(5, 3),
    y=spare,
)
case(
    "cross-entropy-ignore-class",
    "(cross-entropy x y :ignore-index 0 :label-smoothing 0.2)",
    lambda x, y: F.cross_entropy(x, y, ignore_index=0, label_smoothing=0.2),
    x=real(5, 3),
    y=labels,
)
# PyTorch gives no derivative to the weights.
case(
    "cross-entropy-weights",
    "(cross-entropy x y :weights w)",
    lambda x, y, w: (w[y] * F.cross_entropy(x, y, reduction="none")).sum() / w[y].sum(),
    x=real(5, 3),
    y=labels,
    w=exact([1.0, 0.5, 2.0]),
)
case(
    "cross-entropy-weights-list",
    "(cross-entropy x y :weights '(1 0.5 2))",
    lambda x, y: F.cross_entropy(x, y, weight=torch.tensor([1, 0.5, 2.0]).double()),
    x=real(5, 3),
    y=labels,
)
case(
    "cross-entropy-everything",
    "(cross-entropy x y :weights '(1 0.5 2) :ignore-index -100 :label-smoothing 0.1)",
    lambda x, y: F.cross_entropy(x, y, weight=torch.tensor([1, 0.5, 2.0]).double(), label_smoothing=0.1),
    x=real(5, 3),
    y=spare,
)
case(
    "cross-entropy-z",
    "(cross-entropy x y :z-loss 0.01)",
    lambda x, y: F.cross_entropy(x, y) + 0.01 * (x.logsumexp(-1) ** 2).mean(),
    x=real(5, 3, scale=4),
    y=labels,
)


def z_kept(x: Any, y: Any) -> Any:
    kept, w = y != -100, torch.tensor([1, 0.5, 2.0]).double()
    weight = w[y[kept]]
    z = (weight * x[kept].logsumexp(-1) ** 2).sum() / weight.sum()
    return F.cross_entropy(x, y, weight=w, label_smoothing=0.1) + 0.01 * z


case(
    "cross-entropy-z-everything",
    "(cross-entropy x y :weights '(1 0.5 2) :ignore-index -100 :label-smoothing 0.1 :z-loss 0.01)",
    z_kept,
    x=real(5, 3),
    y=spare,
)
case(
    "cross-entropy-masked-class",
    "(cross-entropy (where c x (- infinity)) y :ignore-index -100)",
    lambda x, c, y: F.cross_entropy(torch.where(c, x, -math.inf), y),
    x=real(3, 3),
    c=exact([[False, True, True]] * 3, bool),
    y=exact([1, -100, 2], "int64"),
)

case("mse", "(mse x y)", F.mse_loss, x=real(3, 2), y=real(3, 2))
for name, delta in (("", 1.0), ("-delta", 0.5)):
    case(
        f"huber{name}",
        f"(huber x y{f' :delta {delta}' if name else ''})",
        lambda x, y, d=delta: F.huber_loss(x, y, delta=d),
        x=few(4, 3),
        y=few(4, 3),
    )
case(
    "bce",
    "(bce x y)",
    F.binary_cross_entropy_with_logits,
    x=exact([[-800.0, -30, -1], [0.5, 30, 800]]),
    y=within(0, 1, 2, 3),
)
case(
    "kl",
    "(kl (log-softmax x) (log-softmax y))",
    lambda x, y: F.kl_div(y.log_softmax(-1), x.log_softmax(-1), reduction="batchmean", log_target=True),
    x=real(4, 3),
    y=real(4, 3),
)
case(
    "kl-more-axes",
    "(kl (log-softmax x) (log-softmax y))",
    lambda x, y: F.kl_div(y.log_softmax(-1), x.log_softmax(-1), reduction="sum", log_target=True) / 6,
    x=real(2, 3, 3),
    y=real(2, 3, 3),
)
case(
    "accuracy",
    "(accuracy x y)",
    lambda x, y: (x.argmax(-1) == y).double().mean(),
    x=few(6, 4),
    y=index(4, 6, dtype="int64"),
)
case("perplexity", "(perplexity x)", torch.exp, x=positive())
case("bits-per-byte", "(bits-per-byte x 3.7)", lambda x: x / math.log(2) / 3.7, x=positive())


def attention(q: Any, k: Any, v: Any, **given: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **given)


def seen(queries: int, keys: int, window: int | None, causal: bool) -> Any:
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
    mask = distance >= 0 if causal else torch.ones(queries, keys).bool()
    return mask if window is None else mask & (distance.abs() < window)


q, k, v = real(2, 4, 3, 2), real(2, 4, 3, 2), real(2, 4, 3, 3)
case("attend", "(attend q k v)", attention, q=q, k=k, v=v)
case("attend-causal", "(attend q k v :causal t)", lambda q, k, v: attention(q, k, v, is_causal=True), q=q, k=k, v=v)
case("attend-scale", "(attend q k v :scale 0.25)", lambda q, k, v: attention(q, k, v, scale=0.25), q=q, k=k, v=v)
case(
    "attend-shared",
    "(attend q k v :causal t)",
    lambda q, k, v: attention(q, k, v, is_causal=True),
    q=real(1, 4, 3, 2),
    k=real(1, 2, 3, 2),
    v=real(1, 2, 3, 2),
)
case("attend-one-key-head", "(attend q k v)", attention, q=real(2, 3, 2, 2), k=real(2, 1, 4, 2), v=real(2, 1, 4, 2))
case(
    "attend-window",
    "(list (attend q k v :window 2) (attend q k v :window 2 :causal t) (attend q k v :window 1))",
    lambda q, k, v: tuple(
        attention(q, k, v, attn_mask=seen(4, 4, n, c)) for n, c in ((2, False), (2, True), (1, False))
    ),
    q=real(1, 2, 4, 2),
    k=real(1, 2, 4, 2),
    v=real(1, 2, 4, 2),
)
case(
    "attend-cached",
    "(attend q k v :causal t :window 3)",
    lambda q, k, v: attention(q, k, v, attn_mask=seen(2, 5, 3, True)),
    q=real(1, 2, 2, 2),
    k=real(1, 2, 5, 2),
    v=real(1, 2, 5, 2),
)
case(
    "attend-mask",
    "(list (attend q k v :mask m) (attend q k v :mask m :causal t) (attend q k v :mask n))",
    lambda q, k, v, m, n: (
        attention(q, k, v, attn_mask=m),
        attention(q, k, v, attn_mask=m & seen(3, 3, None, True)),
        attention(q, k, v, attn_mask=n),
    ),
    q=real(2, 2, 3, 2),
    k=real(2, 2, 3, 2),
    v=real(2, 2, 3, 2),
    m=exact([[True, False, True], [True, True, False], [True, True, True]], bool),
    n=truth(2, 1, 1, 3),
)
case(
    "attend-nothing-seen",
    "(attend q k v :mask m)",
    lambda q, k, v, m: attention(q, k, v, attn_mask=m),
    q=real(1, 1, 3, 2),
    k=real(1, 1, 3, 2),
    v=real(1, 1, 3, 2),
    m=exact([[True, False, True], [False, False, False], [True, True, True]], bool),
)
