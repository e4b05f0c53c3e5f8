"""Cases of derivatives of derivatives."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.golden.ops_arrays import top, updated
from tests.golden.references import case, positive, real


def attention(q: Any, k: Any) -> Any:
    """Causal self-attention by its formula: PyTorch's own has no second derivative."""
    scores = torch.where(torch.ones(q.shape[2], k.shape[2]).bool().tril(), q @ k.mT / q.shape[3] ** 0.5, -torch.inf)
    return scores.softmax(-1) @ k


def slope(f: Any, *tensors: Any) -> Any:
    """The gradient of f, itself differentiable."""
    return torch.autograd.grad(f(*tensors), tensors, create_graph=True)


for name, form, of, other in (
    (
        "conv",
        "(conv x w :stride 2 :padding 1 :groups 2)",
        lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=2),
        real(4, 2, 2, 2),
    ),
    ("pool-avg", "(pool-avg (* x w) 2 :stride 1)", lambda x, w: F.avg_pool2d(x * w, 2, 1), real(2, 4, 3, 4)),
    ("pool-max", "(pool-max (* x w) 2 :stride 1)", lambda x, w: F.max_pool2d(x * w, 2, 1), real(2, 4, 3, 4)),
    ("matmul", "(matmul x (transpose (car (split w 2 0))))", lambda x, w: x @ w[:1].mT, real(2, 4, 3, 4)),
    ("attend", "(attend x w w :causal t)", lambda x, w: attention(x, w), real(2, 4, 3, 4)),
):
    case(
        f"second-{name}",
        f"(grad (lambda (xw) (destructuring-bind (x w) xw (sum (expt {form} 3)))) (list x w))",
        lambda x, w, f=of: slope(lambda *t: (f(*t) ** 3).sum(), x, w),
        x=real(2, 4, 3, 4),
        w=other,
    )
SECOND: tuple[tuple[str, str, Any, Any], ...] = (
    ("sort", "(expt (sort (* x x) :axis 0) 2)", lambda x: (x * x).sort(0)[0] ** 2, real(3, 4)),
    ("top-k", "(expt (top-k (* x x) 2) 2)", lambda x: top(x * x, 2)[0] ** 2, real(3, 4)),
    ("gather", "(expt (gather x (constant '(0 2 0))) 3)", lambda x: x[[0, 2, 0]] ** 3, real(3, 2)),
    ("softmax", "(square (softmax (expt x 2)))", lambda x: (x**2).softmax(-1) ** 2, real(2, 3)),
    ("logsumexp", "(expt (logsumexp x :axis 0) 2)", lambda x: x.logsumexp(0) ** 2, real(2, 3)),
    ("prod", "(expt (prod x :axis 0) 2)", lambda x: x.prod(0) ** 2, real(3, 2)),
    ("cumsum", "(expt (cumsum x) 3)", lambda x: x.cumsum(-1) ** 3, real(2, 3)),
    ("expt", "(expt x 2.5)", lambda x: x**2.5, positive(4)),
    ("gelu", "(gelu x)", F.gelu, real(4)),
    ("gelu-tanh", "(gelu x :approximate :tanh)", lambda x: F.gelu(x, approximate="tanh"), real(4)),
    ("silu", "(silu x)", F.silu, real(4)),
    ("softplus", "(softplus x)", F.softplus, real(4)),
    ("erf", "(erf x)", torch.erf, real(4)),
    ("divide", "(/ x (+ 2 (square x)))", lambda x: x / (2 + x**2), real(4)),
    ("rsqrt", "(rsqrt x)", torch.rsqrt, positive(4)),
    ("einsum", '(expt (einsum "ii,ij->j" x x) 2)', lambda x: torch.einsum("ii,ij->j", x, x) ** 2, real(3, 3)),
    ("update", "(expt (index-update x (constant '(1 1)) (slice (* x x) 0 0 2)) 2)",
     lambda x: updated(x, torch.tensor([1, 1]), (x * x)[:2]) ** 2, real(3, 2)),
)  # fmt: skip
for name, form, of, drawn in SECOND:
    case(
        f"second-{name}", f"(grad (lambda (x) (sum {form})) x)", lambda x, f=of: slope(lambda t: f(t).sum(), x), x=drawn
    )
