"""What is known of the functions compiled from Lisp, found again from the name Python reports errors with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sexpgpu.diag import Span
from sexpgpu.lang.builtin import Parameters


class FunctionInfo:
    """Name, parameters and place of one lambda; `label` is its Python name, `mlp#12`."""

    __slots__ = ("doc", "label", "name", "parameters", "span")

    def __init__(self, name: str, parameters: Parameters, span: Span | None, doc: str | None = None) -> None:
        self.name = name
        self.parameters = parameters
        self.span = span
        self.doc = doc
        self.label = f"{name}#{_scopes[-1]}{next(_numbers[-1])}"
        _infos[self.label] = self


_scopes: Final = [""]
_numbers: Final = [itertools.count(1)]
_infos: Final[dict[str, FunctionInfo]] = {}


@contextmanager
def labelled(scope: str) -> Iterator[None]:
    """Labels that begin with `scope`, which are the same in every process; no other function has them."""
    _scopes.append(f"{scope}.")
    _numbers.append(itertools.count(1))
    try:
        yield
    finally:
        _scopes.pop()
        _numbers.pop()


def register(info: FunctionInfo) -> None:
    """Make a record known that was made in another process."""
    _infos[info.label] = info


def info_of(label: str) -> FunctionInfo | None:
    """The record of a function by its Python name, qualified or not."""
    return _infos.get(label.rpartition("<locals>.")[2])


def info_of_function(function: Any) -> FunctionInfo | None:
    """The record of a function value that was made from Lisp; one that nothing has called yet is analysed for it."""
    waiting = (getattr(function, "__kwdefaults__", None) or {}).get("deferred")
    if waiting is not None:
        info: FunctionInfo = waiting.described()
        return info
    return _infos.get(getattr(function, "__name__", ""))
