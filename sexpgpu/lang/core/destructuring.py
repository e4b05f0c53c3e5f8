"""What the code of destructuring lambda lists calls. The names are uninterned: no file can redefine them."""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve

from sexpgpu.diag import Culprit, SxError, error
from sexpgpu.lang.builtin import Library, Parameters, show, unknown_keyword, wrong_count
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

    __slots__ = ("inner", "name", "parameters", "text")

    def __init__(self, name: str, text: str, inner: bool = False, parameters: Parameters | None = None) -> None:
        self.name = name
        self.text = text
        self.inner = inner  # part of another pattern
        self.parameters = parameters  # of a macro

    def mismatch(self, what: str, found: Any, help: str | None = None, culprit: Culprit | None = None) -> SxError:
        """E-MACRO-002."""
        message = f"{self.name}: {show(found)} {what} {self.text}"
        culprit = None if self.inner else culprit
        return error("E-MACRO-002", message, expected=self.text, help=help if culprit else None, culprit=culprit)

    def _wrong_count(self, parameters: Parameters, got: int) -> SxError:
        fault = wrong_count(self.name, parameters, got)
        fault.diagnostic = evolve(fault.diagnostic, code="E-MACRO-002")
        return fault

    def too_many(self, found: Any) -> SxError:
        """More elements than the pattern has names."""
        what = "has too many elements for"
        if self.parameters is not None:
            return self._wrong_count(self.parameters, length(found))
        if self.name == "destructuring-bind":
            text = self.text[:-1] + (" " if len(self.text) > 2 else "") + "&rest _others)"
            culprit = Culprit(function=self.name, argument=1, instead=text)
            return self.mismatch(what, found, f"{text} takes the others too", culprit)
        return self.mismatch(what, found)

    def too_few(self, found: Any) -> SxError:
        """Fewer elements than the pattern needs."""
        if self.parameters is not None:
            return self._wrong_count(self.parameters, length(found))
        names = self.text[1:-1].split(" ")
        given = length(found)
        plain = not any(c in self.text[1:] for c in "(&") and self.name == "destructuring-bind"
        text = f"({' '.join([*names[:given], '&optional', *names[given:]])})"
        culprit = Culprit(function=self.name, argument=1, instead=text) if plain else None
        return self.mismatch("has too few elements for", found, f"{text} leaves the others nil", culprit)


def length(form: Any) -> int:
    """The number of conses of a list."""
    return sum(1 for _ in form) if isinstance(form, Cons) else 0


ABSENT: Final = Symbol("absent")


@destructuring.builtin("need", "(rest pattern whole)")
def need(rest: Any, pattern: Pattern, whole: Any) -> Any:
    if isinstance(rest, Cons):
        return rest.car
    if rest is NIL:
        raise pattern.too_few(whole)
    raise pattern.mismatch("is no list to match", whole)


@destructuring.builtin("rest-of", "(rest)")
def rest_of(rest: Any) -> Any:
    return rest.cdr if isinstance(rest, Cons) else rest


@destructuring.builtin("end", "(rest pattern whole)")
def end(rest: Any, pattern: Pattern, whole: Any) -> Any:
    if rest is not NIL:
        raise pattern.too_many(whole)
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
