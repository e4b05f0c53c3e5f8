"""Chapter 16, strings. They are immutable: what would change one is refused with a hint."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import MV, NIL, Char, Symbol, T, character
from sexpgpu.lang.library.access import items_of
from sexpgpu.lang.library.arithmetic import too_large
from sexpgpu.lang.library.characters import code_of, lower, upper
from sexpgpu.lang.library.check import MOST_BITS, bounds, index_error, size, spend, string, wrong_type
from sexpgpu.lang.library.equality import folded
from sexpgpu.lang.library.mapping import immutable
from sexpgpu.lang.printer import brief

library = Library("strings")


def text_of(name: str, position: int, designator: Any) -> str:
    """The text of a string designator: a string, a symbol or a character."""
    if type(designator) is str:
        return designator
    if type(designator) is Symbol:
        return designator.name
    if type(designator) is Char:
        return chr(designator.code)
    raise wrong_type(name, position, designator, "a string, a symbol or a character")


@library.builtin("string", "(designator)")
def to_string(a: Any) -> Any:
    return text_of("string", 0, a)


@library.builtin("make-string", "(size &key initial-element element-type)")
def make_string(count: Any, *, initial_element: Any = None, element_type: Any = NIL) -> Any:
    text = " " if initial_element is None else chr(code_of("make-string", 2, initial_element))
    length = size("make-string", 1, count)
    spend(length >> 4)
    return text * length


def _reader(name: str) -> None:
    def char(text: Any, index: Any) -> Any:
        string(name, 1, text)
        if type(index) is not int:
            raise wrong_type(name, 2, index, "an integer")
        if not 0 <= index < len(text):
            raise index_error(name, index, "a string", len(text))
        return character(text[index])

    def store(new: Any, text: Any, index: Any) -> Any:
        raise immutable(f"(setf {name})")

    library.builtin(name, "(string index)")(char)
    library.builtin(f"(setf {name})", "(new string index)")(store)


_reader("char")
_reader("schar")


def _cased(name: str, change: Callable[[str], str]) -> None:
    def cased(designator: Any, *, start: Any = 0, end: Any = NIL) -> Any:
        text = text_of(name, 1, designator)
        first, last = bounds(name, len(text), start, end)
        return text[:first] + change(text[first:last]) + text[last:]

    library.builtin(name, "(string &key start end)")(cased)


def capitalized(text: str) -> str:
    """Each run of letters and digits with its first letter in upper case and the rest in lower."""
    return re.sub(r"[^\W_]+", lambda word: upper(word[0][:1]) + lower(word[0][1:]), text)


_cased("string-upcase", upper)
_cased("string-downcase", lower)
_cased("string-capitalize", capitalized)


def _trimmer(name: str, left: bool, right: bool) -> None:
    def trim(bag: Any, designator: Any) -> Any:
        text = text_of(name, 2, designator)
        letters = {chr(code_of(name, 1, item)) for item in items_of(name, 1, bag)}
        first, last = 0, len(text)
        while left and first < last and text[first] in letters:
            first += 1
        while right and first < last and text[last - 1] in letters:
            last -= 1
        return text[first:last]

    library.builtin(name, "(character-bag string)")(trim)


_trimmer("string-trim", True, True)
_trimmer("string-left-trim", True, False)
_trimmer("string-right-trim", False, True)


def _fold_all(text: str) -> str:
    return "".join(chr(folded(ord(c))) for c in text)


def _comparison(name: str, fold: bool, accepts: Callable[[int], bool], only_truth: bool) -> None:
    """`accepts` judges the sign of the difference (-1, 0, 1); the answer is t or the mismatch."""

    def compare(a: Any, b: Any, *, start1: Any = 0, end1: Any = NIL, start2: Any = 0, end2: Any = NIL) -> Any:
        left, right = text_of(name, 1, a), text_of(name, 2, b)
        first, last = bounds(name, len(left), start1, end1)
        other, end = bounds(name, len(right), start2, end2)
        left, right = left[first:last], right[other:end]
        if fold:
            left, right = _fold_all(left), _fold_all(right)
        if not accepts((left > right) - (left < right)):
            return NIL
        if only_truth:
            return T
        shorter = min(len(left), len(right))
        return first + next((at for at in range(shorter) if left[at] != right[at]), shorter)

    library.builtin(name, "(string-1 string-2 &key start1 end1 start2 end2)")(compare)


for _sign, _word, _accepts, _truth in (
    ("=", "equal", (0,), True),
    ("/=", "not-equal", (-1, 1), False),
    ("<", "lessp", (-1,), False),
    (">", "greaterp", (1,), False),
    ("<=", "not-greaterp", (-1, 0), False),
    (">=", "not-lessp", (1, 0), False),
):
    _comparison(f"string{_sign}", False, _accepts.__contains__, _truth)
    _comparison(f"string-{_word}", True, _accepts.__contains__, _truth)


@library.builtin("parse-integer", "(string &key start end radix junk-allowed)", many=True)
def parse_integer(text: Any, *, start: Any = 0, end: Any = NIL, radix: Any = 10, junk_allowed: Any = NIL) -> Any:
    """The integer a string spells and where its digits end; E-VALUE-007 for what spells none."""
    string("parse-integer", 1, text)
    first, last = bounds("parse-integer", len(text), start, end)
    if type(radix) is not int or not 2 <= radix <= 36:
        raise wrong_type("parse-integer", 2, radix, "a base from 2 to 36 for :radix")
    at = first
    while at < last and text[at].isspace():
        at += 1
    digits = at + 1 if at < last and text[at] in "+-" else at
    stop = digits
    while stop < last and _is_digit(text[stop], radix):
        stop += 1
    end_of_text = stop
    while junk_allowed is NIL and end_of_text < last and text[end_of_text].isspace():
        end_of_text += 1
    if stop - digits > MOST_BITS // 8:
        raise too_large("parse-integer")
    if stop == digits or (junk_allowed is NIL and end_of_text < last):
        if junk_allowed is not NIL:
            return MV((NIL, at if stop == digits == at else stop))
        raise error(
            "E-VALUE-007",
            f"parse-integer: {brief(text[first:last])} is no integer in base {radix}",
            help=":junk-allowed t gives nil instead",
        )
    return MV((int(text[at:stop], radix), end_of_text))


def _is_digit(letter: str, radix: int) -> bool:
    return letter.isascii() and letter.isalnum() and int(letter, 36) < radix
