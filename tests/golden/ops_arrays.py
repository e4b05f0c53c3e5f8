"""Cases of making, moving, indexing and ordering arrays."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.golden.references import case, exact, few, index, real, truth

# Making: the input is there so that the case has one.
case(
    "filled",
    "(list (zeros '(2 3)) (ones '(2)) (full '(2 1) 2.5) (+ x (zeros '(0 2))))",
    lambda x: (
        torch.zeros(2, 3).double(),
        torch.ones(2).double(),
        torch.full((2, 1), 2.5).double(),
        torch.zeros(0, 2) + x,
    ),
    x=real(2),
)
case("full-of-a-tensor", "(full '(2 3) x)", lambda x: x.expand(2, 3), x=real())
case(
    "filled-dtypes",
    "(list (zeros '(2) :dtype :i32) (ones '(2) :dtype :bool) (full 2 7 :dtype :u8) (ones '(1) :dtype :float))",
    lambda: (torch.zeros(2).int(), torch.ones(2).bool(), torch.full((2,), 7).to(torch.uint8), torch.ones(1).double()),
)
case(
    "arange",
    "(list (arange 4) (arange 2 7 2) (arange 3 0 -1) (arange 0))",
    lambda: (torch.arange(4).int(), torch.arange(2, 7, 2).int(), torch.arange(3, 0, -1).int(), torch.arange(0).int()),
)
case(
    "eye",
    "(list (eye 3) (eye 0) (eye 2 :dtype :i32))",
    lambda: (torch.eye(3).double(), torch.eye(0).double(), torch.eye(2).int()),
)
case(
    "one-hot",
    "(list (one-hot i 4) (one-hot j 3 :dtype :bool))",
    lambda i, j: (F.one_hot(i.long(), 4).double(), F.one_hot(j.long(), 3).bool()),
    i=index(4, 2, 3),
    j=index(3, 5),
)
case(
    "constant",
    "(list (constant '((1 2) (3 4))) (constant '(0.1 1/4)) (constant 2.5) (constant '(1 0) :dtype :bool))",
    lambda: (
        torch.tensor([[1, 2], [3, 4]]).int(),
        torch.tensor([0.1, 0.25], dtype=torch.float64),
        torch.tensor(2.5, dtype=torch.float64),
        torch.tensor([True, False]),
    ),
)

# Moving
case(
    "reshape",
    "(list (reshape x '(3 4)) (reshape x '(2 -1)) (reshape x -1) (reshape x '(1 12 1)))",
    lambda x: (x.reshape(3, 4), x.reshape(2, 6), x.reshape(-1), x.reshape(1, 12, 1)),
    x=real(2, 6),
)
case(
    "reshape-empty",
    "(list (reshape x '(3 0)) (reshape y '()))",
    lambda x, y: (x.reshape(3, 0), y.reshape(())),
    x=real(0, 2),
    y=real(1, 1),
)
case(
    "transpose",
    "(list (transpose x) (transpose x '(2 0 1)) (transpose x '(-1 -2 -3)))",
    lambda x: (x.mT, x.permute(2, 0, 1), x.permute(2, 1, 0)),
    x=real(2, 3, 4),
)
case(
    "transpose-twice",
    "(matmul (transpose x) (transpose (transpose y) '(1 0)))",
    lambda x, y: x.T @ y,
    x=real(3, 2),
    y=real(3, 4),
)
case(
    "broadcast-to",
    "(list (broadcast-to x '(4 2 3)) (broadcast-to y '(2 3)) (broadcast-to x '(2 3)))",
    lambda x, y: (x.expand(4, 2, 3), y.expand(2, 3), x.expand(2, 3)),
    x=real(2, 1),
    y=real(),
)
case("broadcast-empty", "(broadcast-to x '(0 3))", lambda x: x.expand(0, 3), x=real(1, 3))
case("squeeze", "(list (squeeze x 1) (squeeze x -1))", lambda x: (x.squeeze(1), x.squeeze(-1)), x=real(2, 1, 3, 1))
case(
    "unsqueeze",
    "(list (unsqueeze x 0) (unsqueeze x -1) (unsqueeze x 1))",
    lambda x: (x[None], x[..., None], x[:, None]),
    x=real(2, 3),
)
case(
    "concat",
    "(list (concat (list x y) 0) (concat (list x x y) -2) (concat (list x) 1))",
    lambda x, y: (torch.cat((x, y)), torch.cat((x, x, y), -2), x.clone()),
    x=real(2, 3),
    y=real(1, 3),
)
case("concat-empty", "(concat (list x y) 1)", lambda x, y: torch.cat((x, y), 1), x=real(2, 0), y=real(2, 2))
case(
    "stack",
    "(list (stack (list x y)) (stack (list x y x) 1) (stack (list x y) -1))",
    lambda x, y: (torch.stack((x, y)), torch.stack((x, y, x), 1), torch.stack((x, y), -1)),
    x=real(2, 3),
    y=real(2, 3),
)
case("split", "(split x 3 -1)", lambda x: x.split(2, -1), x=real(2, 6))
case("split-one", "(split x 1 0)", lambda x: (x.clone(),), x=real(2, 3))
case(
    "slice",
    "(list (slice x 0 1 4) (slice x 1 -2 nil) (slice x 0 nil nil 2) (slice x 0 1 5 3) (slice x -1 0 -1))",
    lambda x: (x[1:4], x[:, -2:], x[::2], x[1:5:3], x[:, :-1]),
    x=real(5, 3),
)
case("slice-empty", "(list (slice x 0 2 2) (slice x 1 3 1))", lambda x: (x[2:2], x[:, 0:0]), x=real(4, 3))
case(
    "pad",
    "(list (pad x '((1 0) (0 2))) (pad x '((0 0) (1 1)) :value -1.5))",
    lambda x: (F.pad(x, (0, 2, 1, 0)), F.pad(x, (1, 1), value=-1.5)),
    x=real(2, 3),
)
case(
    "pad-others",
    "(list (pad i '((1 1)) :value 7) (pad p '((0 2)) :value 1))",
    lambda i, p: (F.pad(i, (1, 1), value=7), F.pad(p, (0, 2), value=True)),
    i=index(9, 3),
    p=truth(2),
)
case("pad-empty", "(pad x '((1 1) (0 1)))", lambda x: F.pad(x, (0, 1, 1, 1)), x=real(0, 2))
case(
    "flip",
    "(list (flip x 0) (flip x -1) (flip x '(0 2)) (reverse x))",
    lambda x: (x.flip(0), x.flip(-1), x.flip(0, 2), x.flip(0)),
    x=real(2, 3, 2),
)
case(
    "tile",
    "(list (tile x '(2 3)) (tile x '(1 1)) (tile x '(0 2)))",
    lambda x: (x.tile(2, 3), x.clone(), x.tile(0, 2)),
    x=real(2, 3),
)
case(
    "repeat-axis",
    "(list (repeat-axis x 2 0) (repeat-axis x 3 -1) (repeat-axis x 1 1))",
    lambda x: (x.repeat_interleave(2, 0), x.repeat_interleave(3, -1), x.clone()),
    x=real(2, 3),
)

# Indexing
case(
    "gather",
    "(list (gather x i) (gather x j :axis 1) (gather x 2) (gather x -1 :axis -1))",
    lambda x, i, j: (x[i.long()], x[:, j.long()], x[2], x[:, -1]),
    x=real(4, 3),
    i=exact([1, 1, 3, 0], "int32"),
    j=index(3, 2, 2),
)
case(
    "gather-none",
    "(list (gather x i) (gather x j))",
    lambda x, i, j: (x[i.long()], x[j.long()]),
    x=real(4, 2),
    i=index(4, 0),
    j=exact(2, "int64"),
)
case(
    "embed",
    "(embed x i)",
    lambda x, i: F.embedding(i.long(), x),
    x=real(4, 3),
    i=exact([[0, 3, 0], [2, 2, 2]], "uint8"),
)
case(
    "take-along-axis",
    "(list (take-along-axis x i 1) (take-along-axis x j 0) (take-along-axis x i -1))",
    lambda x, i, j: (x.gather(1, i.long()), x.gather(0, j.long()), x.gather(1, i.long())),
    x=real(3, 4),
    i=exact([[0, 0], [3, 1], [2, 2]], "int32"),
    j=index(3, 2, 4),
)
case(
    "take-along-axis-empty",
    "(take-along-axis x i 1)",
    lambda x, i: x.gather(1, i.long()),
    x=real(2, 3),
    i=index(3, 2, 0),
)
case(
    "scatter-add",
    "(list (scatter-add x i u) (scatter-add y j v :axis -1))",
    lambda x, y, i, j, u, v: (x.index_add(0, i, u), y.index_add(1, j, v)),
    x=real(3, 2),
    y=real(2, 4),
    i=exact([1, 1, 2, 1, 0], "int64"),
    j=exact([3, 3, 0], "int64"),
    u=real(5, 2),
    v=real(2, 3),
)
case(
    "scatter-add-matrix",
    "(scatter-add x i u)",
    lambda x, i, u: x.index_add(0, i.reshape(-1), u.reshape(-1, 2)),
    x=real(3, 2),
    i=exact([[0, 2], [2, 2]], "int64"),
    u=real(2, 2, 2),
)
case(
    "scatter-add-empty",
    "(scatter-add x i u)",
    lambda x, i, u: x.index_add(0, i, u),
    x=real(3, 2),
    i=index(3, 0, dtype="int64"),
    u=real(0, 2),
)


def updated(x: Any, i: Any, u: Any, axis: int = 0) -> Any:
    """One update after the other: what is written last stays."""
    slices = list(x.unbind(axis))
    for place, update in zip(i.reshape(-1).tolist(), u.unbind(axis), strict=True):
        slices[place] = update
    return torch.stack(slices, axis)


case(
    "index-update",
    "(list (index-update x i u) (index-update y j v :axis -1))",
    lambda x, y, i, j, u, v: (updated(x, i, u), updated(y, j, v, 1)),
    x=real(4, 2),
    y=real(2, 4),
    i=exact([1, 1, 3, 1, 0, 3], "int64"),
    j=exact([2, 0, 2], "int32"),
    u=real(6, 2),
    v=real(2, 3),
)
case(
    "index-update-one",
    "(index-update x i u)",
    lambda x, i, u: updated(x, i, u[None]),
    x=real(3, 2),
    i=exact(1, "int32"),
    u=real(2),
)
case(
    "index-update-matrix",
    "(index-update x i u)",
    lambda x, i, u: updated(x, i, u.reshape(4, 2)),
    x=real(3, 2),
    i=exact([[0, 2], [2, 2]], "int64"),
    u=real(2, 2, 2),
)
case("index-update-empty", "(index-update x i u)", lambda x, i, u: x.clone(), x=real(3, 2), i=index(3, 0), u=real(0, 2))
case(
    "triangles",
    "(list (tril x) (triu x) (tril x 1) (triu x -1) (tril y -1))",
    lambda x, y: (x.tril(), x.triu(), x.tril(1), x.triu(-1), y.tril(-1)),
    x=real(3, 4),
    y=real(2, 3, 3),
)
case(
    "causal-mask",
    "(list (causal-mask 3) (causal-mask 1) (causal-mask 0))",
    lambda: tuple(torch.ones(n, n).bool().tril() for n in (3, 1, 0)),
)


def top(x: Any, k: int) -> Any:
    values, places = x.sort(dim=-1, descending=True, stable=True)
    return values[..., :k], places[..., :k].int()


case(
    "sort",
    "(list (sort x) (sort x :axis 0) (sort x :axis -2))",
    lambda x: (x.sort(dim=-1, stable=True)[0], x.sort(dim=0, stable=True)[0], x.sort(dim=-2, stable=True)[0]),
    x=few(4, 6),
)
case(
    "sort-others",
    "(list (sort i) (sort u))",
    lambda i, u: (i.sort()[0], u.sort()[0]),
    i=index(9, 2, 5),
    u=index(256, 7, dtype="uint8"),
)
case("sort-empty", "(list (sort x) (sort y :axis 0))", lambda x, y: (x.clone(), y.clone()), x=real(2, 0), y=real(1, 2))
case("top-k", "(top-k x 2)", lambda x: top(x, 2), x=few(4, 6))
case("top-k-all", "(top-k x 4)", lambda x: top(x, 4), x=few(2, 2, 4))
case("top-k-none", "(top-k x 0)", lambda x: top(x, 0), x=real(2, 3))
case("top-k-empty", "(top-k x 1)", lambda x: top(x, 1), x=real(0, 3))
case("top-k-integers", "(top-k i 3)", lambda i: top(i, 3), i=index(4, 7))
