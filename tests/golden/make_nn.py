"""Makes tests/golden/nn.npz: what PyTorch's layers give for weights, inputs and cotangents, in f64.

Run by hand in an environment with NumPy and PyTorch 2.13: `python tests/golden/make_nn.py`. Layers that PyTorch has are
PyTorch's own; the others (position codes, min-gru, ssm, moe) are loops over time, places or tokens written straight
from the papers. The gradient is that of the sum of the float outputs, each weighed by a cosine of its place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)
Tensors = dict[str, torch.Tensor]
CASES: dict[str, dict[str, Any]] = {}


def weights(shapes: Mapping[str, tuple[int, ...]], seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    return {k: (torch.randn(*s, generator=generator) * 0.5).requires_grad_() for k, s in shapes.items()}


def case(
    name: str,
    form: str,
    shapes: Mapping[str, tuple[int, ...]],
    reference: Callable[..., Any],
    *inputs: torch.Tensor,
    buffers: Tensors | None = None,
    training: bool = True,
) -> None:
    params = weights(shapes, len(CASES))
    given = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    kept = {k: v.clone() for k, v in (buffers or {}).items()}
    outs = reference(params, kept, *given) if buffers is not None else reference(params, *given)
    outs = list(outs) if isinstance(outs, tuple | list) else [outs]
    total = sum((o * cotangent(i, o.shape)).sum() for i, o in enumerate(outs))
    leaves = {**params, **{f"input {i}": x for i, x in enumerate(given) if x.requires_grad}}
    grads = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    CASES[name] = {
        "form": form,
        "training": training,
        "params": {k: v.detach().numpy() for k, v in params.items()},
        "buffers": {k: v.numpy() for k, v in (buffers or {}).items()},
        "next": {k: v.detach().numpy() for k, v in kept.items()},
        "inputs": [x.detach().numpy() for x in given],
        "outs": [o.detach().numpy() for o in outs],
        "grads": {
            k: (torch.zeros_like(v) if g is None else g).numpy()
            for (k, v), g in zip(leaves.items(), grads, strict=True)
        },
    }


def cotangent(number: int, shape: Any) -> torch.Tensor:
    size = math.prod(shape)
    return torch.cos(torch.arange(size, dtype=torch.float64) * 0.7 + number + 0.3).reshape(tuple(shape))


def real(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1000 + seed))


def loaded(layer: nn.Module, params: Tensors) -> Callable[..., Any]:
    """The layer called with our parameters, hyphens as underscores."""
    named = {k.replace("-", "_"): v for k, v in params.items()}
    return lambda *args: torch.func.functional_call(layer, named, args)


def recurrent(layer: nn.Module, params: Tensors) -> Callable[..., Any]:
    named = {f"{k.replace('-', '_')}_l0": v for k, v in params.items()}
    return lambda *args: torch.func.functional_call(layer, named, args)


# Dense layers and norms

case(
    "linear",
    "(linear 4 3)",
    {"weight": (3, 4), "bias": (3,)},
    lambda p, x: loaded(nn.Linear(4, 3), p)(x),
    real(2, 5, 4),
)
case("linear without bias", "(linear 4 3 :bias nil)", {"weight": (3, 4)},
     lambda p, x: loaded(nn.Linear(4, 3, bias=False), p)(x), real(6, 4))  # fmt: skip
case("embedding", "(embedding 5 3)", {"weight": (5, 3)}, lambda p, i: loaded(nn.Embedding(5, 3), p)(i),
     torch.tensor([[0, 4, 4], [2, 0, 1]], dtype=torch.int32))  # fmt: skip
case("layer-norm", "(layer-norm 6)", {"weight": (6,), "bias": (6,)}, lambda p, x: loaded(nn.LayerNorm(6), p)(x),
     real(2, 3, 6))  # fmt: skip
case("layer-norm without bias", "(layer-norm 6 :bias nil :eps 1d-3)", {"weight": (6,)},
     lambda p, x: loaded(nn.LayerNorm(6, eps=1e-3, bias=False), p)(x), real(4, 6))  # fmt: skip
case("rms-norm", "(rms-norm 6)", {"weight": (6,)}, lambda p, x: loaded(nn.RMSNorm(6, eps=1e-5), p)(x), real(2, 3, 6))
for space in ((), (5,), (3, 4)):
    case(f"group-norm {len(space)}d", "(group-norm 2 6)", {"weight": (6,), "bias": (6,)},
         lambda p, x: loaded(nn.GroupNorm(2, 6), p)(x), real(3, 6, *space))  # fmt: skip
    for training in (True, False):

        def normalized(p: Tensors, b: Tensors, x: torch.Tensor, training: bool = training) -> torch.Tensor:
            return F.batch_norm(
                x, b["running-mean"], b["running-var"], p["weight"], p["bias"], training=training, momentum=0.1
            )

        case(
            f"batch-norm {len(space)}d {'training' if training else 'evaluating'}",
            "(batch-norm 6)",
            {"weight": (6,), "bias": (6,)},
            normalized,
            real(4, 6, *space),
            buffers={"running-mean": real(6, seed=3), "running-var": real(6, seed=4) ** 2 + 0.5},
            training=training,
        )

# Convolutions

for name, form, layer in (
    ("conv1d", "(conv1d 4 6 :kernel 3)", nn.Conv1d(4, 6, 3)),
    ("conv1d strided", "(conv1d 4 6 :kernel 3 :stride 2 :padding 2 :dilation 2 :groups 2)",
     nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2)),
    ("conv1d same", "(conv1d 4 6 :kernel 4 :padding :same :bias nil)", nn.Conv1d(4, 6, 4, padding="same", bias=False)),
    ("conv2d", "(conv2d 4 6 :kernel 3 :padding 1)", nn.Conv2d(4, 6, 3, padding=1)),
    ("conv2d strided", "(conv2d 4 6 :kernel '(3 2) :stride '(2 1) :padding '(1 2) :dilation '(1 2) :groups 2)",
     nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)),
    ("conv2d depthwise", "(conv2d 4 4 :kernel 3 :groups 4 :bias nil)", nn.Conv2d(4, 4, 3, groups=4, bias=False)),
):  # fmt: skip
    shapes = {k: tuple(v.shape) for k, v in layer.state_dict().items()}
    case(
        name,
        form,
        shapes,
        lambda p, x, layer=layer: loaded(layer, p)(x),
        real(2, 4, *((7,) if "1d" in name else (7, 8))),
    )

# Attention


def rotated(x: torch.Tensor, base: float) -> torch.Tensor:
    out = torch.zeros_like(x)
    dim = x.shape[-1]
    for t in range(x.shape[-2]):
        for i in range(dim // 2):
            angle = t / base ** (2 * i / dim)
            a, b = x[..., t, i], x[..., t, i + dim // 2]
            out = out.clone()
            out[..., t, i] = a * math.cos(angle) - b * math.sin(angle)
            out[..., t, i + dim // 2] = b * math.cos(angle) + a * math.sin(angle)
    return out


def attended(p: Tensors, x: torch.Tensor, heads: int, kv: int, dim: int, **o: Any) -> torch.Tensor:
    n, t, _ = x.shape
    everything = x @ p["qkv.weight"].T + p.get("qkv.bias", 0.0)
    q, k, v = everything.split([heads * dim, kv * dim, kv * dim], -1)
    q, k, v = (y.reshape(n, t, -1, dim).transpose(1, 2) for y in (q, k, v))
    if o.get("qk_norm"):
        q = F.rms_norm(q, (dim,), p["q-norm.weight"], eps=1e-5)
        k = F.rms_norm(k, (dim,), p["k-norm.weight"], eps=1e-5)
    if "rope" in o:
        q, k = rotated(q, o["rope"]), rotated(k, o["rope"])
    bias = torch.zeros(heads, t, t)
    for h in range(heads):
        for i in range(t):
            for j in range(t):
                if (o.get("causal") and j > i) or ("window" in o and abs(i - j) >= o["window"]):
                    bias[h, i, j] = -math.inf
                elif o.get("alibi"):
                    bias[h, i, j] = -(2 ** (-8 * (h + 1) / heads)) * abs(i - j)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=kv != heads)
    y = mixed.transpose(1, 2).reshape(n, t, heads * dim)
    return y @ p["out.weight"].T + p.get("out.bias", 0.0)


def attention_shapes(width: int, heads: int, kv: int, dim: int, *, bias: bool = True, norm: bool = False) -> Any:
    rows = (heads + 2 * kv) * dim
    shapes: dict[str, tuple[int, ...]] = {"qkv.weight": (rows, width), "out.weight": (width, heads * dim)}
    if bias:
        shapes |= {"qkv.bias": (rows,), "out.bias": (width,)}
    if norm:
        shapes |= {"q-norm.weight": (dim,), "k-norm.weight": (dim,)}
    return shapes


for name, form, kv, dim, o in (
    ("attention", "(attention 8 4)", 4, 2, {}),
    ("causal-attention", "(causal-attention 8 4 :bias nil)", 4, 2, {"causal": True}),
    ("attention gqa", "(causal-attention 8 4 :kv-heads 2 :head-dim 3)", 2, 3, {"causal": True}),
    ("attention rope", "(causal-attention 8 4 :head-dim 4 :rope t)", 4, 4, {"causal": True, "rope": 10000.0}),
    ("attention rope base", "(causal-attention 8 4 :rope 500.0 :kv-heads 1)", 1, 2, {"causal": True, "rope": 500.0}),
    ("attention alibi", "(causal-attention 8 4 :alibi t)", 4, 2, {"causal": True, "alibi": True}),
    ("attention alibi both ways", "(attention 8 4 :alibi t)", 4, 2, {"alibi": True}),
    ("attention window", "(causal-attention 8 4 :window 3)", 4, 2, {"causal": True, "window": 3}),
    ("attention qk-norm", "(attention 8 4 :qk-norm t)", 4, 2, {"qk_norm": True}),
):
    shapes = attention_shapes(8, 4, kv, dim, bias=":bias nil" not in form, norm="qk_norm" in o)
    case(name, form, shapes, lambda p, x, kv=kv, dim=dim, o=o: attended(p, x, 4, kv, dim, **o), real(2, 6, 8))


def mlp_shapes(prefix: str = "", *, gate: bool = False, bias: bool = True) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {f"{prefix}up.weight": (12, 8), f"{prefix}down.weight": (8, 12)}
    if gate:
        shapes[f"{prefix}gate.weight"] = (12, 8)
    if bias:
        shapes |= {f"{prefix}{k}.bias": (s[0],) for k, s in (("up", (12,)), ("down", (8,)))}
        shapes |= {f"{prefix}gate.bias": (12,)} if gate else {}
    return shapes


def affine(p: Tensors, key: str, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, p[f"{key}.weight"], p.get(f"{key}.bias"))


case("gelu-mlp", "(gelu-mlp 8 12)", mlp_shapes(),
     lambda p, x: affine(p, "down", F.gelu(affine(p, "up", x))), real(3, 8))  # fmt: skip
case("gelu-mlp tanh", "(gelu-mlp 8 12 :approximate :tanh :bias nil)", mlp_shapes(bias=False),
     lambda p, x: affine(p, "down", F.gelu(affine(p, "up", x), approximate="tanh")), real(3, 8))  # fmt: skip
case("relu-mlp", "(relu-mlp 8 12)", mlp_shapes(),
     lambda p, x: affine(p, "down", F.relu(affine(p, "up", x))), real(3, 8))  # fmt: skip
case("swiglu-mlp", "(swiglu-mlp 8 12)", mlp_shapes(gate=True, bias=False),
     lambda p, x: affine(p, "down", F.silu(affine(p, "gate", x)) * affine(p, "up", x)), real(3, 8))  # fmt: skip
case("swiglu-mlp with bias", "(swiglu-mlp 8 12 :bias t)", mlp_shapes(gate=True),
     lambda p, x: affine(p, "down", F.silu(affine(p, "gate", x)) * affine(p, "up", x)), real(3, 8))  # fmt: skip


def block(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    own = {k.removeprefix("attn."): v for k, v in p.items()}
    x = x + attended(own, F.layer_norm(x, (8,), p["norm1.weight"], p["norm1.bias"]), 4, 4, 2, causal=True)
    h = F.layer_norm(x, (8,), p["norm2.weight"], p["norm2.bias"])
    return x + affine(p, "mlp.down", F.gelu(affine(p, "mlp.up", h)))


norms: dict[str, tuple[int, ...]] = {f"norm{i}.{k}": (8,) for i in (1, 2) for k in ("weight", "bias")}
attention_of_block = {f"attn.{k}": s for k, s in attention_shapes(8, 4, 4, 2).items()}
case("transformer-block", "(transformer-block 8 4 :hidden 12)", norms | attention_of_block | mlp_shapes("mlp."), block,
     real(2, 5, 8))  # fmt: skip


def llama_block(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    own = {k.removeprefix("attn."): v for k, v in p.items()}
    x = x + attended(own, F.rms_norm(x, (8,), p["norm1.weight"], eps=1e-5), 4, 2, 2, causal=True, rope=10000.0)
    h = F.rms_norm(x, (8,), p["norm2.weight"], eps=1e-5)
    return x + affine(p, "mlp.down", F.silu(affine(p, "mlp.gate", h)) * affine(p, "mlp.up", h))


case("transformer-block of llama",
     "(transformer-block 8 4 :hidden 12 :norm :rms :mlp :swiglu :bias nil :rope t :kv-heads 2)",
     {"norm1.weight": (8,), "norm2.weight": (8,)}
     | {f"attn.{k}": s for k, s in attention_shapes(8, 4, 2, 2, bias=False).items()}
     | mlp_shapes("mlp.", gate=True, bias=False), llama_block, real(2, 5, 8))  # fmt: skip

# Along time


def gates(count: int, bias: bool = True) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"weight-ih": (count * 3, 4), "weight-hh": (count * 3, 3)}
    return shapes | ({"bias-ih": (count * 3,), "bias-hh": (count * 3,)} if bias else {})


def rnn_outs(layer: nn.Module, p: Tensors, x: torch.Tensor, *state: torch.Tensor) -> list[torch.Tensor]:
    given = () if not state else ((state[0][None],) if len(state) == 1 else (tuple(s[None] for s in state),))
    ys, last = recurrent(layer, p)(x, *given)
    return [ys, *(s[0] for s in (last if isinstance(last, tuple) else (last,)))]


for name, form, count, layer in (
    ("rnn", "(rnn 4 3)", 1, nn.RNN(4, 3, batch_first=True)),
    ("rnn relu", "(rnn 4 3 :activation #'relu :bias nil)", 1,
     nn.RNN(4, 3, nonlinearity="relu", bias=False, batch_first=True)),
    ("lstm", "(lstm 4 3)", 4, nn.LSTM(4, 3, batch_first=True)),
    ("gru", "(gru 4 3)", 3, nn.GRU(4, 3, batch_first=True)),
):  # fmt: skip
    shapes = gates(count, "nil" not in form)
    states = [real(2, 3, seed=5), real(2, 3, seed=6)] if name == "lstm" else [real(2, 3, seed=5)]
    case(name, form, shapes, lambda p, x, layer=layer: rnn_outs(layer, p, x), real(2, 5, 4))
    case(f"{name} from a state", form, shapes, lambda p, x, *s, layer=layer: rnn_outs(layer, p, x, *s), real(2, 5, 4),
         *states)  # fmt: skip


def min_gru(p: Tensors, x: torch.Tensor, *state: torch.Tensor) -> list[torch.Tensor]:
    h = state[0] if state else torch.zeros(2, 3)
    rows = []
    for t in range(x.shape[1]):
        z = torch.sigmoid(affine(p, "gate", x[:, t]))
        h = (1 - z) * h + z * affine(p, "candidate", x[:, t])
        rows.append(h)
    return [torch.stack(rows, 1), h]


pair = {f"{k}.{w}": s for k in ("gate", "candidate") for w, s in (("weight", (3, 4)), ("bias", (3,)))}
case("min-gru", "(min-gru 4 3)", pair, min_gru, real(2, 5, 4))
case("min-gru from a state", "(min-gru 4 3)", pair, min_gru, real(2, 5, 4), real(2, 3, seed=5))


def ssm(p: Tensors, x: torch.Tensor) -> torch.Tensor:
    n, time, width = x.shape
    a = -torch.exp(p["a-log"])
    h = torch.zeros(n, width, a.shape[1])
    rows = []
    for t in range(time):
        d = F.softplus(affine(p, "delta", x[:, t]))[..., None]
        b, c = affine(p, "to-b", x[:, t]), affine(p, "to-c", x[:, t])
        h = torch.exp(d * a) * h + d * b[:, None] * x[:, t, :, None]
        rows.append((h * c[:, None]).sum(-1) + p["skip"] * x[:, t])
    return torch.stack(rows, 1)


case("ssm", "(ssm 4 3)", {"delta.weight": (4, 4), "delta.bias": (4,), "to-b.weight": (3, 4), "to-c.weight": (3, 4),
                          "a-log": (4, 3), "skip": (4,)}, ssm, real(2, 7, 4))  # fmt: skip


def moe(p: Tensors, x: torch.Tensor) -> list[torch.Tensor]:
    experts, chosen = 4, 2
    tokens = x.reshape(-1, 6)
    scores = tokens @ p["gate.weight"].T
    rows, counts = [], torch.zeros(experts)
    for token, score in zip(tokens, scores, strict=True):
        best = torch.topk(score, chosen)
        parts = []
        for w, e in zip(torch.softmax(best.values, 0), best.indices.tolist(), strict=True):
            counts[e] += 1
            parts.append(w * (F.gelu(token @ p["up"][e]) @ p["down"][e]))
        rows.append(torch.stack(parts).sum(0))
    share, probability = counts / len(tokens) / chosen, torch.softmax(scores, -1).mean(0)
    return [torch.stack(rows).reshape(x.shape), experts * (share * probability).sum()]


case("moe", "(moe 6 8 :experts 4 :top-k 2)", {"gate.weight": (4, 6), "up": (4, 6, 8), "down": (4, 8, 6)}, moe,
     real(2, 5, 6))  # fmt: skip


def write() -> None:
    floats: list[np.ndarray[Any, Any]] = []

    def kept(array: np.ndarray[Any, Any]) -> list[Any]:
        floats.append(array.astype(np.float64).reshape(-1))
        return [str(array.dtype), list(array.shape)]

    facts = {
        name: {
            **{k: made[k] for k in ("form", "training")},
            **{part: {k: kept(v) for k, v in made[part].items()} for part in ("params", "buffers", "next", "grads")},
            **{part: [kept(v) for v in made[part]] for part in ("inputs", "outs")},
        }
        for name, made in CASES.items()
    }
    text = np.frombuffer(json.dumps(facts, separators=(",", ":")).encode(), np.uint8)
    np.savez_compressed(Path(__file__).parent / "nn.npz", cases=text, numbers=np.concatenate(floats))


if __name__ == "__main__":
    write()
