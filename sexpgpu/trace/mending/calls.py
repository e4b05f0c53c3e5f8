"""What may mend a refused call, by the code of the error: other arguments, in the order in which they are tried.

Nothing here is sure. A guess becomes a proposal only when the function takes the changed arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from attrs import field, frozen

from sexpgpu.diag import nearest
from sexpgpu.lang.builtin import show
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list
from sexpgpu.tensortype import INTEGERS, TensorType
from sexpgpu.trace.builtins.observe import Batch
from sexpgpu.trace.mending.scene import Call, Change
from sexpgpu.trace.models import Model
from sexpgpu.trace.tensor import TensorLike


@frozen
class Guess:
    """Changes of a call's arguments by their number, and the condition that its value must meet besides."""

    help: str
    changes: dict[int, Change]
    fits: Callable[[Any], bool] = field(default=lambda value: True)


Guesses = Iterator[Guess]


def _tensors(call: Call) -> list[tuple[int, TensorType]]:
    return [(i, v.type) for i, v in enumerate(call.values) if isinstance(v, TensorLike)]


def _wrapped(call: Call, index: int, text: str, words: str, fits: Callable[[Any], bool] | None = None) -> Guess:
    help = words.format(_named(call, index))
    changes = {index: Change(text)}
    return Guess(help, changes) if fits is None else Guess(help, changes, fits)


def _named(call: Call, index: int) -> str:
    """An argument as a sentence names it: as it is written, where that is short."""
    text = call.form.text(index + 1)
    return f"`{text}`" if len(text) <= 30 and "\n" not in text else f"argument {index + 1}"


def _shaped(*types: TensorType) -> Callable[[Any], bool]:
    """Whether a value has the shape of one of the tensors given: none of them was stretched against the other."""
    return lambda value: not isinstance(value, TensorLike) or value.type.shape in {t.shape for t in types}


# Shapes.


def products(call: Call) -> Guesses:
    """Operands of a product whose summed sizes differ."""
    given = _tensors(call)
    for i, _ in reversed(given) if len(given) > 1 else ():
        yield _wrapped(call, i, "(transpose _)", "transpose {}")
    yield from flattened(call)


def flattened(call: Call) -> Guesses:
    """A tensor whose last axes are one axis to the function."""
    for i, kind in _tensors(call):
        for first in range(kind.rank - 2, 0, -1):
            width = math.prod(kind.shape[first:])
            yield _wrapped(call, i, f"(reshape _ '(-1 {width}))", "flatten the records of {}")


def broadcasts(call: Call) -> Guesses:
    """Operands that do not stretch to one shape: the smaller may lack an axis."""
    given = sorted(_tensors(call), key=lambda pair: pair[1].rank)
    kinds = [kind for _, kind in given]
    for i, kind in given[:1] if len(given) > 1 else ():
        fits = _shaped(*(other for other in kinds if other is not kind))
        for axis in (-1, *range(1, kind.rank)):
            yield _wrapped(call, i, f"(unsqueeze _ {axis})", "give {} a further axis, of size 1", fits)
        yield _wrapped(call, i, "(transpose _)", "transpose {}", fits)
        yield _wrapped(call, i, "(squeeze _ -1)", "drop the last axis of {}, whose size is 1", fits)


def pairs(call: Call) -> Guesses:
    """Predictions and targets of different shapes."""
    given = _tensors(call)
    for i, kind in sorted(given, key=lambda pair: -pair[1].rank):
        if kind.shape[-1:] == (1,):
            yield _wrapped(call, i, "(squeeze _ -1)", "drop the last axis of {}, whose size is 1")
    for i, kind in given:
        classes = {k.shape[-1] for _, k in given if k.rank == kind.rank + 1}
        if kind.dtype in INTEGERS:
            for count in classes:
                yield _wrapped(call, i, f"(one-hot _ {count})", "make rows of 0 and 1 of the classes {}")
    for i, kind in reversed(given):
        yield from _class_numbers(call, i, kind)
        yield _wrapped(call, i, "(transpose _)", "transpose {}")


def _class_numbers(call: Call, index: int, kind: TensorType) -> Guesses:
    """The class of each record's row; a vector over the records has no rows."""
    if kind.rank > 1:
        yield _wrapped(call, index, "(argmax _)", "take the number of the class from each row of {}")


def labels(call: Call) -> Guesses:
    """Indices along an axis that have another rank, or are not indices."""
    for i, kind in reversed(_tensors(call)):
        if kind.shape[-1:] == (1,):
            yield _wrapped(call, i, "(squeeze _ -1)", "drop the last axis of {}, whose size is 1")
        if kind.rank > 1 or not kind.is_float:  # a score for each record does not become rows of one class
            yield _wrapped(call, i, "(unsqueeze _ -1)", "give {} a further axis, of size 1")
        yield from _class_numbers(call, i, kind)


def axes(call: Call) -> Guesses:
    """An axis that the tensor does not have, or has another size than the function needs."""
    rank = max((kind.rank for _, kind in _tensors(call)), default=0)
    # A function that lists the axes of its tensors, or of several in a list, has none here: the list's rank counts.
    for value in call.values:
        if isinstance(value, Cons | list):
            rank = max([rank, *(item.type.rank for item in value if isinstance(item, TensorLike))])
    for i, value in enumerate(call.values):
        if type(value) is int:
            for axis in (-1, *range(rank)):
                if axis != value:
                    words = "axis -1 is the last" if axis == -1 else f"axis {axis}, not {value}"
                    yield Guess(words, {i: Change(str(axis))})
        elif isinstance(value, Cons) and all(type(item) is int for item in value):
            yield from _axis_lists(i, list(value), rank)


def _axis_lists(index: int, given: list[int], rank: int) -> Guesses:
    valid = list(dict.fromkeys(axis for axis in given if -rank <= axis < rank))
    complete = [axis % rank for axis in valid]
    complete += [axis for axis in range(rank) if axis not in complete]
    for chosen in ([axis - len(given) for axis in range(len(given))], valid, complete):
        text = f"'({' '.join(map(str, chosen))})"
        yield Guess(f"the axes {text[1:]}, not {show(lisp_list(given))}", {index: Change(text)})


def permutations(call: Call) -> Guesses:
    """A permutation that does not name each axis once: those it lacks come last."""
    rank = next((kind.rank for _, kind in _tensors(call)), 0)
    for i, value in enumerate(call.values):
        if isinstance(value, Cons) and call.form.head == "transpose":
            found = list(dict.fromkeys(a % rank for a in value if type(a) is int and -rank <= a < rank))
            found += [axis for axis in range(rank) if axis not in found]
            text = f"'({' '.join(map(str, found))})"
            yield Guess(f"each of the {rank} axes once: {text[1:]}", {i: Change(text)})


def reshapes(call: Call) -> Guesses:
    """A shape of another number of elements: one of its sizes follows from the others."""
    for i, value in enumerate(call.values):
        inner = call.form.inner(i + 1)
        if not isinstance(value, Cons) or inner is None:
            continue
        sizes = list(value)
        first = 0 if inner.outer is not None and inner.outer is not call.form else int(inner.head == "list")
        if len(inner) - first != len(sizes):
            continue
        for at in [*range(len(sizes) - 1, -1, -1)]:
            yield _with_size(call, i, inner, first, at, sizes)


def _with_size(call: Call, index: int, inner: Any, first: int, at: int, sizes: list[Any]) -> Guess:
    cell, whole = inner.cells[first + at], call.form.cells[index + 1]
    text = inner.source.text
    written = text[whole.car_start : cell.car_start] + "-1" + text[cell.car_end : whole.car_end]
    value = lisp_list([*sizes[:at], -1, *sizes[at + 1 :]])
    return Guess("let -1 stand for the size that follows", {index: Change(written, lambda _: value)})


def widths(call: Call) -> Guesses:
    """A list with an entry for the last axes only."""
    rank = max((kind.rank for _, kind in _tensors(call)), default=0)
    for i, value in enumerate(call.values):
        if isinstance(value, Cons) and len(list(value)) < rank:
            entry = lisp_list([0, 0]) if isinstance(value.car, Cons) else 1
            full = [entry] * (rank - len(list(value))) + list(value)
            text = "'" + show(lisp_list(full))
            yield Guess("an entry for each axis, the first ones too", {i: Change(text)})


def scalars(call: Call) -> Guesses:
    """A tensor where one number is wanted."""
    if call.form.head == "grad":  # its tensor is the point of differentiation, not what must be one number
        return
    for i, kind in _tensors(call):
        if kind.rank:
            yield _wrapped(call, i, "(mean _)" if kind.is_float else "(mean (cast _ :float))", "take the mean of {}")
    for i, kind in _tensors(call):
        if kind.rank > 1:
            yield _wrapped(call, i, "(mean _ :axis 0)", "take the mean of {} over the records")


# Dtypes.


def casts(call: Call) -> Guesses:
    """Operands of dtypes that do not go together, or that the function does not take."""
    given = _tensors(call)
    floats = [i for i, kind in given if kind.is_float]
    for i, kind in reversed(given):
        if not kind.is_float:
            yield _wrapped(call, i, "(cast _ :float)", "make floats of {}")
    for i in reversed(floats):
        yield _wrapped(call, i, "(cast _ :float)", "bring {} to the run's float type")
    for i, kind in reversed(given):
        if kind.dtype != "i32":
            yield _wrapped(call, i, "(cast _ :i32)", "make integers of {}")
    yield from pairs(call)
    integers = [i for i, kind in given if not kind.is_float]
    if len(integers) > 1:
        yield Guess("make floats of the operands", {i: Change("(cast _ :float)") for i in integers})


def mixed(call: Call) -> Guesses:
    """Operands that differ in dtype: where there are floats among them, these stay floats."""
    spoiling = ("(cast _ :i32)", "(argmax _)") if any(kind.is_float for _, kind in _tensors(call)) else ()
    for guess in casts(call):
        if not any(change.text in spoiling for change in guess.changes.values()):
            yield guess


def tests(call: Call) -> Guesses:
    """Numbers as the test of `where`."""
    yield _wrapped(call, 0, "(/= _ 0)", "compare {} with 0: where it is not 0")


def names(call: Call) -> Guesses:
    """A field or a part by a name that is nearly one there is."""
    first = call.values[0] if call.values else None
    known = first.fields if isinstance(first, Batch) else first.children if isinstance(first, Model) else {}
    for i, value in enumerate(call.values):
        near = nearest(value.name, known) if isinstance(value, Symbol) else None
        if near is not None:
            yield Guess(f"did you mean `{near}`?", {i: Change(f"'{near}")})


# Counts and values.


def indices(call: Call) -> Guesses:
    """An index behind the last."""
    for i, value in enumerate(call.values):
        if type(value) is int:
            yield Guess("-1 is the last", {i: Change("-1")})


def probabilities(call: Call) -> Guesses:
    """A percentage."""
    for i, value in enumerate(call.values):
        if type(value) is int or type(value) is float:
            yield Guess("a probability, not a percentage", {i: Change(repr(value / 100))})


def parts(call: Call) -> Guesses:
    """A count of parts that does not divide the axis: another axis may be meant, else the nearest count."""
    size = next((kind.size for _, kind in _tensors(call)), 0)
    *_, (i, count), (j, axis) = ((0, 0), (0, 0), *((i, v) for i, v in enumerate(call.values) if type(v) is int))
    for other in (-1, *range(len(call.values))):
        yield Guess(f"axis {other}, not {axis}", {j: Change(str(other))})
    for near in sorted(range(1, min(size, 2 * count) + 1), key=lambda n: (abs(n - count), n)):
        yield Guess(f"{near} parts", {i: Change(str(near))})


def surplus(call: Call) -> Guesses:
    """An argument too many."""
    for i in reversed(range(len(call.values))):
        yield Guess(f"leave {_named(call, i)} out", {i: Change("")})


def exchanged(call: Call) -> Guesses:
    """The first two arguments in the other order."""
    if len(call.values) > 1 and not any(isinstance(value, Symbol) for value in call.values[:2]):
        first, second = call.values[:2]
        changes = {0: Change(call.form.text(2), lambda _: second), 1: Change(call.form.text(1), lambda _: first)}
        yield Guess(f"{_named(call, 1)} comes first", changes)


def operands(call: Call) -> Guesses:
    """A list where a tensor is wanted."""
    for i, value in enumerate(call.values):
        if isinstance(value, Cons):
            if value.cdr is NIL:
                yield _wrapped(call, i, "(car _)", "take the one element of {}")
            yield _wrapped(call, i, "(concat _ -1)", "join the tensors of {}")
            yield _wrapped(call, i, "(stack _)", "stack the tensors of {}")


GUESSES: dict[str, tuple[Callable[[Call], Guesses], ...]] = {
    "E-SHAPE-001": (broadcasts,),
    "E-SHAPE-002": (permutations, axes),
    "E-SHAPE-003": (axes,),
    "E-SHAPE-004": (widths,),
    "E-SHAPE-006": (broadcasts, labels),
    "E-SHAPE-007": (reshapes,),
    "E-SHAPE-008": (permutations,),
    "E-SHAPE-010": (axes,),
    "E-SHAPE-012": (flattened,),
    "E-SHAPE-013": (products,),
    "E-SHAPE-015": (labels,),
    "E-SHAPE-020": (scalars,),
    "E-SHAPE-021": (labels,),
    "E-SHAPE-022": (axes,),
    "E-SHAPE-023": (parts,),
    "E-SHAPE-024": (scalars,),
    "E-SHAPE-025": (pairs, broadcasts),
    "E-SHAPE-026": (labels,),
    "E-DTYPE-001": (casts,),
    "E-DTYPE-002": (mixed,),
    "E-DTYPE-005": (casts,),
    "E-DTYPE-006": (tests,),
    "E-DTYPE-007": (casts,),
    "E-DTYPE-008": (casts,),
    "E-TYPE-011": (operands,),
    "E-VALUE-101": (indices,),
    "E-VALUE-015": (probabilities,),
    "E-ARG-001": (surplus,),
    "E-ARG-010": (exchanged,),
    "E-LOAD-040": (names,),
    "E-PARAM-007": (names,),
}
"""By the code of the error, what is tried."""
