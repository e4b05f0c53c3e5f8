"""What the reader gives, and what it holds while a form is still open."""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen

from sexpgpu.diag import Diagnostic
from sexpgpu.lang.forms import Source


@frozen
class ReadForm:
    """A top-level form. `fault` is the first error reported inside it; `read_eval` says that it holds a `#.`.

    `torn` says that the error hid the rest of the text: a string or comment that never ends.
    """

    datum: Any
    source: Source
    start: int
    end: int
    fault: Diagnostic | None = None
    read_eval: bool = False
    torn: bool = False


@define
class OpenForm:
    """A list, vector or prefix (`'`, `#+`...) whose end has not come yet."""

    kind: str
    start: int
    items: list[Any] = field(factory=list)
    places: list[tuple[int, int]] = field(factory=list)
    dot: int | None = None  # how many items stood before the dot
