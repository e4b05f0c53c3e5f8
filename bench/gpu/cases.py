"""What the run goes through, part by part, at full sizes and at toy ones, and the seconds that a part may take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

from sexpgpu.tensortype import TensorType

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"


@frozen
class Setting:
    """The device, the sizes, a Python that has PyTorch, and the seconds that the case may take."""

    device: Literal["cuda", "sim"]
    sizes: Literal["full", "toy"]
    torch: str
    seconds: float

    @property
    def toy(self) -> bool:
        return self.sizes == "toy"


@frozen
class Checked:
    """A file whose kernels are checked, under a selection."""

    file: Path
    variant: str | None = None
    sets: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.file.stem


@frozen
class Trained:
    """A file, flags, and how far losses may be apart, relative: early ones, and the mean of the last tenth."""

    name: str
    file: Path
    flags: tuple[str, ...]
    early: float
    late: float
    mnist: bool = False


@frozen
class Stepped:
    """A file and its knobs, which are those of the same model in `with_torch.py`."""

    name: str
    file: str
    knobs: Mapping[str, int]


@frozen
class Product:
    """[m, k] by [k, n]; an operand that is `t`ransposed lies as its transpose does."""

    m: int
    n: int
    k: int
    dtype: Literal["bf16", "f32"] = "bf16"
    lies: str = "nn"

    @property
    def name(self) -> str:
        return f"{self.dtype} {self.lies} {self.m}x{self.n}x{self.k}"

    @property
    def stored(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The shapes of both operands in memory."""
        a, b = (self.m, self.k), (self.k, self.n)
        return (a[::-1] if self.lies[0] == "t" else a), (b[::-1] if self.lies[1] == "t" else b)


@frozen
class Attention:
    """Causal attention in bf16; `kv` heads of keys serve all, 0: each its own."""

    batch: int
    heads: int
    seq: int
    length: int
    kv: int = 0

    @property
    def name(self) -> str:
        shared = f"/{self.kv}" if self.kv else ""
        return f"{self.batch}x{self.heads}{shared}x{self.seq}x{self.length}"

    @property
    def query(self) -> TensorType:
        """[batch, heads, seq, length]"""
        return TensorType((self.batch, self.heads, self.seq, self.length), "bf16")

    @property
    def key(self) -> TensorType:
        """[batch, kv, seq, length]"""
        return TensorType((self.batch, self.kv or self.heads, self.seq, self.length), "bf16")

    @property
    def attrs(self) -> dict[str, Any]:
        return {"scale": 1 / math.sqrt(self.length), "causal": True, "window": 0, "rounded": True}


@frozen
class Convolution:
    """Images [batch, channels, size, size] by filters [filters, channels, kernel, kernel], padded to as many places."""

    op: Literal["conv", "conv_input_grad", "conv_weight_grad"]
    batch: int
    channels: int
    filters: int
    size: int
    kernel: int = 3
    dtype: Literal["bf16", "f32"] = "bf16"

    @property
    def name(self) -> str:
        shape = f"{self.batch}x{self.channels}x{self.size}x{self.size} by {self.filters}x{self.kernel}x{self.kernel}"
        return f"{self.dtype} {self.op} {shape}"

    @property
    def operands(self) -> tuple[TensorType, TensorType]:
        x = TensorType((self.batch, self.channels, self.size, self.size), self.dtype)
        w = TensorType((self.filters, self.channels, self.kernel, self.kernel), self.dtype)
        y = TensorType((self.batch, self.filters, self.size, self.size), self.dtype)
        return {"conv": (x, w), "conv_input_grad": (y, w), "conv_weight_grad": (x, y)}[self.op]

    @property
    def attrs(self) -> dict[str, Any]:
        pad = (self.kernel // 2,) * 2
        form: dict[str, Any] = {"stride": (1, 1), "low": pad, "high": pad, "dilation": (1, 1), "groups": 1}
        more = {"conv_input_grad": {"size": (self.size,) * 2}, "conv_weight_grad": {"kernel": (self.kernel,) * 2}}
        return form | more.get(self.op, {})

    @property
    def operations(self) -> float:
        """Multiplications and additions, those with padding counted."""
        return 2.0 * self.batch * self.filters * self.size**2 * self.channels * self.kernel**2


@frozen
class Part:
    """The module with a function `rows(setting, case)`, its cases, each a process, and seconds for all of them."""

    module: str
    seconds: float
    full: tuple[Any, ...]
    toy: tuple[Any, ...]

    def cases(self, sizes: str) -> tuple[Any, ...]:
        return self.toy if sizes == "toy" else self.full


GPT = HERE / "gpt.sx"
SMOKE = ("llama", "moe-gpt", "min-gru", "char-lstm", "vit-digits", "mnist-bn", "vae", "wgan-gp", "ddpm")
KERNELS = (
    Checked(GPT, None, ("layers=1", "batch=2")),
    Checked(EXAMPLES / "shakespeare.sx", None, ("layers=1",)),
    Checked(EXAMPLES / "digits.sx"),
    Checked(EXAMPLES / "names.sx"),
    Checked(EXAMPLES / "mnist-conv.sx", None, ("batch=16",)),
    *(Checked(EXAMPLES / f"{name}.sx", "smoke") for name in SMOKE),
    Checked(EXAMPLES / "gpt2.sx", None, ("layers=1", "seq=256")),
)
_SMALL_GPT = {"layers": 2, "width": 128, "heads": 4, "seq": 64, "batch": 8, "steps": 20}
TRAIN = (
    Trained("digits, 15 epochs", EXAMPLES / "digits.sx", (), 1e-4, 1e-4),
    Trained("gpt in bf16, 20 steps", GPT,
            tuple(part for k, v in _SMALL_GPT.items() for part in ("--set", f"{k}={v}")), 2e-2, 2e-2),
    Trained("shakespeare, 300 steps", EXAMPLES / "shakespeare.sx", ("--set", "steps=300"), 1e-4, 1e-2),
    Trained("mnist-conv, 8 steps", EXAMPLES / "mnist-conv.sx", ("--steps", "8"), 1e-4, 1e-3, mnist=True),
)  # fmt: skip
TOY_TRAIN = (
    Trained("moons, 3 steps", EXAMPLES / "moons.sx", ("--variant", "smoke"), 1e-4, 1e-4),
    Trained("gpt in bf16, 2 steps", GPT, ("--variant", "toy", "--set", "steps=2"), 2e-2, 2e-2),
)
_NANO = {"layers": 6, "heads": 6, "width": 384, "seq": 256, "vocab": 65, "batch": 64}
_GPT2 = {"layers": 12, "heads": 12, "width": 768, "seq": 1024, "vocab": 50304}
_TOY_GPT = {"layers": 1, "heads": 2, "width": 32, "seq": 16, "vocab": 65, "batch": 2}
TOKENS = 8 * 1024
PRODUCTS = (
    # GPT-2 at batch 8: qkv, its projection, the MLP both ways, their derivatives, the head.
    Product(TOKENS, 2304, 768),
    Product(TOKENS, 768, 768),
    Product(TOKENS, 3072, 768),
    Product(TOKENS, 768, 3072),
    Product(TOKENS, 768, 3072, lies="nt"),
    Product(768, 3072, TOKENS, lies="tn"),
    Product(TOKENS, 50304, 768, lies="nt"),
    # nanoGPT's width, squares, ragged ones, few rows.
    Product(16384, 1536, 384),
    Product(4096, 4096, 4096),
    Product(1000, 1000, 1000),
    Product(1023, 1025, 1027),
    Product(64, 4096, 4096),
    Product(2048, 2048, 2048, "f32"),
    Product(512, 784, 1024, "f32", "tn"),
)
ATTENTION = (
    Attention(64, 6, 256, 64),
    Attention(8, 12, 1024, 64),
    Attention(32, 12, 1024, 64),
    Attention(4, 16, 2048, 128),
    Attention(4, 32, 1024, 64, kv=8),
)
_OPS: tuple[Literal["conv", "conv_input_grad", "conv_weight_grad"], ...] = (
    "conv",
    "conv_input_grad",
    "conv_weight_grad",
)
CONVOLUTIONS = (
    *(Convolution(op, 64, 64, 128, 16) for op in _OPS),
    *(Convolution(op, 32, 64, 64, 16, dtype="f32") for op in _OPS),
)
TOY_CONVOLUTIONS = (Convolution("conv", 1, 3, 4, 6), Convolution("conv_weight_grad", 2, 3, 4, 5, dtype="f32"))

PARTS = {
    "kernels": Part("kernels", 120.0, KERNELS, (Checked(EXAMPLES / "moons.sx", "smoke"), Checked(GPT, "toy"))),
    "train": Part("train", 100.0, TRAIN, TOY_TRAIN),
    "step-mlp": Part("steps", 35.0, (Stepped("mlp 4096, batch 1024", "mlp", {"width": 4096, "batch": 1024}),),
                     (Stepped("mlp", "mlp", {"width": 24, "batch": 8}),)),
    "step-conv": Part("steps", 45.0, (Stepped("conv 64-128, batch 256", "conv", {"width": 64, "batch": 256}),),
                      (Stepped("conv", "conv", {"width": 2, "batch": 1}),)),
    "step-shakespeare": Part("steps", 65.0, (Stepped("nanoGPT shakespeare, batch 64", "gpt", _NANO),),
                             (Stepped("gpt", "gpt", _TOY_GPT),)),
    "step-gpt2": Part("steps", 120.0,
                      tuple(Stepped(f"GPT-2 124M, batch {n}", "gpt", {**_GPT2, "batch": n}) for n in (8, 32)), ()),
    "ranks": Part("ranks", 40.0, (Stepped("mlp 4096, batch 1024", "mlp", {"width": 4096, "batch": 1024}),),
                  (Stepped("mlp", "mlp", {"width": 16, "batch": 4}),)),
    "products": Part("products", 45.0, (PRODUCTS,), ((Product(48, 40, 32), Product(17, 24, 19, "f32", "tn")),)),
    "convolutions": Part("convolutions", 15.0, (CONVOLUTIONS,), (TOY_CONVOLUTIONS,)),
    "attention": Part("attention", 45.0, (ATTENTION,), ((Attention(1, 2, 40, 32),),)),
}  # fmt: skip
