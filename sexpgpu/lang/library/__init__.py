"""The standard functions, one module a chapter; `standard_libraries` gives all of them."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from sexpgpu.lang.builtin import Library

CHAPTERS: Final = (
    "arithmetic",
    "arrays",
    "association",
    "characters",
    "conses",
    "equality",
    "floats",
    "functions",
    "hashtables",
    "integers",
    "mapping",
    "numbers",
    "printing",
    "searching",
    "sequences",
    "sorting",
    "strings",
    "structures",
    "subtypes",
    "symbols",
    "types",
    "variables",
)


def standard_libraries() -> tuple[Library, ...]:
    """Every chapter of the standard library, for `Session.install`; imported when a session is made."""
    return tuple(import_module(f"{__name__}.{chapter}").library for chapter in CHAPTERS)
