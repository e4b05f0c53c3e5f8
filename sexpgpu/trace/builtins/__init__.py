"""The tensor functions of the language, one library a chapter of the documentation."""

from sexpgpu.lang.builtin import Library
from sexpgpu.trace.builtins import (
    create,
    declare,
    elementwise,
    index,
    learn,
    movement,
    observe,
    product,
    optimize,
    reduction,
    sources,
)

LIBRARIES: tuple[Library, ...] = (
    create.library,
    elementwise.library,
    movement.library,
    reduction.library,
    product.library,
    index.library,
    observe.library,
    learn.library,
    sources.library,
    declare.library,
    optimize.library,
)
