"""What the code of destructuring lambda lists calls. The names are uninterned: no file can redefine them."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.diag import SxError, error
from sexpgpu.lang.builtin import Library, show, unknown_keyword
from sexpgpu.lang.forms import NIL, Cons, Symbol, boolean

NAMES: Final[dict[str, Symbol]] = {
    name: Symbol(name) for name in ("need", "rest-of", "end", "check-keys", "key-value", "given", "arguments")
}
destructuring = Library("destructuring", names=NAMES)
NEED = NAMES["need"]
REST_OF = NAMES["rest-of"]
END = NAMES["end"]
CHECK_KEYS = NAMES["check-keys"]
KEY_VALUE = NAMES["key-value"]
GIVEN = NAMES["given"]
ARGUMENTS = NAMES["arguments"]


class Pattern:
    """The lambda list a list is matched against, for messages."""

    __slots__ = ("name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    def mismatch(self, what: str, found: Any) -> SxError:
        """E-MACRO-002."""
        return error("E-MACRO-002", f"{self.name}: {show(found)} {what} {self.text}", expected=self.text)


ABSENT: Final = Symbol("absent")


@destructuring.builtin("need", "(rest pattern whole)")
def need(rest: Any, pattern: Pattern, whole: Any) -> Any:
    if isinstance(rest, Cons):
        return rest.car
    if rest is NIL:
        raise pattern.mismatch("has too few elements for", whole)
    raise pattern.mismatch("is no list to match", whole)


@destructuring.builtin("rest-of", "(rest)")
def rest_of(rest: Any) -> Any:
    return rest.cdr if isinstance(rest, Cons) else rest


@destructuring.builtin("end", "(rest pattern whole)")
def end(rest: Any, pattern: Pattern, whole: Any) -> Any:
    if rest is not NIL:
        raise pattern.mismatch("has too many elements for", whole)
    return NIL


@destructuring.builtin("check-keys", "(rest keys other pattern)")
def check_keys(rest: Any, keys: list[Symbol], other: Any, pattern: Pattern) -> Any:
    cell = rest
    unknown = None
    allowed = other is not NIL
    settled = False
    while isinstance(cell, Cons):
        key = cell.car
        if not isinstance(key, Symbol):
            raise pattern.mismatch(f"has {show(key)} where a keyword is expected by", rest)
        if not isinstance(cell.cdr, Cons):
            raise pattern.mismatch(f"has no value after {show(key)} for", rest)
        if key.keyword and key.name == "allow-other-keys":
            if not settled:
                settled = True
                allowed = allowed or cell.cdr.car is not NIL
        elif key not in keys and unknown is None:
            unknown = key
        cell = cell.cdr.cdr
    if cell is not NIL:
        raise pattern.mismatch("is no list to match", rest)
    if unknown is not None and not allowed:
        raise unknown_keyword(pattern.name, unknown.name, tuple(key.name for key in keys))
    return NIL


@destructuring.builtin("key-value", "(rest key)")
def key_value(rest: Any, key: Symbol) -> Any:
    cell = rest
    while isinstance(cell, Cons) and isinstance(cell.cdr, Cons):
        if cell.car is key:
            return cell.cdr.car
        cell = cell.cdr.cdr
    return ABSENT


@destructuring.builtin("given", "(value)")
def given(value: Any) -> Any:
    return boolean(value is not ABSENT)


@destructuring.builtin("arguments", "(call)")
def arguments(call: Cons) -> Any:
    return call.cdr
