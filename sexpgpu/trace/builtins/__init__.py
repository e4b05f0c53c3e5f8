"""The tensor functions of the language, one library a chapter of the documentation."""

from sexpgpu.lang.builtin import Library
from sexpgpu.trace.builtins import (
    augment,
    control,
    create,
    declare,
    einsum,
    elementwise,
    expect,
    index,
    learn,
    loaders,
    movement,
    observe,
    optimize,
    product,
    reduction,
    sources,
    windows,
)

LIBRARIES: tuple[Library, ...] = (
    expect.library,
    create.library,
    augment.library,
    elementwise.library,
    movement.library,
    reduction.library,
    product.library,
    einsum.library,
    windows.library,
    index.library,
    control.library,
    observe.library,
    learn.library,
    optimize.library,
    sources.library,
    loaders.library,
    declare.library,
)
