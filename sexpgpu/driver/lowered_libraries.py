"""What the lowering report says of libraries: the calls that each could compute, and which of them is not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec

from sexpgpu.driver.compile import Compilation
from sexpgpu.driver.explain_text import plural
from sexpgpu.driver.lowered import functions_of
from sexpgpu.gpu.library import cublaslt, cudnn
from sexpgpu.passes.flow import operations_of
from sexpgpu.passes.gpu.calls import Groups
from sexpgpu.plan.library import AttentionGraph, ConvolutionGraph, Library, ProductGraph

_SHOWN: dict[type[Library], tuple[str, str]] = {
    AttentionGraph: ("attention", "cuDNN"),
    ProductGraph: ("products", "cublasLt"),
    ConvolutionGraph: ("convolutions", "cuDNN"),
}
"""What graphs of a kind are called, and the library that has them."""
_PACKAGES = {"cudnn": cudnn.NOT_INSTALLED, "nvmath": cublaslt.NOT_INSTALLED}
NAME = "library"


def library_calls(done: Compilation) -> Iterator[tuple[str, str]]:
    """Of each kind of graph, how many calls a library could compute. It says nothing of this machine."""
    found: Counter[type[Library]] = Counter()
    groups = Groups(done.module.operation)
    for _, func in functions_of(done):
        for op in operations_of(func)[:-1]:
            called = groups.called(op)
            if called is not None and called.launches is not None and called.launches.library is not None:
                found[type(called.launches.library)] += 1
    for kind, (name, library) in _SHOWN.items():
        if found[kind]:
            yield name, f"{plural(found[kind], 'call')} by {library} or own kernels, as a GPU measures them"


def not_installed() -> Iterator[tuple[str, str]]:
    """A note for each library whose bindings are not installed here."""
    for package, reason in _PACKAGES.items():
        if find_spec(package) is None:
            yield absent(reason)


def absent(reason: str) -> tuple[str, str]:
    """The note that a library is not there, for a reason."""
    return NAME, f"{reason}: own kernels"
