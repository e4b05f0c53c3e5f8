"""Chapter 13, characters."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from sexpgpu.lang.atoms import CHARACTER_NAMES
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL, Char, T, boolean, character
from sexpgpu.lang.library.check import wrong_type
from sexpgpu.lang.library.equality import folded
from sexpgpu.lang.tokens import CHARACTER_NAMES as CODES
from sexpgpu.lang.tokens import is_surrogate

library = Library("characters")

_LARGEST: Final = 0x110000
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def code_of(name: str, position: int, value: Any) -> int:
    if type(value) is not Char:
        raise wrong_type(name, position, value, "a character")
    return value.code


def _ordering(name: str, compare: Callable[[int, int], bool], fold: bool) -> None:
    def ordered(*args: Any) -> Any:
        codes = [code_of(name, position, arg) for position, arg in enumerate(args, 1)]
        if fold:
            codes = [folded(code) for code in codes]
        return boolean(all(compare(a, b) for a, b in pairwise(codes)))

    library.builtin(name, "(character &rest more)")(ordered)


def _distinct(name: str, fold: bool) -> None:
    def distinct(*args: Any) -> Any:
        codes = [code_of(name, position, arg) for position, arg in enumerate(args, 1)]
        if fold:
            codes = [folded(code) for code in codes]
        return boolean(len(set(codes)) == len(codes))

    library.builtin(name, "(character &rest more)")(distinct)


for _sign, _word, _compare in (
    ("=", "equal", operator.eq),
    ("<", "lessp", operator.lt),
    (">", "greaterp", operator.gt),
    ("<=", "not-greaterp", operator.le),
    (">=", "not-lessp", operator.ge),
):
    _ordering(f"char{_sign}", _compare, False)
    _ordering(f"char-{_word}", _compare, True)
_distinct("char/=", False)
_distinct("char-not-equal", True)


@library.builtin("char-code", "(character)")
def char_code(a: Any) -> Any:
    return code_of("char-code", 0, a)


@library.builtin("char-int", "(character)")
def char_int(a: Any) -> Any:
    return code_of("char-int", 0, a)


@library.builtin("code-char", "(code)")
def code_char(code: Any) -> Any:
    """The character of a code point; nil for half of a surrogate pair, which no text in UTF-8 can hold."""
    if type(code) is not int or not 0 <= code < _LARGEST:
        raise wrong_type("code-char", 0, code, f"an integer from 0 to {_LARGEST - 1}")
    return NIL if is_surrogate(code) else character(code)


@library.builtin("character", "(designator)")
def to_character(a: Any) -> Any:
    if type(a) is Char:
        return a
    text = getattr(a, "name", a)
    if type(text) is not str or len(text) != 1:
        raise wrong_type("character", 0, a, "a character, or a string or symbol of one")
    return character(text)


def upper(text: str) -> str:
    """Upper case of each character that has one of its own, so that the length stays."""
    changed = text.upper()
    return changed if len(changed) == len(text) else "".join(u if len(u := c.upper()) == 1 else c for c in text)


def lower(text: str) -> str:
    """Lower case of each character that has one of its own, so that the length stays."""
    changed = text.lower()
    return changed if len(changed) == len(text) else "".join(u if len(u := c.lower()) == 1 else c for c in text)


@library.builtin("char-upcase", "(character)")
def char_upcase(a: Any) -> Any:
    return character(upper(chr(code_of("char-upcase", 0, a))))


@library.builtin("char-downcase", "(character)")
def char_downcase(a: Any) -> Any:
    return character(lower(chr(code_of("char-downcase", 0, a))))


def _has_case(text: str) -> bool:
    return upper(text) != lower(text)


def _predicate(name: str, test: Callable[[str], bool]) -> None:
    def predicate(a: Any) -> Any:
        return T if test(chr(code_of(name, 0, a))) else NIL

    library.builtin(name, "(character)")(predicate)


_predicate("alpha-char-p", str.isalpha)
_predicate("alphanumericp", str.isalnum)
_predicate("upper-case-p", lambda text: _has_case(text) and text == upper(text))
_predicate("lower-case-p", lambda text: _has_case(text) and text == lower(text))
_predicate("both-case-p", _has_case)
_predicate("graphic-char-p", lambda text: text.isprintable())
_predicate("standard-char-p", lambda text: text == "\n" or " " <= text <= "~")


def _radix(name: str, radix: Any) -> int:
    if type(radix) is not int or not 2 <= radix <= 36:
        raise wrong_type(name, 2, radix, "a base from 2 to 36")
    return radix


@library.builtin("digit-char-p", "(character &optional radix)")
def digit_char_p(a: Any, radix: Any = 10) -> Any:
    """The weight of a digit in a base, nil for what is no digit there."""
    text = chr(code_of("digit-char-p", 1, a))
    weight = _DIGITS.find(text.upper()) if text.isascii() else -1
    return weight if 0 <= weight < _radix("digit-char-p", radix) else NIL


@library.builtin("digit-char", "(weight &optional radix)")
def digit_char(weight: Any, radix: Any = 10) -> Any:
    if type(weight) is not int or weight < 0:
        raise wrong_type("digit-char", 1, weight, "an integer of at least 0")
    return character(_DIGITS[weight]) if weight < _radix("digit-char", radix) else NIL


@library.builtin("char-name", "(character)")
def char_name(a: Any) -> Any:
    code = code_of("char-name", 0, a)
    return "Space" if code == 32 else CHARACTER_NAMES.get(code, NIL)


@library.builtin("name-char", "(name)")
def name_char(name: Any) -> Any:
    text = getattr(name, "name", name)
    if type(text) is not str:
        raise wrong_type("name-char", 0, name, "a string")
    code = CODES.get(text.lower())
    return NIL if code is None else character(code)
