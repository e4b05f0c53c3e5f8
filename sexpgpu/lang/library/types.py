"""Chapter 4: predicates of types, `typep`, `type-of` and `coerce`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sexpgpu.diag import SxError, error
from sexpgpu.lang.active import as_function
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.conditions import Condition, TypeFault
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Array, Char, Cons, HashTable, Symbol, T, character, symbol
from sexpgpu.lang.library.access import items_of
from sexpgpu.lang.library.check import REALS, describe
from sexpgpu.lang.library.mapping import as_result
from sexpgpu.lang.library.numbers import to_float
from sexpgpu.lang.library.typespec import ATOMIC, Test, is_type, sequence_type
from sexpgpu.lang.printer import brief
from sexpgpu.lang.structures import Structure

library = Library("types")


def _predicate(name: str, test: Test) -> None:
    def predicate(value: Any) -> Any:
        return T if test(value) else NIL

    library.builtin(name, "(object)")(predicate)


for _name, _type in (
    ("symbolp", "symbol"),
    ("keywordp", "keyword"),
    ("listp", "list"),
    ("consp", "cons"),
    ("atom", "atom"),
    ("integerp", "integer"),
    ("rationalp", "rational"),
    ("realp", "real"),
    ("numberp", "number"),
    ("floatp", "float"),
    ("complexp", "complex"),
    ("characterp", "character"),
    ("stringp", "string"),
    ("simple-string-p", "string"),
    ("vectorp", "vector"),
    ("simple-vector-p", "simple-vector"),
    ("arrayp", "array"),
    ("functionp", "function"),
    ("compiled-function-p", "function"),
    ("hash-table-p", "hash-table"),
    ("streamp", "stream"),
    ("bit-vector-p", "bit-vector"),
    ("simple-bit-vector-p", "simple-bit-vector"),
):
    _predicate(_name, ATOMIC[_type])


@library.builtin("typep", "(object type &optional environment)")
def typep(value: Any, spec: Any, environment: Any = NIL) -> Any:
    return T if is_type(value, spec) else NIL


_NAMES: dict[type, str] = {
    int: "integer",
    float: "double-float",
    Fraction: "ratio",
    str: "string",
    Char: "character",
    list: "simple-vector",
    Array: "array",
    HashTable: "hash-table",
}


@library.builtin("type-of", "(object)")
def type_of(value: Any) -> Any:
    """A short type that the value is of: `integer`, `ratio`, `string`, `cons`, a structure's name."""
    if isinstance(value, Symbol):
        return symbol("null" if value is NIL else "boolean" if value is T else "keyword" if value.keyword else "symbol")
    if isinstance(value, Cons):
        return symbol("cons")
    if isinstance(value, Condition):
        return symbol(value.type.name)
    if isinstance(value, Structure):
        return value.type.name
    if isinstance(value, Foreign):
        return symbol(getattr(value, "lisp_type", type(value).__name__.lower()))
    return symbol(_NAMES.get(type(value)) or ("function" if callable(value) else type(value).__name__.lower()))


@library.builtin("coerce", "(object type)")
def coerce(value: Any, kind: Any) -> Any:
    """Sequences into each other, numbers into floats, names into functions."""
    head = kind.car if isinstance(kind, Cons) else kind
    word = head.name if isinstance(head, Symbol) else ""
    if word == "t":
        return value
    if word in ("float", "double-float", "single-float", "short-float", "long-float") and type(value) in REALS:
        return to_float(value)
    if word == "function":
        return as_function(value)
    if word in ("character", "base-char"):
        text = value.name if isinstance(value, Symbol) else value
        if type(text) is str and len(text) == 1:
            return character(text)
    if is_type(value, kind):
        return value
    if ATOMIC["sequence"](value) and _names_sequence(kind):
        return as_result("coerce", kind, items_of("coerce", 1, value))
    wrong = error("E-TYPE-001", f"coerce: {describe(value)} cannot become {brief(kind)}")
    raise TypeFault(wrong.diagnostic, value, kind)


def _names_sequence(kind: Any) -> bool:
    try:
        sequence_type("coerce", kind)
    except SxError:
        return False
    return True
