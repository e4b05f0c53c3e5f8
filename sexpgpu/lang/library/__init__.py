"""The standard functions, one module a chapter; `standard_libraries` gives all of them."""

from __future__ import annotations

from sexpgpu.lang.builtin import Library


def standard_libraries() -> tuple[Library, ...]:
    """Every chapter of the standard library, for `Session.install`."""
    from sexpgpu.lang.library import (
        arithmetic,
        arrays,
        association,
        characters,
        conses,
        equality,
        floats,
        functions,
        hashtables,
        integers,
        mapping,
        numbers,
        printing,
        searching,
        sequences,
        sorting,
        strings,
        structures,
        symbols,
        types,
    )

    chapters = (
        arithmetic,
        arrays,
        association,
        characters,
        conses,
        equality,
        floats,
        functions,
        hashtables,
        integers,
        mapping,
        numbers,
        printing,
        searching,
        sequences,
        sorting,
        strings,
        structures,
        symbols,
        types,
    )
    return tuple(chapter.library for chapter in chapters)
