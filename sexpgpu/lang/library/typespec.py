"""Type specifiers: which values a type has. `typep`, `typecase`, `check-type` and `coerce` rest on it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from sexpgpu.diag import Culprit, SxError, error, nearest
from sexpgpu.lang.active import active, as_function
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Array, Char, Cons, HashTable, Symbol, T, one
from sexpgpu.lang.library.access import holds, items_of_list
from sexpgpu.lang.library.check import MOST_BITS, RATIONALS, REALS, descend
from sexpgpu.lang.library.equality import eql
from sexpgpu.lang.printer import brief
from sexpgpu.lang.streams import TextOutput
from sexpgpu.lang.structures import Structure

Test = Callable[[Any], bool]

STAR: Final = "*"
_FIXNUM: Final = 1 << 62


def is_vector(value: Any) -> bool:
    return isinstance(value, str | list) or (isinstance(value, Array) and len(value.dims) == 1)


def is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, Foreign | Symbol | Cons)


def _of(*kinds: type) -> Test:
    return lambda value: type(value) in kinds


_FLOATS = ("float", "single-float", "double-float", "short-float", "long-float")
_STRINGS = ("string", "simple-string", "base-string", "simple-base-string")

ABSENT: Final = ("complex", "bit-vector", "simple-bit-vector", "extended-char", "pathname", "package", "readtable",
           "random-state", "restart")  # fmt: skip
"""Types of the standard that no value here is of."""

ATOMIC: Final[dict[str, Test]] = {
    "t": lambda value: True,
    "nil": lambda value: False,
    "null": lambda value: value is NIL,
    "symbol": _of(Symbol),
    "keyword": lambda value: type(value) is Symbol and value.keyword,
    "boolean": lambda value: value is NIL or value is T,
    "list": lambda value: value is NIL or isinstance(value, Cons),
    "cons": lambda value: isinstance(value, Cons),
    "atom": lambda value: not isinstance(value, Cons),
    "integer": _of(int),
    "signed-byte": _of(int),
    "fixnum": lambda value: type(value) is int and -_FIXNUM <= value < _FIXNUM,
    "bignum": lambda value: type(value) is int and not -_FIXNUM <= value < _FIXNUM,
    "unsigned-byte": lambda value: type(value) is int and value >= 0,
    "bit": lambda value: type(value) is int and value in (0, 1),
    "ratio": _of(Fraction),
    "rational": lambda value: type(value) in RATIONALS,
    "real": lambda value: type(value) in REALS,
    "number": lambda value: type(value) in REALS,
    **{name: _of(float) for name in _FLOATS},
    "character": _of(Char),
    "base-char": _of(Char),
    "standard-char": lambda value: type(value) is Char and (32 <= value.code < 127 or value.code == 10),
    **{name: _of(str) for name in _STRINGS},
    "vector": is_vector,
    "simple-vector": _of(list),
    "array": lambda value: isinstance(value, str | list | Array),
    "simple-array": lambda value: (
        isinstance(value, str | list) or (isinstance(value, Array) and value.fill is None and not value.adjustable)
    ),
    "sequence": lambda value: value is NIL or isinstance(value, Cons) or is_vector(value),
    "function": is_function,
    "compiled-function": is_function,
    "hash-table": _of(HashTable),
    "stream": _of(TextOutput),
    "string-stream": _of(TextOutput),
    "structure-object": _of(Structure),
    **{name: lambda value: False for name in ABSENT},
}


def unknown_type(spec: Any) -> SxError:
    names = [*ATOMIC, "or", "and", "not", "member", "eql", "satisfies", "mod"]
    near = nearest(spec.name, names) if isinstance(spec, Symbol) else None
    culprit = Culprit(word=spec.name, instead=near) if isinstance(spec, Symbol) else None
    help = f"did you mean {near}?" if near else None
    return error("E-TYPE-004", f"{brief(spec)} is not a type", help=help, culprit=culprit)


def is_type(value: Any, spec: Any) -> bool:
    """Whether `value` is of the type that `spec` names (E-TYPE-004 for what names none)."""
    if isinstance(spec, Symbol):
        test = ATOMIC.get(spec.name)
        if test is not None:
            return test(value)
        expanded = expanded_type(spec, ())
        if expanded is not None:
            return _is_defined(value, expanded, spec)
        known = active().type_named(spec)
        if known is None:
            raise unknown_type(spec)
        return bool(known(value))
    if isinstance(spec, Cons) and isinstance(spec.car, Symbol):
        arguments = items_of_list("type specifier", 0, spec.cdr)
        descend(0)
        if spec.car.name in ABSENT:
            return False
        compound = _COMPOUND.get(spec.car.name)
        if compound is not None:
            if spec.car.name in _OF_ONE and len(arguments) != 1:
                raise error("E-TYPE-004", f"{brief(spec)} is not a type", expected=f"({spec.car.name} x)")
            return compound(value, arguments)
        expanded = expanded_type(spec.car, tuple(arguments))
        if expanded is not None:
            return _is_defined(value, expanded, spec.car)
    raise unknown_type(spec)


def _is_defined(value: Any, expanded: Any, name: Symbol) -> bool:
    with active().nesting.within(f"the type `{name.name}`"):
        return is_type(value, expanded)


def expanded_type(name: Symbol, arguments: tuple[Any, ...]) -> Any:
    """The expansion of a type that `deftype` defined, None when there is none."""
    expander = active().type_expander(name)
    if expander is None:
        return None
    descend(0)
    return one(expander(*arguments))


def _in_interval(test: Test) -> Callable[[Any, list[Any]], bool]:
    def inside(value: Any, arguments: list[Any]) -> bool:
        if not test(value):
            return False
        low, high = [*arguments, None, None][:2]
        return _bounded(low, lambda bound: value >= bound, lambda bound: value > bound) and _bounded(
            high, lambda bound: value <= bound, lambda bound: value < bound
        )

    return inside


def _bounded(bound: Any, closed: Test, exclusive: Test) -> bool:
    if bound is None or (isinstance(bound, Symbol) and bound.name == STAR):
        return True
    limit, compare = (bound.car, exclusive) if isinstance(bound, Cons) else (bound, closed)
    if type(limit) not in REALS:
        raise error("E-TYPE-004", f"{brief(bound)} is no bound of a range of numbers: write n, (n) or *")
    return compare(limit)


def _starred(spec: Any) -> bool:
    return isinstance(spec, Symbol) and spec.name == STAR


def _cons(value: Any, parts: list[Any]) -> bool:
    if not isinstance(value, Cons):
        return False
    car, cdr = [*parts, None, None][:2]
    return (car is None or _starred(car) or is_type(value.car, car)) and (
        cdr is None or _starred(cdr) or is_type(value.cdr, cdr)
    )


def _dimensions(value: Any) -> tuple[int, ...]:
    if isinstance(value, Array):
        return (value.fill,) if value.fill is not None else value.dims
    return (len(value),)


def _array(test: Test) -> Callable[[Any, list[Any]], bool]:
    def matches(value: Any, arguments: list[Any]) -> bool:
        if not test(value) or (arguments and not _element_fits(value, arguments[0])):
            return False
        if len(arguments) < 2 or _starred(arguments[1]):
            return True
        dims = _dimensions(value)
        if type(arguments[1]) is int:
            return len(dims) == arguments[1]
        wanted = items_of_list("array type", 0, arguments[1])
        return len(wanted) == len(dims) and all(_starred(w) or w == d for w, d in zip(wanted, dims, strict=True))

    return matches


def _vector(test: Test, typed: bool) -> Callable[[Any, list[Any]], bool]:
    def matches(value: Any, arguments: list[Any]) -> bool:
        if not test(value) or (typed and arguments and not _element_fits(value, arguments[0])):
            return False
        wanted = _count(arguments[1:] if typed else arguments)
        return wanted is None or _dimensions(value)[0] == wanted

    return matches


def _element_fits(value: Any, element: Any) -> bool:
    # Strings hold characters, every other array holds anything: those are the only element types there are.
    if _starred(element):
        return True
    textual = isinstance(element, Symbol) and element.name in ("character", "base-char", "standard-char")
    return textual == isinstance(value, str)


_OF_ONE: Final = frozenset({"not", "eql", "satisfies", "mod"})


def _count(arguments: list[Any]) -> int | None:
    """The integer that sizes a type, None for `*` or nothing."""
    if not arguments or _starred(arguments[0]):
        return None
    if type(arguments[0]) is not int or not 0 <= arguments[0] <= MOST_BITS:
        raise error("E-TYPE-004", f"{brief(arguments[0])} is no size of a type: write an integer or *")
    return arguments[0]


def _modulus(value: Any, parts: list[Any]) -> bool:
    bound = _count(parts)
    return type(value) is int and value >= 0 and (bound is None or value < bound)


def _unsigned(value: Any, parts: list[Any]) -> bool:
    bits = _count(parts)
    return type(value) is int and value >= 0 and (bits is None or value.bit_length() <= bits)


def _signed(value: Any, parts: list[Any]) -> bool:
    bits = _count(parts)
    return type(value) is int and (bits is None or (value if value >= 0 else ~value).bit_length() < bits)


_COMPOUND: Final[dict[str, Callable[[Any, list[Any]], bool]]] = {
    "or": lambda value, parts: any(is_type(value, part) for part in parts),
    "and": lambda value, parts: all(is_type(value, part) for part in parts),
    "not": lambda value, parts: not is_type(value, parts[0]),
    "member": lambda value, parts: any(eql(value, part) for part in parts),
    "eql": lambda value, parts: eql(value, parts[0]),
    "satisfies": lambda value, parts: holds(as_function(parts[0])(value)),
    "mod": _modulus,
    "unsigned-byte": _unsigned,
    "signed-byte": _signed,
    "cons": _cons,
    "function": lambda value, parts: is_function(value),
    "array": _array(ATOMIC["array"]),
    "simple-array": _array(ATOMIC["simple-array"]),
    "vector": _vector(is_vector, True),
    "simple-vector": _vector(ATOMIC["simple-vector"], False),
    **{name: _vector(ATOMIC[name], False) for name in _STRINGS},
    **{name: _in_interval(ATOMIC[name]) for name in ("integer", "rational", "real", *_FLOATS)},
}


def sequence_type(name: str, spec: Any) -> tuple[str, int | None]:
    """The family (list, vector, string) and length that a sequence type asks for (else E-TYPE-004)."""
    head, arguments = (spec.car, list(spec)[1:]) if isinstance(spec, Cons) else (spec, [])
    if isinstance(head, Symbol):
        word = head.name
        if word in ("list", "cons", "sequence"):
            return "list", None
        if word == "null":
            return "list", 0
        if word in _STRINGS:
            return "string", _length(arguments[:1])
        if word == "simple-vector":
            return "vector", _length(arguments[:1])
        if word in ("vector", "array", "simple-array"):
            element = arguments[0] if arguments else None
            textual = isinstance(element, Symbol) and element.name in (
                "character",
                "base-char",
                "standard-char",
            )
            return "string" if textual else "vector", _length(arguments[1:2])
        expanded = expanded_type(head, tuple(arguments))
        if expanded is not None:
            with active().nesting.within(f"the type `{word}`"):
                return sequence_type(name, expanded)
    raise error("E-TYPE-004", f"{name}: {brief(spec)} is no sequence type", help="write 'list, 'vector or 'string")


def _length(arguments: list[Any]) -> int | None:
    size = arguments[0] if arguments else None
    if isinstance(size, Cons):
        size = size.car
    return size if type(size) is int else None
