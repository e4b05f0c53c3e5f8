"""Cases of the elementwise operations and the reductions."""

from __future__ import annotations

import math
from typing import Any

import torch

from tests.golden.references import case, exact, few, index, positive, real, truth, within

x23, none = real(2, 3), real(0, 3)

# name, form over x, reference, where x is drawn from
UNARY: tuple[tuple[str, str, Any, Any], ...] = (
    ("negate", "(- x)", torch.neg, x23),
    ("identity", "(list (+ x) (* x) (max x) (min x))", lambda x: (x, x, x, x), x23),
    ("reciprocal", "(/ x)", torch.reciprocal, positive(2, 3)),
    ("one-more", "(list (1+ x) (1- x))", lambda x: (x + 1, x - 1), x23),
    ("abs", "(abs x)", torch.abs, few(2, 3)),
    ("sign", "(list (sign x) (signum x))", lambda x: (torch.sign(x), torch.sign(x)), few(2, 3)),
    ("exp", "(exp x)", torch.exp, x23),
    ("expm1", "(expm1 x)", torch.expm1, exact([1e-9, -1e-9, 0.0, 1.0, -2.0])),
    ("log", "(log x)", torch.log, positive(2, 3)),
    ("log-base", "(list (log x 2) (log x 10.0))", lambda x: (torch.log2(x), torch.log10(x)), positive(4)),
    ("log1p", "(log1p x)", torch.log1p, exact([1e-9, -1e-9, 0.0, 1.0, -0.5])),
    ("sqrt", "(sqrt x)", torch.sqrt, positive(2, 3)),
    ("rsqrt", "(rsqrt x)", torch.rsqrt, positive(2, 3)),
    ("sin-cos", "(list (sin x) (cos x))", lambda x: (torch.sin(x), torch.cos(x)), x23),
    ("tanh", "(tanh x)", torch.tanh, real(2, 3, scale=3)),
    ("sigmoid", "(sigmoid x)", torch.sigmoid, exact([-800.0, -30, -1, 0, 0.5, 30, 800])),
    ("erf", "(erf x)", torch.erf, real(3, 3, scale=2)),
    ("floor", "(floor x)", torch.floor, real(2, 3, scale=3)),
    ("ceiling", "(ceiling x)", torch.ceil, real(2, 3, scale=3)),
    ("round", "(round x)", torch.round, exact([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49])),
    (
        "quotients",
        "(list (floor x 0.75) (ceiling x 0.75) (round x 2))",
        lambda x: (torch.floor(x / 0.75), torch.ceil(x / 0.75), torch.round(x / 2)),
        real(5, scale=4),
    ),
    ("relu", "(relu x)", torch.relu, few(2, 3)),
    ("gelu", "(gelu x)", torch.nn.functional.gelu, real(2, 3, scale=3)),
    ("gelu-tanh", "(gelu x :approximate :tanh)",
     lambda x: torch.nn.functional.gelu(x, approximate="tanh"), real(2, 3, scale=3)),
    ("silu", "(silu x)", torch.nn.functional.silu, real(2, 3, scale=3)),
    ("softplus", "(softplus x)", lambda x: torch.logaddexp(x, torch.zeros_like(x)),
     exact([-800.0, -30, -1, 0, 0.5, 30, 800])),
    ("square", "(square x)", torch.square, x23),
    ("stop-gradient", "(* x (stop-gradient x))", lambda x: x * x.detach(), x23),
    ("isfinite", "(isfinite x)", torch.isfinite, exact([1.0, math.inf, -math.inf, math.nan, 1e308])),
    ("empty", "(list (exp x) (relu x) (gelu x))",
     lambda x: (torch.exp(x), torch.relu(x), torch.nn.functional.gelu(x)), none),
)  # fmt: skip
for name, form, reference, drawn in UNARY:
    case(name, form, reference, x=drawn)

BINARY: tuple[tuple[str, str, Any, Any, Any], ...] = (
    ("add", "(+ x y)", torch.add, x23, x23),
    ("add-broadcast", "(+ x y 1)", lambda x, y: x + y + 1, real(2, 1, 3), real(4, 1)),
    ("add-scalar", "(+ x y)", torch.add, real(), real(2, 2)),
    ("subtract", "(- x y 2.5)", lambda x, y: x - y - 2.5, real(3), real(2, 3)),
    ("multiply", "(* x y x)", lambda x, y: x * y * x, x23, real(3)),
    ("divide", "(/ x y)", torch.div, x23, positive(2, 1)),
    ("divide-number", "(list (/ x 4) (/ 2.0 y))", lambda x, y: (x / 4, 2 / y), x23, positive(2)),
    ("mod", "(mod x y)", torch.remainder, exact([5.5, -5.5, 0.75, -0.25]), exact([2.0, 2.0, 0.5, 0.5])),
    ("expt", "(expt x y)", torch.pow, positive(2, 3), x23),
    ("expt-at-zero", "(expt x y)", torch.pow, exact([0.0, 0.0, 0.0, 2.0]), exact([2.0, 1.0, 3.0, 0.0])),
    ("expt-zero-power", "(expt x y)", torch.pow, exact([0.0, 3.0]), exact([0.0, 0.0])),
    ("max", "(max x y)", torch.maximum, few(2, 3), few(3)),
    ("min", "(min x y)", torch.minimum, few(2, 3), few(3)),
    ("max-number", "(list (max x 0) (min y 1.0))",
     lambda x, y: (torch.maximum(x, torch.zeros(())), torch.minimum(y, torch.ones(()))), few(3), few(3)),
    ("empty-broadcast", "(+ x y)", torch.add, none, real(1, 3)),
)  # fmt: skip
for name, form, reference, one, other in BINARY:
    case(name, form, reference, x=one, y=other)

for name, power in (("0", 0), ("1", 1), ("2", 2), ("3", 3), ("5", 5), ("-1", -1), ("0.5", 0.5), ("2.0", 2.0)):
    case(f"expt-{name}", f"(expt x {power})", lambda x, p=power: x**p, x=positive(2, 3))
case("expt-negative-base", "(expt x 4)", lambda x: x**4, x=exact([-2.0, 0.0, 1.5]))
case("expt-number-base", "(expt 2.0 x)", lambda x: 2.0**x, x=x23)

case(
    "clip",
    "(list (clip x -0.7 0.7) (clip x nil 0.3) (clip x 0.1 nil))",
    lambda x: (torch.clamp(x, -0.7, 0.7), torch.clamp(x, max=0.3), torch.clamp(x, min=0.1)),
    x=x23,
)
case(
    "clip-tensors",
    "(clip x low high)",
    lambda x, a, b: torch.minimum(torch.maximum(x, a), b),
    x=real(3, 2),
    low=within(-1, -0.5, 2),
    high=within(0.5, 1, 3, 1),
)
case(
    "lerp",
    "(list (lerp x y 0.25) (lerp x y w))",
    lambda x, y, w: (torch.lerp(x, y, 0.25), torch.lerp(x, y, w)),
    x=x23,
    y=x23,
    w=within(0, 1, 2, 3),
)
case("where", "(where c x y)", torch.where, c=truth(2, 3), x=real(3), y=real(2, 1))
case("where-numbers", "(where (> x 0) x 0.0)", lambda x: torch.where(x > 0, x, 0.0), x=few(2, 3))
case("where-floats", "(where c 1.0 -2.5)", lambda c: torch.where(c, 1.0, -2.5).double(), c=truth(5))
case("where-empty", "(where c x 0)", lambda c, x: x, c=truth(0, 2), x=real(0, 2))
case(
    "compare",
    "(list (= x y) (/= x y) (< x y) (<= x y) (> x y) (>= x y))",
    lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y),
    x=few(2, 4),
    y=few(4),
)
case(
    "compare-chain",
    "(list (< -1 x 1) (= x y 0) (/= x y 1))",
    lambda x, y: ((x > -1) & (x < 1), (x == y) & (y == 0), (x != y) & (x != 1) & (y != 1)),
    x=few(6),
    y=few(6),
)
case(
    "compare-integers",
    "(list (= i 2) (< i j) (>= i j))",
    lambda i, j: (i == 2, i < j, i >= j),
    i=index(4, 6),
    j=index(4, 6),
)
case(
    "logical",
    "(list (logical-and p q) (logical-or p q) (logical-not p))",
    lambda p, q: (p & q, p | q, ~p),
    p=truth(2, 3),
    q=truth(3),
)
case(
    "integers",
    "(list (+ i j) (- i j) (* i 3) (max i j) (abs (- i j)) (mod i 3))",
    lambda i, j: (i + j, i - j, i * 3, torch.maximum(i, j), (i - j).abs(), i % 3),
    i=index(9, 5),
    j=index(9, 5),
)
case(
    "cast",
    "(list (cast x :i32) (cast p :float) (cast i :f64) (cast x :bool) (cast (cast x :i32) :u8))",
    lambda x, p, i: (x.int(), p.double(), i.double(), x != 0, x.int().to(torch.uint8)),
    x=exact([0.0, 2.75, 1.5, 250.0]),
    p=truth(3),
    i=index(9, 3),
)
case("cast-gradient", "(cast (* (cast x :f64) 2) :float)", lambda x: x * 2, x=x23)

# Reductions
for name, form, reference in (
    ("sum", "(sum x{})", torch.sum),
    ("mean", "(mean x{})", torch.mean),
    ("amax", "(amax x{})", torch.amax),
    ("amin", "(amin x{})", torch.amin),
):
    case(f"{name}-all", form.format(""), lambda x, f=reference: f(x, dim=(0, 1, 2)), x=few(2, 3, 2))
    case(f"{name}-axis", form.format(" :axis 1"), lambda x, f=reference: f(x, dim=1), x=few(2, 4, 2))
    case(
        f"{name}-negative",
        form.format(" :axis -1 :keepdims t"),
        lambda x, f=reference: f(x, dim=-1, keepdim=True),
        x=few(3, 4),
    )
    case(f"{name}-list", form.format(" :axis '(0 -1)"), lambda x, f=reference: f(x, dim=(0, -1)), x=few(3, 2, 4))
    case(f"{name}-scalar", form.format(""), lambda x: x.clone(), x=real())
    case(f"{name}-other-empty", form.format(" :axis 1"), lambda x, f=reference: f(x, dim=1), x=real(0, 2))
case(
    "sum-empty",
    "(list (sum x) (sum x :axis 0) (prod x :axis 0))",
    lambda x: (x.sum(), x.sum(0), x.prod(0)),
    x=real(0, 3),
)
case(
    "sum-others",
    "(list (sum p :axis 0) (sum u) (sum i))",
    lambda p, u, i: (p.sum(0).int(), u.sum().int(), i.sum().int()),
    p=truth(4, 2),
    u=index(256, 9, dtype="uint8"),
    i=index(9, 3),
)
case(
    "prod",
    "(list (prod x) (prod x :axis 0) (prod x :axis -1 :keepdims t))",
    lambda x: (x.prod(), x.prod(0), x.prod(-1, keepdim=True)),
    x=real(2, 3),
)
case("prod-zero", "(prod x :axis 1)", lambda x: x.prod(1), x=exact([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0], [2.0, 3.0, 4.0]]))
case("prod-list", "(prod x :axis '(0 2))", lambda x: x.prod(2).prod(0), x=real(2, 3, 2))
case("prod-integers", "(prod i :axis 1)", lambda i: i.prod(1).int(), i=index(5, 2, 3))
for ddof in (0, 1, 2):
    case(
        f"var-{ddof}",
        f"(list (var x :ddof {ddof}) (var x :axis 0 :ddof {ddof} :keepdims t) (var x :axis '(0 -1) :ddof {ddof}))",
        lambda x, d=ddof: (x.var(correction=d), x.var(0, correction=d, keepdim=True), x.var((0, -1), correction=d)),
        x=real(3, 2, 2),
    )
case("var-one", "(var x :axis 1)", lambda x: x.var(1, correction=0), x=real(3, 1))
case(
    "logsumexp",
    "(list (logsumexp x) (logsumexp x :axis 0 :keepdims t))",
    lambda x: (x.logsumexp(-1), x.logsumexp(0, keepdim=True)),
    x=real(2, 3, scale=20),
)
case(
    "logsumexp-list",
    "(list (logsumexp x :axis '(0 2)) (logsumexp x :axis nil) (logsumexp x :axis '(1 2) :keepdims t))",
    lambda x: (x.logsumexp((0, 2)), x.logsumexp((0, 1, 2)), x.logsumexp((1, 2), keepdim=True)),
    x=real(2, 3, 2),
)
case(
    "softmax", "(list (softmax x) (softmax x :axis 0))", lambda x: (x.softmax(-1), x.softmax(0)), x=real(3, 4, scale=9)
)
case(
    "softmax-infinite",
    "(softmax (where c x (- infinity)))",
    lambda c, x: torch.where(c, x, -math.inf).softmax(-1),
    c=exact([[True, True, False], [False, True, False]], bool),
    x=real(2, 3),
)
case(
    "softmax-list",
    "(list (softmax x :axis '(0 2)) (log-softmax x :axis '(1 -1)))",
    lambda x: (
        x.transpose(0, 1).reshape(3, 4).softmax(-1).reshape(3, 2, 2).transpose(0, 1),
        x.reshape(2, 6).log_softmax(-1).reshape(2, 3, 2),
    ),
    x=real(2, 3, 2),
)
case("softmax-one", "(list (softmax x) (log-softmax x))", lambda x: (x.softmax(-1), x.log_softmax(-1)), x=real(3, 1))
case(
    "softmax-empty",
    "(list (softmax x) (log-softmax x :axis 0))",
    lambda x: (x.softmax(-1), x.log_softmax(0)),
    x=real(0, 3),
)
case(
    "log-softmax",
    "(list (log-softmax x) (log-softmax x :axis 0))",
    lambda x: (x.log_softmax(-1), x.log_softmax(0)),
    x=real(3, 4, scale=9),
)
case(
    "cumsum",
    "(list (cumsum x) (cumsum x :axis 0) (cumsum x :axis -2 :reverse t))",
    lambda x: (x.cumsum(-1), x.cumsum(0), x.flip(-2).cumsum(-2).flip(-2)),
    x=real(3, 4),
)
case(
    "cumsum-others",
    "(list (cumsum i) (cumsum p))",
    lambda i, p: (i.cumsum(-1).int(), p.cumsum(-1).int()),
    i=index(9, 2, 3),
    p=truth(5),
)
case("cumsum-empty", "(cumsum x :axis 0)", lambda x: x.cumsum(0), x=real(0, 2))
case(
    "argmax",
    "(list (argmax x) (argmax x :axis 0) (argmin x :axis -2 :keepdims t) (argmin x))",
    lambda x: (x.argmax(-1).int(), x.argmax(0).int(), x.argmin(-2, keepdim=True).int(), x.argmin(-1).int()),
    x=exact([[1.0, 3, 3, 0], [2.0, 2, 2, 2], [0.0, 3, -1, -1]]),
)
case(
    "argmax-others",
    "(list (argmax i) (argmax p))",
    lambda i, p: (i.argmax(-1).int(), p.int().argmax(-1).int()),
    i=index(4, 3, 5),
    p=exact([[False, True, True], [False, False, False]], bool),
)
case(
    "any-all",
    "(list (any p) (all p) (any p :axis 0) (all p :axis -1 :keepdims t) (any p :axis '(0 1)))",
    lambda p: (p.any(), p.all(), p.any(0), p.all(-1, keepdim=True), p.any()),
    p=truth(3, 2),
)
case("any-all-empty", "(list (any p :axis 0) (all p :axis 0))", lambda p: (p.any(0), p.all(0)), p=truth(0, 2))
