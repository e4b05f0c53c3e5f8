"""Where the published runs started: weights and data order, rebuilt from their seeds with NumPy alone.

Weights are named by the paths of the model in the `.sx` file, matrices stored (out, in). Orders are absolute
record numbers, one row a batch; a short one ends in −1. `python -m bench.curves.starts DIR` writes all
of them.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from bench.curves.torch_stream import TorchStream

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Weights = dict[str, NDArray[np.float32] | NDArray[np.float64]]
Orders = dict[str, NDArray[np.int64]]


@frozen
class Start:
    """`orders` by the name of the knob of the `.sx` file that takes the file's path."""

    weights: Weights
    orders: Orders

    def write(self, folder: Path) -> None:
        """`weights.safetensors` and one `NAME.npy` for each order."""
        from safetensors.numpy import save_file

        folder.mkdir(parents=True, exist_ok=True)
        save_file(
            {name: np.ascontiguousarray(w) for name, w in self.weights.items()},
            folder / "weights.safetensors",
        )
        for name, order in self.orders.items():
            np.save(folder / f"{name}.npy", order)


def micrograd() -> Start:
    """Python's generator, seed 1337: uniform(-1, 1) neuron by neuron, biases 0. Full batches: no order."""
    draw = random.Random(1337)
    weights: Weights = {}
    for name, fan_in, fan_out in (("hidden1", 2, 16), ("hidden2", 16, 16), ("score", 16, 1)):
        rows = [[draw.uniform(-1, 1) for _ in range(fan_in)] for _ in range(fan_out)]
        weights[f"model.{name}.weight"] = np.array(rows)
        weights[f"model.{name}.bias"] = np.zeros(fan_out)
    return Start(weights, {})


def digits(records: int = 1797, batch: int = 200, epochs: int = 15) -> Start:
    """scikit-learn's MLPClassifier, random_state 0.

    One RandomState draws weight and bias of each layer from ±sqrt(6 / (fan in + fan out)), then a permutation
    an epoch, which is applied to the order of the epoch before.
    """
    draw = np.random.RandomState(0)
    weights: Weights = {}
    for name, fan_in, fan_out in (("inner", 64, 100), ("outer", 100, 10)):
        bound = np.sqrt(6.0 / (fan_in + fan_out))
        weights[f"model.{name}.weight"] = draw.uniform(-bound, bound, (fan_in, fan_out)).T
        weights[f"model.{name}.bias"] = draw.uniform(-bound, bound, fan_out)
    index = np.arange(records)
    rows = []
    for _ in range(epochs):
        permutation = np.arange(records)
        draw.shuffle(permutation)
        index = index[permutation]
        rows += [index[at : at + batch] for at in range(0, records, batch)]
    order = np.full((len(rows), batch), -1, dtype=np.int64)
    for k, row in enumerate(rows):
        order[k, : len(row)] = row
    return Start(weights, {"order": order})


def microgpt(steps: int = 1000) -> Start:
    """Python's generator, seed 42: shuffles the documents, then draws gauss(0, 0.08) matrix by matrix."""
    names = (EXAMPLES / "data" / "names.txt").read_text(encoding="utf-8").split()
    draw = random.Random(42)
    order = list(range(len(names)))
    draw.shuffle(order)
    width, letters = 16, len(set("".join(names))) + 1
    shapes = {
        "model.wte": (letters, width),
        "model.wpe": (16, width),
        "model.head": (letters, width),
        "model.attn.q": (width, width),
        "model.attn.k": (width, width),
        "model.attn.v": (width, width),
        "model.attn.out": (width, width),
        "model.mlp.up.weight": (4 * width, width),
        "model.mlp.down.weight": (width, 4 * width),
    }
    weights: Weights = {
        name: np.array([[draw.gauss(0, 0.08) for _ in range(columns)] for _ in range(rows)])
        for name, (rows, columns) in shapes.items()
    }
    return Start(weights, {"order": np.array(order[:steps], dtype=np.int64).reshape(-1, 1)})


def nanogpt(layers: int = 4, width: int = 128, context: int = 64, batch: int = 12, steps: int = 2000) -> Start:
    """nanoGPT's CPU setting, `torch.manual_seed(1337)`."""
    letters = 65
    stream = TorchStream(1337)
    weights = _nanogpt_weights(stream, layers, width, context, letters)
    characters = len((EXAMPLES / "data" / "tinyshakespeare.txt").read_bytes())
    return Start(weights, _nanogpt_orders(stream, characters, context, batch, steps))


def _nanogpt_weights(stream: TorchStream, layers: int, width: int, context: int, letters: int) -> Weights:
    """Three passes over the model.

    Every layer first draws PyTorch's own default. Then all matrices are drawn N(0, 0.02) in module order, the
    tied one twice, as embedding and as head: the head's draw stays. Then the projections that end a residual
    branch are drawn again.
    """
    block = {
        "attn.qkv.weight": (3 * width, width),
        "attn.out.weight": (width, width),
        "mlp.up.weight": (4 * width, width),
        "mlp.down.weight": (width, 4 * width),
    }
    shapes = {"model.wte": (letters, width), "model.wpe": (context, width)}
    shapes |= {f"model.blocks.{i}.{name}": shape for i in range(layers) for name, shape in block.items()}
    for shape in (*shapes.values(), shapes["model.wte"]):
        stream.skip_uniform(shape[0] * shape[1])
    weights: Weights = {}

    def draw(name: str, std: float) -> None:
        rows, columns = shapes[name]
        weights[name] = stream.normal(rows * columns, std).reshape(rows, columns)

    for name in (*shapes, "model.wte"):
        draw(name, 0.02)
    for name in shapes:
        if name.endswith(("attn.out.weight", "mlp.down.weight")):
            draw(name, 0.02 / float(np.sqrt(2 * layers)))
    gains = [f"model.blocks.{i}.{norm}.weight" for i in range(layers) for norm in ("norm1", "norm2")]
    weights |= {name: np.ones(width, dtype=np.float32) for name in (*gains, "model.norm.weight")}
    return weights


def _nanogpt_orders(stream: TorchStream, characters: int, context: int, batch: int, steps: int) -> Orders:
    """Batches and evaluation batches share the stream: the batch of a step is drawn before its evaluation.

    The text is split at floor(0.9 n); starts count from the beginning of the whole text.
    """
    split = int(0.9 * characters)

    def starts(first: int, end: int) -> NDArray[np.int64]:
        return first + stream.integers(end - first - context, batch)

    train = [starts(0, split)]
    seen, val = [], []
    for step in range(steps + 1):
        if step % 250 == 0:
            seen += [starts(0, split) for _ in range(20)]
            val += [starts(split, characters) for _ in range(20)]
        train.append(starts(0, split))
    return {"order": np.stack(train[:steps]), "seen-order": np.stack(seen), "val-order": np.stack(val)}


STARTS = {"micrograd": micrograd, "digits": digits, "microgpt": microgpt, "nanogpt": nanogpt}

if __name__ == "__main__":
    for name, make in STARTS.items():
        make().write(Path(sys.argv[1]) / name)
