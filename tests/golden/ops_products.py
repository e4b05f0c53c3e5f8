"""Cases of products, and of windows over sequences and images."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.golden.references import case, exact, few, index, real

# Products
case(
    "matmul",
    "(list (matmul x y) (matmul x v) (matmul w y) (matmul v v))",
    lambda x, y, v, w: (x @ y, x @ v, w @ y, v @ v),
    x=real(2, 3),
    y=real(3, 4),
    v=real(3),
    w=real(3),
)
case(
    "matmul-batch",
    "(list (matmul x y) (matmul x m) (matmul m (transpose m)))",
    lambda x, y, m: (x @ y, x @ m, m @ m.T),
    x=real(2, 1, 2, 3),
    y=real(4, 3, 2),
    m=real(3, 2),
)
case(
    "matmul-empty",
    "(list (matmul x y) (matmul y z))",
    lambda x, y, z: (x @ y, y @ z),
    x=real(2, 0),
    y=real(0, 3),
    z=real(3, 2),
)
case("matmul-integers", "(matmul i j)", lambda i, j: i @ j, i=index(5, 2, 3), j=index(5, 3, 2))
case("outer", "(outer x y)", torch.outer, x=real(3), y=real(2))
for name, specification in (
    ("matrix", "ij,jk->ik"),
    ("matrix-implicit", "ij,jk"),
    ("order", "ab,bc->ca"),
    ("inner", "ij,ij->"),
    ("hadamard", "ij,ij->ij"),
    ("outer", "ij,kl->kijl"),
    ("batch", "bij,bjk->bik"),
    ("scores", "bhqd,bhkd->bhqk"),
    ("sum-one", "ij,kl->jk"),
):
    shapes = [
        {c: n for c, n in zip("abcijklhqd", (2, 3, 4, 2, 3, 4, 2, 2, 3, 4), strict=True)}[c]
        for c in specification
        if c.isalpha()
    ]
    letters = specification.split("->")[0].split(",")
    sizes = dict(zip("abcijklhqd", (2, 3, 4, 2, 3, 4, 2, 2, 3, 4), strict=True))
    case(
        f"einsum-{name}",
        f'(einsum "{specification}" x y)',
        lambda x, y, s=specification: torch.einsum(s, x, y),
        x=real(*(sizes[c] for c in letters[0])),
        y=real(*(sizes[c] for c in letters[1])),
    )
for name, specification, shape in (
    ("transpose", "ij->ji", (2, 3)),
    ("transpose-implicit", "ba", (2, 3)),
    ("trace", "ii", (3, 3)),
    ("diagonal", "ii->i", (3, 3)),
    ("diagonals", "iijj->ji", (2, 2, 3, 3)),
    ("triple", "iii->i", (2, 2, 2)),
    ("apart", "iji->j", (2, 3, 2)),
    ("sum", "ijk->j", (2, 3, 4)),
    ("ellipsis", "...ij->...ji", (2, 2, 3)),
    ("ellipsis-sum", "i...->...", (2, 3, 2)),
):
    case(
        f"einsum-{name}", f'(einsum "{specification}" x)', lambda x, s=specification: torch.einsum(s, x), x=real(*shape)
    )
case(
    "einsum-three",
    '(einsum "ij,jk,kl->il" x y z)',
    lambda *t: torch.einsum("ij,jk,kl->il", *t),
    x=real(2, 3),
    y=real(3, 4),
    z=real(4, 2),
)
case(
    "einsum-three-shared",
    '(einsum "bi,bj,ijk->bk" x y z)',
    lambda *t: torch.einsum("bi,bj,ijk->bk", *t),
    x=real(2, 3),
    y=real(2, 2),
    z=real(3, 2, 4),
)
case(
    "einsum-four",
    '(einsum "a,a,ab,b->" w x y z)',
    lambda *t: torch.einsum("a,a,ab,b->", *t),
    w=real(2),
    x=real(2),
    y=real(2, 3),
    z=real(3),
)
case(
    "einsum-broadcast",
    '(list (einsum "...ij,...jk->...ik" x y) (einsum "...i,i->..." z w))',
    lambda x, y, z, w: (torch.einsum("...ij,...jk->...ik", x, y), torch.einsum("...i,i->...", z, w)),
    x=real(3, 1, 2, 2),
    y=real(2, 2, 3),
    z=real(1, 2, 3),
    w=real(3),
)
case(
    "einsum-ellipsis-ones",
    '(einsum "...i,...i->...i" x y)',
    lambda x, y: torch.einsum("...i,...i->...i", x, y),
    x=real(1, 1, 3),
    y=real(1, 3),
)
case(
    "einsum-empty", '(einsum "ij,jk->ik" x y)', lambda x, y: torch.einsum("ij,jk->ik", x, y), x=real(2, 0), y=real(0, 3)
)
case("einsum-integers", '(einsum "ij,j" i j)', lambda i, j: torch.einsum("ij,j", i, j), i=index(5, 2, 3), j=index(5, 3))

# Windows: x, w, options in both languages
CONVOLUTIONS: tuple[tuple[str, Any, Any, str, dict[str, Any]], ...] = (
    ("plain", (2, 3, 5, 4), (4, 3, 2, 3), "", {}),
    ("padding", (1, 2, 4, 4), (3, 2, 3, 3), " :padding 1", {"padding": 1}),
    ("padding-list", (1, 2, 4, 3), (2, 2, 3, 1), " :padding '(2 0)", {"padding": (2, 0)}),
    ("same", (1, 2, 5, 4), (2, 2, 3, 2), " :padding :same", {"padding": "same"}),
    ("same-dilated", (1, 1, 5, 4), (2, 1, 2, 2), " :padding :same :dilation '(2 1)",
     {"padding": "same", "dilation": (2, 1)}),
    ("stride", (2, 2, 7, 6), (3, 2, 3, 2), " :stride '(2 3)", {"stride": (2, 3)}),
    ("dilation", (1, 2, 7, 6), (2, 2, 3, 2), " :dilation '(2 3)", {"dilation": (2, 3)}),
    ("groups", (2, 4, 3, 3), (6, 2, 2, 2), " :groups 2", {"groups": 2}),
    ("depthwise", (1, 3, 4, 4), (6, 1, 3, 3), " :groups 3 :padding 1", {"groups": 3, "padding": 1}),
    ("all", (2, 4, 7, 8), (4, 2, 3, 2), " :stride 2 :padding '(2 1) :dilation '(1 2) :groups 2",
     {"stride": 2, "padding": (2, 1), "dilation": (1, 2), "groups": 2}),
    ("one", (2, 3, 2, 2), (4, 3, 1, 1), "", {}),
    ("line", (2, 3, 6), (4, 3, 3), "", {}),
    ("line-all", (1, 4, 9), (2, 2, 3), " :stride 2 :padding 3 :dilation 2 :groups 2",
     {"stride": 2, "padding": 3, "dilation": 2, "groups": 2}),
    ("line-same", (1, 2, 5), (2, 2, 4), " :padding :same", {"padding": "same"}),
    ("no-rows", (0, 2, 4), (3, 2, 2), "", {}),
)  # fmt: skip
for name, x_shape, w_shape, options, given in CONVOLUTIONS:
    function = F.conv2d if len(x_shape) == 4 else F.conv1d
    case(
        f"conv-{name}",
        f"(conv x w{options})",
        lambda x, w, f=function, g=given: f(x, w, **g),
        x=real(*x_shape),
        w=real(*w_shape),
    )
case(
    "conv-causal",
    "(conv x w :padding '((2 0)))",
    lambda x, w: F.conv1d(F.pad(x, (2, 0)), w),
    x=real(1, 2, 5),
    w=real(3, 2, 3),
)
case(
    "conv-same-strided",
    "(conv x w :padding :same :stride 2)",
    lambda x, w: F.conv2d(F.pad(x, (0, 1, 1, 1)), w, stride=2),
    x=real(1, 2, 5, 4),
    w=real(2, 2, 3, 3),
)
case(
    "conv-wide-stride", "(conv x w :stride 4)", lambda x, w: F.conv1d(x, w, stride=4), x=real(1, 1, 7), w=real(1, 1, 2)
)

POOLS: tuple[tuple[str, Any, str, Any, dict[str, Any]], ...] = (
    ("plain", (2, 2, 4, 6), "2", 2, {}),
    ("ragged", (1, 2, 5, 7), "2", 2, {}),
    ("stride", (1, 2, 5, 6), "3 :stride '(1 2)", 3, {"stride": (1, 2)}),
    ("padding", (1, 2, 5, 4), "'(3 2) :stride 2 :padding '(1 1)", (3, 2), {"stride": 2, "padding": (1, 1)}),
    ("gaps", (1, 1, 7, 7), "2 :stride 3", 2, {"stride": 3}),
    ("line", (2, 3, 7), "3 :stride 2 :padding 1", 3, {"stride": 2, "padding": 1}),
    ("one", (1, 2, 3), "1", 1, {}),
    ("no-rows", (0, 2, 4), "2", 2, {}),
)
for name, shape, options, window, given in POOLS:
    greatest, mean = (F.max_pool2d, F.avg_pool2d) if len(shape) == 4 else (F.max_pool1d, F.avg_pool1d)
    case(
        f"pool-max-{name}",
        f"(pool-max x {options})",
        lambda x, f=greatest, n=window, g=given: f(x, n, **g),
        x=few(*shape),
    )
    case(
        f"pool-avg-{name}",
        f"(pool-avg x {options})",
        lambda x, f=mean, n=window, g=given: f(x, n, count_include_pad=False, **g),
        x=real(*shape),
    )
case(
    "pool-max-infinite",
    "(pool-max x 2)",
    lambda x: F.max_pool1d(x, 2),
    x=exact([[[-float("inf"), -float("inf"), 1.0, -float("inf")]]]),
)
case(
    "pool-same",
    "(list (pool-max x 3 :stride 1 :padding :same) (pool-avg x 3 :stride 1 :padding :same))",
    lambda x: (F.max_pool2d(x, 3, 1, 1), F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)),
    x=real(1, 2, 3, 4),
)
