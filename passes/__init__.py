"""Passes over modules of the `sx` dialect: one file a pass, the file's name is the pass's name.

`PASSES` imports each when it is asked for; `PIPELINES` names the lists that the driver runs. The folder stands at
the top of the tree and is part of the package; importing it under its bare name would make a second copy of every
class, so that is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sexpgpu.passes.base import Pass

if __name__ != "sexpgpu.passes":
    raise ImportError("import sexpgpu.passes, not passes: a second copy of its classes would not match the first")


def _lazily(name: str) -> Callable[[], type[Pass]]:
    def load() -> type[Pass]:
        class_name = "".join(part.capitalize() for part in name.split("-"))
        file = "raise_" if name == "raise" else name.replace("-", "_")  # Python reserves the word
        found: type[Pass] = getattr(import_module(f"sexpgpu.passes.{file}"), class_name)
        return found

    return load


PASSES: dict[str, Callable[[], type[Pass]]] = {
    name: _lazily(name)
    for name in (
        "verify",
        "simplify",
        "step-sums",
        "prefixes",
        "precision",
        "raise",
        "autodiff",
        "accumulate",
        "recompute",
        "stack",
        "place-casts",
        "parameter-results",
        "fuse",
        "schedule",
        "plan-memory",
        "to-gpu",
        "to-nvvm",
        "to-ptx",
    )
}

PIPELINES: dict[str, tuple[str, ...]] = {
    "shared": (
        "sx-step-sums",
        "sx-prefixes",
        "sx-simplify",
        "sx-precision",
        "sx-raise",
        "sx-autodiff",
        "sx-accumulate",
        "sx-recompute",
        "sx-simplify",
    ),
    # What each device adds: it groups, orders and lays out for itself.
    "cpu": ("sx-fuse", "sx-schedule", "sx-plan-memory"),
    "cuda": (
        "sx-stack",
        "sx-place-casts",
        "sx-parameter-results",
        "sx-fuse=target=cuda",
        "sx-schedule",
        "sx-to-gpu",
        "sx-plan-memory=target=cuda",
        "sx-to-nvvm",
        "sx-to-ptx",
    ),
    # All that can find a fault; what is left to simplify afterwards would only be thrown away.
    "check": ("sx-step-sums", "sx-simplify", "sx-autodiff"),
}
