"""Chapter 15, arrays: simple vectors, strings, vectors with fill pointers and arrays of any rank."""

from __future__ import annotations

import math
from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import MV, NIL, Array, Symbol, T, boolean, character, lisp_list, symbol
from sexpgpu.lang.library.access import items_of, items_of_list, join
from sexpgpu.lang.library.check import index_error, integer, size, spend_on_new, wrong_type
from sexpgpu.lang.library.mapping import immutable

library = Library("arrays")


@library.builtin("vector", "(&rest items)")
def vector(*items: Any) -> Any:
    return list(items)


def _dimensions_argument(value: Any) -> tuple[int, ...]:
    if type(value) is int:
        return (size("make-array", 1, value),)
    dims = tuple(size("make-array", 1, extent) for extent in items_of_list("make-array", 1, value))
    size("make-array", 1, math.prod(dims))
    if len(dims) > 64:
        raise error("E-LIMIT-003", f"make-array: {len(dims)} dimensions are more than the 64 allowed")
    return dims


@library.builtin(
    "make-array",
    "(dimensions &key element-type initial-element initial-contents adjustable fill-pointer"
    " displaced-to displaced-index-offset)",
)
def make_array(
    dimensions: Any,
    *,
    element_type: Any = T,
    initial_element: Any = None,
    initial_contents: Any = None,
    adjustable: Any = NIL,
    fill_pointer: Any = NIL,
    **displaced: Any,
) -> Any:
    """A vector or array; elements not said otherwise are 0."""
    if any(value is not NIL for value in displaced.values()):
        raise error("E-VALUE-006", "make-array: displaced arrays are not supported", help="use subseq or replace")
    dims = _dimensions_argument(dimensions)
    spend_on_new(math.prod(dims))
    textual = _is_textual(element_type)
    if initial_contents is None:
        blank = (character(" ") if textual else 0) if initial_element is None else initial_element
        items = [blank] * math.prod(dims)
    else:
        items = []
        _contents(initial_contents, dims, 0, items)
    if textual and len(dims) == 1:
        if fill_pointer is not NIL or adjustable is not NIL:
            raise error(
                "E-TYPE-003",
                "make-array: strings cannot be changed, so there are none with a fill pointer",
                help="collect the text with (with-output-to-string (out) ...)",
            )
        return join("make-array", items)
    if fill_pointer is not NIL and len(dims) != 1:
        raise error("E-VALUE-006", "make-array: only a vector of one dimension has a fill pointer")
    if len(dims) == 1 and fill_pointer is NIL and adjustable is NIL:
        return items
    fill: int | None = None
    if fill_pointer is not NIL:
        fill = len(items) if fill_pointer is T else integer("make-array", 1, fill_pointer, "an integer")
        if not 0 <= fill <= len(items):
            raise index_error("make-array", fill, "a vector", len(items) + 1)
    return Array(dims, items, fill, adjustable is not NIL)


def _is_textual(kind: Any) -> bool:
    """Whether arrays of an element type are strings."""
    return isinstance(kind, Symbol) and kind.name in ("character", "base-char", "standard-char")


def _contents(value: Any, dims: tuple[int, ...], axis: int, items: list[Any]) -> None:
    if axis == len(dims):
        items.append(value)
        return
    parts = items_of("make-array", 1, value)
    if len(parts) != dims[axis]:
        raise error(
            "E-VALUE-003",
            f"make-array: axis {axis} of :initial-contents has {len(parts)} elements instead of {dims[axis]}",
        )
    for part in parts:
        _contents(part, dims, axis + 1, items)


@library.builtin("%read-array", "(rank contents)")
def read_array(rank: Any, contents: Any) -> Any:
    """The array that `#nA` spells; its dimensions are those of the first parts."""
    dims: list[int] = []
    part = contents
    for _ in range(rank):
        parts = items_of("#nA", 1, part)
        dims.append(len(parts))
        part = parts[0] if parts else NIL
    items: list[Any] = []
    _contents(contents, tuple(dims), 0, items)
    return items if rank == 1 else Array(tuple(dims), items)


def dimensions_of(name: str, array: Any) -> tuple[int, ...]:
    """The dimensions of any array; those of a vector with a fill pointer are its full size."""
    if isinstance(array, Array):
        return array.dims
    if isinstance(array, str | list):
        return (len(array),)
    raise wrong_type(name, 1, array, "an array")


def _row_major(name: str, array: Any, subscripts: tuple[Any, ...]) -> int:
    dims = dimensions_of(name, array)
    if len(subscripts) != len(dims):
        raise error("E-ARG-004", f"{name}: {len(subscripts)} subscripts for an array of {len(dims)} dimensions")
    offset = 0
    for axis, (subscript, extent) in enumerate(zip(subscripts, dims, strict=True)):
        if type(subscript) is not int:
            raise wrong_type(name, axis + 2, subscript, "an integer")
        if not 0 <= subscript < extent:
            what = "a vector" if len(dims) == 1 else f"axis {axis}"
            raise index_error(name, subscript, what, extent, axis + 2)
        offset = offset * extent + subscript
    return offset


@library.builtin("aref", "(array &rest subscripts)")
def aref(array: Any, *subscripts: Any) -> Any:
    if type(array) is list and len(subscripts) == 1:
        index = subscripts[0]
        if type(index) is int and 0 <= index < len(array):
            return array[index]
    offset = _row_major("aref", array, subscripts)
    if type(array) is str:
        return character(array[offset])
    return (array.items if isinstance(array, Array) else array)[offset]


@library.builtin("(setf aref)", "(new array &rest subscripts)")
def set_aref(new: Any, array: Any, *subscripts: Any) -> Any:
    if type(array) is str:
        raise immutable("(setf aref)")
    offset = _row_major("(setf aref)", array, subscripts)
    (array.items if isinstance(array, Array) else array)[offset] = new
    return new


@library.builtin("svref", "(vector index)")
def svref(array: Any, index: Any) -> Any:
    if type(array) is not list:
        raise wrong_type("svref", 1, array, "a simple vector")
    return array[_row_major("svref", array, (index,))]


@library.builtin("(setf svref)", "(new vector index)")
def set_svref(new: Any, array: Any, index: Any) -> Any:
    if type(array) is not list:
        raise wrong_type("(setf svref)", 2, array, "a simple vector")
    array[_row_major("(setf svref)", array, (index,))] = new
    return new


@library.builtin("row-major-aref", "(array index)")
def row_major_aref(array: Any, index: Any) -> Any:
    total = math.prod(dimensions_of("row-major-aref", array))
    if type(index) is not int or not 0 <= index < total:
        raise index_error("row-major-aref", index, "an array", total)
    if type(array) is str:
        return character(array[index])
    return (array.items if isinstance(array, Array) else array)[index]


@library.builtin("(setf row-major-aref)", "(new array index)")
def set_row_major_aref(new: Any, array: Any, index: Any) -> Any:
    if type(array) is str:
        raise immutable("(setf row-major-aref)")
    row_major_aref(array, index)
    (array.items if isinstance(array, Array) else array)[index] = new
    return new


@library.builtin("array-rank", "(array)")
def array_rank(array: Any) -> Any:
    return len(dimensions_of("array-rank", array))


@library.builtin("array-dimensions", "(array)")
def array_dimensions(array: Any) -> Any:
    return lisp_list(dimensions_of("array-dimensions", array))


@library.builtin("array-dimension", "(array axis)")
def array_dimension(array: Any, axis: Any) -> Any:
    dims = dimensions_of("array-dimension", array)
    if type(axis) is not int or not 0 <= axis < len(dims):
        raise index_error("array-dimension", axis, "the dimensions", len(dims))
    return dims[axis]


@library.builtin("array-total-size", "(array)")
def array_total_size(array: Any) -> Any:
    return math.prod(dimensions_of("array-total-size", array))


@library.builtin("array-in-bounds-p", "(array &rest subscripts)")
def array_in_bounds_p(array: Any, *subscripts: Any) -> Any:
    dims = dimensions_of("array-in-bounds-p", array)
    return boolean(
        len(subscripts) == len(dims)
        and all(type(s) is int and 0 <= s < d for s, d in zip(subscripts, dims, strict=True))
    )


@library.builtin("array-row-major-index", "(array &rest subscripts)")
def array_row_major_index(array: Any, *subscripts: Any) -> Any:
    return _row_major("array-row-major-index", array, subscripts)


@library.builtin("array-has-fill-pointer-p", "(array)")
def array_has_fill_pointer_p(array: Any) -> Any:
    dimensions_of("array-has-fill-pointer-p", array)
    return boolean(isinstance(array, Array) and array.fill is not None)


@library.builtin("adjustable-array-p", "(array)")
def adjustable_array_p(array: Any) -> Any:
    dimensions_of("adjustable-array-p", array)
    return boolean(isinstance(array, Array) and array.adjustable)


@library.builtin("array-element-type", "(array)")
def array_element_type(array: Any) -> Any:
    dimensions_of("array-element-type", array)
    return symbol("character") if type(array) is str else T


@library.builtin("upgraded-array-element-type", "(type &optional environment)")
def upgraded_array_element_type(kind: Any, environment: Any = NIL) -> Any:
    """`character`, as strings have it, or t."""
    return symbol("character") if _is_textual(kind) else T


@library.builtin("array-displacement", "(array)", many=True)
def array_displacement(array: Any) -> Any:
    """nil and 0: no array is displaced."""
    dimensions_of("array-displacement", array)
    return MV((NIL, 0))


@library.builtin(
    "adjust-array",
    "(array dimensions &key initial-element initial-contents fill-pointer element-type"
    " displaced-to displaced-index-offset)",
)
def adjust_array(
    array: Any,
    dimensions: Any,
    *,
    initial_element: Any = 0,
    initial_contents: Any = None,
    fill_pointer: Any = NIL,
    element_type: Any = T,
    **displaced: Any,
) -> Any:
    """An array of other dimensions with the old elements where both have a place; in place if adjustable."""
    if type(array) is str:
        raise immutable("adjust-array")
    if any(value is not NIL for value in displaced.values()):
        raise error("E-VALUE-006", "adjust-array: displaced arrays are not supported", help="use subseq or replace")
    old = dimensions_of("adjust-array", array)
    dims = _dimensions_argument(dimensions)
    if len(dims) != len(old):
        raise error("E-VALUE-006", f"adjust-array: an array of {len(old)} dimensions keeps that many")
    items: list[Any] = []
    if initial_contents is not None:
        _contents(initial_contents, dims, 0, items)
    else:
        source = array.items if isinstance(array, Array) else array
        items = [_adjusted(index, dims, old, source, initial_element) for index in range(math.prod(dims))]
    if not isinstance(array, Array):
        return items
    fill = array.fill
    if fill is None and fill_pointer is not NIL:
        raise error("E-VALUE-006", "adjust-array: the array has no fill pointer")
    if fill is not None:
        fill = len(items) if fill_pointer is T else fill if fill_pointer is NIL else fill_pointer
        if type(fill) is not int or not 0 <= fill <= len(items):
            raise index_error("adjust-array: the fill pointer", fill, "a vector", len(items) + 1)
    if not array.adjustable:
        return Array(dims, items, fill, False)
    array.dims, array.items, array.fill = dims, items, fill
    return array


def _adjusted(index: int, dims: tuple[int, ...], old: tuple[int, ...], source: list[Any], blank: Any) -> Any:
    offset, scale = 0, 1
    for extent, before in zip(reversed(dims), reversed(old), strict=True):
        index, subscript = divmod(index, extent)
        if subscript >= before:
            return blank
        offset += subscript * scale
        scale *= before
    return source[offset]
