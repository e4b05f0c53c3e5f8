"""The tensor functions of the language, one library a chapter of the documentation."""

from sexpgpu.lang.builtin import Library
from sexpgpu.trace.builtins import (
    control,
    create,
    declare,
    elementwise,
    index,
    learn,
    movement,
    observe,
    optimize,
    product,
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
    control.library,
    observe.library,
    learn.library,
    optimize.library,
    sources.library,
    declare.library,
)
