"""Cases of control inside graphs: loops, checkpoints, gradients."""

from __future__ import annotations

from typing import Any

import torch

from tests.golden.references import case, positive, real


def recurrence(w: Any, h: Any, xs: Any, reverse: bool = False) -> Any:
    """A loop of h <- tanh(w h + x), and the states it passes, where their x lay."""
    outs = []
    for x in reversed(xs.unbind(0)) if reverse else xs.unbind(0):
        h = torch.tanh(w @ h + x)
        outs.append(h)
    return h, torch.stack(list(reversed(outs)) if reverse else outs)


BODY = "(lambda (h x) (let ((n (tanh (+ (matmul w h) x)))) (values n n)))"
case("scan", f"(scan {BODY} h x)", recurrence, w=real(2, 2), h=real(2), x=real(4, 2))
case(
    "scan-reverse",
    f"(scan {BODY} h x :reverse t)",
    lambda w, h, x: recurrence(w, h, x, reverse=True),
    w=real(2, 2),
    h=real(2),
    x=real(3, 2),
)
case(
    "scan-axis",
    f"(scan {BODY} h x :axis -1)",
    lambda w, h, x: tuple(y.mT if y.dim() > 1 else y for y in recurrence(w, h, x.mT)),
    w=real(2, 2),
    h=real(2),
    x=real(2, 3),
)
case(
    "scan-lists",
    """(scan (lambda (s x) (destructuring-bind (a b) s (values (list b (+ (* a (car x)) (cadr x))) (* a b))))
         (list a b) (list x y))""",
    lambda *t: pairs(*t),
    a=real(),
    b=real(),
    x=real(4),
    y=real(4),
)


def pairs(a: Any, b: Any, x: Any, y: Any) -> Any:
    outs = []
    for one, other in zip(x.unbind(0), y.unbind(0), strict=True):
        outs.append(a * b)
        a, b = b, a * one + other
    return a, b, torch.stack(outs)


def prefixes(x: Any) -> Any:
    found = [x[0]]
    for each in x[1:]:
        found.append(found[-1] @ each)
    return torch.stack(found)


for size in (1, 2, 5):
    case(f"associative-scan-{size}", "(associative-scan #'matmul x)", prefixes, x=real(size, 2, 2))
case("associative-scan-axis", "(associative-scan #'* x :axis -1)", lambda x: x.cumprod(-1), x=positive(2, 5))
case(
    "checkpoint",
    "(checkpoint (let ((y (exp x))) (sum (* y y w) :axis 0)))",
    lambda x, w: (x.exp() ** 2 * w).sum(0),
    x=real(3, 2),
    w=real(2),
)
case("grad", "(grad (lambda (y) (sum (* y y y w))) x)", lambda x, w: 3 * x**2 * w, x=real(3), w=real(3))
case(
    "grad-twice",
    "(grad (lambda (y) (sum (grad (lambda (z) (sum (exp (* z w)))) y))) x)",
    lambda x, w: w**2 * torch.exp(x * w),
    x=real(3),
    w=real(3),
)
