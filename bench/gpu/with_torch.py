"""PyTorch's side, which needs nothing but PyTorch: a list of pieces of work comes in, a line for each goes out.

Everything is done as its users would: `torch.compile`, autocast to bf16, the fused AdamW, f32 without TF32, as ours is.
A line is {"place": n, "seconds": s}, or {"place": n, "lacking": why}; without PyTorch or a GPU there is one such line.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

REPEATS, CALLS, WARM = 7, 10, 3
Work = Mapping[str, Any]


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    try:
        import torch
    except ImportError:
        say(lacking="PyTorch is not installed")
        return
    if not torch.cuda.is_available():
        say(lacking="PyTorch sees no GPU")
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    for place, work in enumerate(json.load(sys.stdin)):
        try:
            say(place=place, seconds=KINDS[work["kind"]](torch, work))
        except (RuntimeError, torch.cuda.OutOfMemoryError) as fault:
            say(place=place, lacking=f"PyTorch: {str(fault).splitlines()[0]}")
            torch.cuda.empty_cache()


def by_events(torch: Any, call: Callable[[], Any]) -> float:
    """The median of several timings, each of several calls."""
    for _ in range(WARM):
        call()
    seconds = []
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3 / CALLS)
    return float(statistics.median(seconds))


def product(torch: Any, work: Work) -> float:
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[work["dtype"]]
    stored = [torch.randn(work[name], device="cuda").to(dtype) for name in ("a", "b")]
    a, b = (x.T if lies == "t" else x for x, lies in zip(stored, work["lies"], strict=True))
    out = torch.empty(a.shape[0], b.shape[1], device="cuda", dtype=dtype)
    return by_events(torch, lambda: torch.matmul(a, b, out=out))


def attention(torch: Any, work: Work) -> float:
    shapes = work["q"], work["k"], work["k"]
    q, k, v = (torch.randn(s, device="cuda", dtype=torch.bfloat16).requires_grad_() for s in shapes)
    shared = work["q"][1] != work["k"][1]

    def forward() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shared)

    if not work["backward"]:
        with torch.no_grad():
            return by_events(torch, forward)
    y = forward()
    g = torch.randn_like(y)
    return by_events(torch, lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True))


def step(torch: Any, work: Work) -> float:
    """The median seconds of a whole training step: batch from the host, loss read back, gradients clipped, AdamW."""
    torch.manual_seed(1)
    model = MODELS[work["model"]](torch, work).cuda()
    batch = BATCHES[work["model"]](torch, work)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    bf16 = torch.autocast("cuda", torch.bfloat16)

    @torch.compile  # type: ignore[untyped-decorator]
    def loss_of(x: Any, y: Any) -> Any:
        with bf16:
            logits = model(x)
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2).float(), y.flatten())

    seconds = []
    for _ in range(work["warm"] + work["steps"]):
        began = time.perf_counter()
        x, y = (t.to("cuda", non_blocking=True) for t in batch)
        loss = loss_of(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        seconds.append(time.perf_counter() - began)
    return float(statistics.median(seconds[work["warm"] :]))


def gpt(torch: Any, work: Work) -> Any:
    nn, functional = torch.nn, torch.nn.functional
    width, heads, seq = work["width"], work["heads"], work["seq"]

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = (nn.LayerNorm(width, bias=False) for _ in range(2))
            self.qkv = nn.Linear(width, 3 * width, bias=False)
            self.out = nn.Linear(width, width, bias=False)
            self.up = nn.Linear(width, 4 * width, bias=False)
            self.down = nn.Linear(4 * width, width, bias=False)

        def forward(self, x: Any) -> Any:
            n, t, _ = x.shape
            parts = self.qkv(self.norm1(x)).view(n, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = nn.Embedding(work["vocab"], width), nn.Embedding(seq, width)
            self.blocks = nn.ModuleList(Block() for _ in range(work["layers"]))
            self.norm = nn.LayerNorm(width, bias=False)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, tokens: Any) -> Any:
            x = self.wte(tokens) + self.wpe.weight
            for block in self.blocks:
                x = block(x)
            return self.norm(x) @ self.wte.weight.T

    return Gpt()


def mlp(torch: Any, work: Work) -> Any:
    nn, width = torch.nn, work["width"]
    hidden = [nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(width, 10))


def conv(torch: Any, work: Work) -> Any:
    nn, width = torch.nn, work["width"]
    pairs = ((3, width), (width, width), (width, 2 * width), (2 * width, 2 * width))
    one, two, three, four = (nn.Conv2d(a, b, 3, padding=1) for a, b in pairs)
    first = [one, nn.ReLU(), two, nn.ReLU(), nn.MaxPool2d(2)]
    second = [three, nn.ReLU(), four, nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(2 * width * 64, 10))


def tokens(torch: Any, work: Work) -> Any:
    ids = torch.randint(65, (work["batch"], work["seq"] + 1))
    return ids[:, :-1].contiguous().pin_memory(), ids[:, 1:].contiguous().pin_memory()


def vectors(torch: Any, work: Work) -> Any:
    return torch.randn(work["batch"], 784).pin_memory(), torch.randint(10, (work["batch"],)).pin_memory()


def images(torch: Any, work: Work) -> Any:
    return torch.randn(work["batch"], 3, 32, 32).pin_memory(), torch.randint(10, (work["batch"],)).pin_memory()


KINDS: dict[str, Callable[[Any, Work], float]] = {"product": product, "attention": attention, "step": step}
MODELS: dict[str, Callable[[Any, Work], Any]] = {"gpt": gpt, "mlp": mlp, "conv": conv}
BATCHES: dict[str, Callable[[Any, Work], Any]] = {"gpt": tokens, "mlp": vectors, "conv": images}

if __name__ == "__main__":
    main()
