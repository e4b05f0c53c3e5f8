"""Chapter 17, sequences: length, elements, parts, copies and concatenation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sexpgpu.diag import Culprit, error
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.conditions import TypeFault
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Array, Cons, Symbol, character, lisp_list
from sexpgpu.lang.library.access import items_of, same_kind
from sexpgpu.lang.library.check import LONGEST_TEXT, bounds, index_error, size, spend, wrong_form, wrong_type
from sexpgpu.lang.library.mapping import as_result, immutable, store_items

library = Library("sequences")


@library.builtin("length", "(sequence)")
def length(sequence: Any) -> Any:
    if isinstance(sequence, str | list):
        return len(sequence)
    if isinstance(sequence, Foreign):
        return sequence.lisp_generic("length", (sequence,))
    return len(items_of("length", 0, sequence))


@library.builtin("elt", "(sequence index)")
def elt(sequence: Any, index: Any) -> Any:
    items = items_of("elt", 1, sequence) if not isinstance(sequence, str) else sequence
    if type(index) is not int:
        raise wrong_type("elt", 2, index, "an integer")
    if not 0 <= index < len(items):
        raise index_error("elt", index, "a sequence", len(items))
    return character(items[index]) if isinstance(items, str) else items[index]


@library.builtin("(setf elt)", "(new sequence index)")
def set_elt(new: Any, sequence: Any, index: Any) -> Any:
    elt(sequence, index)
    store_items("(setf elt)", sequence, index, [new])
    return new


@library.builtin("subseq", "(sequence start &optional end)")
def subseq(sequence: Any, start: Any, end: Any = NIL) -> Any:
    if type(sequence) is str:
        start, end = bounds("subseq", len(sequence), start, end)
        return sequence[start:end]
    items = items_of("subseq", 1, sequence)
    start, end = bounds("subseq", len(items), start, end)
    return same_kind(sequence, items[start:end], "subseq")


@library.builtin("(setf subseq)", "(new sequence start &optional end)")
def set_subseq(new: Any, sequence: Any, start: Any, end: Any = NIL) -> Any:
    start, end = bounds("(setf subseq)", len(items_of("(setf subseq)", 2, sequence)), start, end)
    store_items("(setf subseq)", sequence, start, items_of("(setf subseq)", 1, new)[: end - start])
    return new


@library.builtin("copy-seq", "(sequence)")
def copy_seq(sequence: Any) -> Any:
    return sequence if type(sequence) is str else same_kind(sequence, items_of("copy-seq", 0, sequence), "copy-seq")


def _reverse(name: str) -> None:
    def reverse(sequence: Any) -> Any:
        if isinstance(sequence, str):
            return sequence[::-1]
        if isinstance(sequence, Foreign):
            return sequence.lisp_generic("reverse", (sequence,))
        items = items_of(name, 0, sequence)[::-1]
        if name == "nreverse" and isinstance(sequence, Array):
            sequence.items[: len(items)] = items
            return sequence
        return same_kind(sequence, items, name)

    library.builtin(name, "(sequence)")(reverse)


_reverse("reverse")
_reverse("nreverse")


@library.builtin("concatenate", "(result-type &rest sequences)")
def concatenate(kind: Any, *sequences: Any) -> Any:
    if isinstance(kind, Symbol) and kind.name == "string" and all(type(part) is str for part in sequences):
        length = sum(map(len, sequences))
        if length > LONGEST_TEXT:
            raise error("E-LIMIT-003", f"concatenate: a string of {length:,} characters is too long")
        spend(length >> 5)
        return "".join(sequences)
    items = [item for position, part in enumerate(sequences, 2) for item in items_of("concatenate", position, part)]
    return as_result("concatenate", kind, items)


@library.builtin("make-sequence", "(result-type size &key initial-element)")
def make_sequence(kind: Any, count: Any, *, initial_element: Any = None) -> Any:
    from sexpgpu.lang.library.typespec import sequence_type

    if initial_element is None:
        family = sequence_type("make-sequence", kind)[0]
        initial_element = {"list": NIL, "string": character(" ")}.get(family, 0)
    return as_result("make-sequence", kind, [initial_element] * size("make-sequence", 2, count))


@library.builtin("fill", "(sequence item &key start end)")
def fill(sequence: Any, item: Any, *, start: Any = 0, end: Any = NIL) -> Any:
    start, end = bounds("fill", len(items_of("fill", 1, sequence)), start, end)
    store_items("fill", sequence, start, [item] * (end - start))
    return sequence


@library.builtin("replace", "(target source &key start1 end1 start2 end2)")
def replace(target: Any, source: Any, *, start1: Any = 0, end1: Any = NIL, start2: Any = 0, end2: Any = NIL) -> Any:
    start1, end1 = bounds("replace", len(items_of("replace", 1, target)), start1, end1)
    found = items_of("replace", 2, source)
    start2, end2 = bounds("replace", len(found), start2, end2)
    store_items("replace", target, start1, found[start2:end2][: end1 - start1])
    return target


@library.builtin("vector-push-extend", "(new vector &optional extension)")
def vector_push_extend(new: Any, vector: Any, extension: Any = 1) -> Any:
    """Append to a vector with a fill pointer; gives the new element's index."""
    array = _filled("vector-push-extend", vector)
    index = array.fill or 0
    array.items[index : index + 1] = [new]
    array.fill = index + 1
    array.dims = (len(array.items),)
    return index


@library.builtin("vector-push", "(new vector)")
def vector_push(new: Any, vector: Any) -> Any:
    """As vector-push-extend while there is room, else nil."""
    array = _filled("vector-push", vector)
    return NIL if array.fill == len(array.items) else vector_push_extend(new, vector)


@library.builtin("vector-pop", "(vector)")
def vector_pop(vector: Any) -> Any:
    array = _filled("vector-pop", vector)
    if not array.fill:
        raise error("E-VALUE-003", "vector-pop: the vector has no elements")
    array.fill -= 1
    return array.items[array.fill]


@library.builtin("fill-pointer", "(vector)")
def fill_pointer(vector: Any) -> Any:
    return _filled("fill-pointer", vector).fill


@library.builtin("(setf fill-pointer)", "(new vector)")
def set_fill_pointer(new: Any, vector: Any) -> Any:
    array = _filled("(setf fill-pointer)", vector)
    if type(new) is not int or not 0 <= new <= len(array.items):
        raise index_error("(setf fill-pointer)", new, "a vector", len(array.items) + 1)
    array.fill = new
    return new


def _filled(name: str, vector: Any) -> Array:
    if isinstance(vector, Array) and vector.fill is not None:
        return vector
    if isinstance(vector, str):
        raise immutable(name)
    raise error(
        "E-TYPE-001",
        f"{name} needs a vector with a fill pointer",
        help="make it with (make-array n :fill-pointer 0 :adjustable t)",
    )


@library.builtin("%loop-items", "(list position)")
def loop_items(items: Any, position: int) -> Any:
    """What `for x in` walks, the argument `position` of its loop: a list, as far as its first cons shows."""
    if isinstance(items, Cons) or items is NIL:
        return items
    raise wrong_form("loop: `in`", items, "a list", Culprit(function="loop", argument=position))


@library.builtin("%loop-number", "(number position word)")
def loop_number(number: Any, position: int, word: Any) -> Any:
    """What a `for` counts from, to or by, the argument `position` of its loop."""
    if isinstance(number, int | float | Fraction | Foreign):
        return number
    raise wrong_form(f"loop: `{word.name}`", number, "a number", Culprit(function="loop", argument=position))


@library.builtin("%loop-vector", "(vector position)")
def loop_vector(vector: Any, position: int) -> Any:
    """What `for x across` walks, the argument `position` of its loop: a vector or a string."""
    if not isinstance(vector, str | list | Array | Foreign):
        culprit = Culprit(function="loop", argument=position)
        raise wrong_form("loop: `across`", vector, "a vector or a string", culprit)
    return items_of("loop: for ... across", 0, vector)


@library.builtin("%loop-list")
def loop_list() -> Any:
    """A collector: the head of a growing list whose car is its last cons."""
    head = Cons(NIL, NIL)
    head.car = head
    return head


@library.builtin("%loop-collect", "(collector item)")
def loop_collect(head: Cons, item: Any) -> Any:
    """Add one element; gives the list so far."""
    cell = Cons(item, NIL)
    head.car.cdr = cell
    head.car = cell
    return head.cdr


@library.builtin("%loop-append", "(collector list)")
def loop_append(head: Cons, part: Any) -> Any:
    """Add a copy of a list, dotted tail included."""
    items: list[Any] = []
    cell = part
    while isinstance(cell, Cons):
        items.append(cell.car)
        cell = cell.cdr
    return loop_join(head, lisp_list(items, cell))


@library.builtin("%loop-join", "(collector list)")
def loop_join(head: Cons, part: Any) -> Any:
    """Add a list itself, as `nconc` does."""
    from sexpgpu.lang.library.conses import last_cons

    head.car.cdr = part
    if isinstance(part, Cons):
        head.car = last_cons("loop: nconc", part)
    return head.cdr


@library.builtin("%loop-extreme", "(name best item)")
def loop_extreme(name: Any, best: Any, item: Any) -> Any:
    """The better of two under `max` or `min`; nil is no value yet."""
    from sexpgpu.lang.library.arithmetic import maximum, minimum

    function = maximum if name.name == "max" else minimum
    try:
        return function(item) if best is NIL else function(best, item)
    except TypeFault as wrong:
        raise _in_clause(f"{name.name}imize", item, wrong) from wrong


@library.builtin("%loop-sum", "(sum item)")
def loop_sum(sum: Any, item: Any) -> Any:
    """`(+ sum item)`."""
    from sexpgpu.lang.library.arithmetic import add

    try:
        return add(sum, item)
    except TypeFault as wrong:
        raise _in_clause("sum", item, wrong) from wrong


def _in_clause(clause: str, item: Any, wrong: TypeFault) -> TypeFault:
    """The error in the words of the clause, where it is the clause's own form that gave no number."""
    if wrong.datum is not item:
        return wrong
    told = error("E-TYPE-001", f"loop: `{clause}` needs a number, got {show(item)}")
    return TypeFault(told.diagnostic, wrong.datum, wrong.expected_type)
