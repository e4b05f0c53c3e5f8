"""Programs run with and without the pass `raise`: what it found, and the values and gradients of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context, open_context
from sexpgpu.dialects.opdef import Array, Composite, numpy_dtype, parse_type
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import op_name
from sexpgpu.dialects.signature import write_signature
from sexpgpu.experiment import Input, Output
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.autodiff import Autodiff
from sexpgpu.passes.base import Pass, run_pipeline
from sexpgpu.passes.precision import Precision
from sexpgpu.passes.raise_ import Raise
from sexpgpu.passes.simplify import Simplify
from sexpgpu.passes.verify import Verify
from sexpgpu.tensortype import TensorType
from tests.building import function

Build = Callable[..., Val]
NAMED = ("softmax", "log_softmax", "logsumexp", "gelu", "silu", "sigmoid", "softplus")


@frozen
class Outcome:
    """Composites after the pass, what it said of them, and (loss, gradients) with it and without."""

    composites: tuple[str, ...]
    forms: tuple[str, ...]
    fell_back: tuple[str, ...]
    did: str
    raised: tuple[Array, ...]
    plain: tuple[Array, ...]
    text: str

    def require_equal(self, tolerance: float) -> None:
        assert len(self.raised) == len(self.plain)
        for value, wanted in zip(self.raised, self.plain, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance)


def outcome(
    build: Build,
    *types: str,
    below: int = 3,
    domain: tuple[float, float] = (-2.0, 2.0),
    policy: str = "f32",
) -> Outcome:
    """Run `build(b, *values)`; float inputs are parameters, integers lie in range(`below`), bools are coin throws.

    The loss is the result weighed with fixed numbers, so that every element of it matters.
    """
    kinds = [parse_type(text) for text in types]
    rng = np.random.default_rng(7)
    arrays = [_drawn(rng, kind, below, domain) for kind in kinds]
    runs = []
    for passes in ([Raise()], []):
        with open_context() as context:
            module = _module(context, kinds, build)
            func = module.body.operations[0]
            pipeline: list[Pass] = [Simplify(), Precision(policy=policy), *passes, Verify()]
            timings = run_pipeline(module, context, pipeline)
            ops = [op.operation for op in func.regions[0].blocks[0].operations]
            found = tuple(op_name(op) for op in ops if _is_composite(op_name(op)))
            said = [tuple(_texts(ops, f"sx.{what}")) for what in ("as", "fell_back")]
            text = str(module)
            run_pipeline(module, context, [Autodiff(), Simplify(), Verify()])
            with np.errstate(all="ignore"):
                values = tuple(np.array(v) for v in evaluate(func, arrays))
            runs.append((found, said, timings[2].did, values, text))
    (found, (forms, fell_back), did, raised, text), (_, _, _, plain, _) = runs
    return Outcome(found, forms, fell_back, did, raised, plain, text)


def _is_composite(name: str) -> bool:
    return name in NAMED or (name in OPS and isinstance(OPS[name].kind, Composite))


def _texts(ops: list[Any], key: str) -> list[str]:
    return [ir.StringAttr(op.attributes[key]).value for op in ops if key in op.attributes]


def _module(context: Context, kinds: list[TensorType], build: Build) -> Any:
    def weighed(b: Builder, values: list[Val]) -> list[Val]:
        out = build(b, *values)
        weights = np.random.default_rng(3).uniform(-1, 1, out.type.shape).astype(numpy_dtype(out.type.dtype))
        axes = tuple(range(out.type.rank))
        return [b("sum", out * b.constant(weights, out.type), axes=axes, keepdims=False)]

    module = function(context, kinds, weighed)
    inputs = [Input("param" if kind.is_float else "field", f"x{i}", kind) for i, kind in enumerate(kinds)]
    func = module.body.operations[0]
    returned = list(func.regions[0].blocks[0].operations)[-1].operands[0]
    loss = TensorType((), next(k.dtype for k in kinds if k.is_float))
    assert str(returned.type) == str(context.type(loss))
    write_signature(func, inputs, [Output("loss", "loss", loss)])
    return module


def _drawn(rng: np.random.Generator, kind: TensorType, below: int, domain: tuple[float, float]) -> Array:
    if kind.is_float:
        return rng.uniform(*domain, kind.shape).astype(numpy_dtype(kind.dtype))
    if kind.dtype == "bool":
        return rng.uniform(size=kind.shape) < 0.7
    return rng.integers(0, below, kind.shape).astype(numpy_dtype(kind.dtype))
