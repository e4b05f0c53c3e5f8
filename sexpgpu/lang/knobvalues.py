"""What a knob may be: its options as `defknobs` says them, and whether a value is of its type and choices."""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve, frozen

from sexpgpu.diag import SxError, error, nearest
from sexpgpu.lang.analyze.grammar import Items, fault, malformed
from sexpgpu.lang.builtin import show
from sexpgpu.lang.edits import replaced
from sexpgpu.lang.forms import NIL, Cons, Source, Symbol, T, keyword, symbol
from sexpgpu.lang.library.typespec import is_type
from sexpgpu.lang.place import Place
from sexpgpu.lang.printer import BRIEF, print_form
from sexpgpu.lang.reader import QUOTE

KNOBS: Final = '(defknobs (name default [:type T] [:choices (value...)] [:doc "..."])...)'
_OPTIONS: Final = ("type", "choices", "doc")
_BOOLEAN: Final = symbol("boolean")


@frozen
class KnobDeclaration:
    """A knob as its `defknobs` entry declares it; values and the type are as the printer writes them."""

    name: str
    default: str
    type: str | None
    choices: tuple[str, ...]
    doc: str | None


def options_of(items: Items) -> dict[str, Any]:
    """The options of a knob (E-MACRO-001 for one that there is not, E-KNOB-005 or E-TYPE-004 for a wrong value)."""
    options: dict[str, Any] = {}
    for (key, where), (value, at) in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, Symbol) or key.name not in _OPTIONS:
            near = nearest(key.name, _OPTIONS) if isinstance(key, Symbol) else None
            fix = replaced(where, show(key), f":{near}") if near else ()
            raise malformed(
                where, KNOBS, f"a knob has no option {show(key)}", f"did you mean :{near}?" if near else None, fix
            )
        _check_option(key.name, value, at)
        options[key.name] = value
    return options


def _check_option(name: str, value: Any, place: Place) -> None:
    """A `:type` is a type, `:choices` a list of values and `:doc` a string."""
    if name == "type":
        try:
            is_type(NIL, value)
        except SxError as wrong:
            raise SxError(evolve(wrong.diagnostic, span=place.span)) from wrong
    elif name == "choices" and isinstance(value, Cons) and value.car is QUOTE:
        raise fault(place, "E-KNOB-005", ":choices is not evaluated", f"write {show(value.cdr.car)}, without the quote")
    elif name == "choices" and not isinstance(value, Cons):
        raise fault(place, "E-KNOB-005", f":choices takes a list of values, found {show(value)}")
    elif name == "doc" and not isinstance(value, str):
        raise fault(place, "E-KNOB-005", f":doc takes a string, found {show(value)}")


def as_kind(value: Any, spelt: str, default: Any, options: dict[str, Any]) -> Any:
    """A bare word given by `--set` is what the knob takes: a string, a keyword, a truth value, or a symbol.

    A string is the word as it is `spelt`; of a word with bars or backslashes it is the name that they make.
    """
    if isinstance(value, Symbol) and not value.keyword:
        if default in (T, NIL) and "choices" not in options:
            return {"true": T, "false": NIL}.get(value.name, value)
        if isinstance(default, str):
            return value.name if "|" in spelt or "\\" in spelt else spelt
        if isinstance(default, Symbol) and default.keyword and value is not NIL:
            return keyword(value.name)
    return value


def type_of(default: Any, options: dict[str, Any]) -> Any:
    """A knob's type: the declared one, or that of the default; None for any value.

    A symbol says nothing where `:choices` are given; nor does nil, which often stands for a value that is not there.
    """
    if options.get("type") is not None:
        return options["type"]
    if not isinstance(default, Symbol):
        return {int: symbol("integer"), float: symbol("real"), str: symbol("string")}.get(type(default))
    if "choices" in options:
        return None
    return _BOOLEAN if default is T else symbol("keyword") if default.keyword else None


def declaration(name: str, default: Any, options: dict[str, Any]) -> KnobDeclaration:
    """The declaration as plain data."""
    kind, choices, doc = type_of(default, options), options.get("choices"), options.get("doc")
    return KnobDeclaration(
        name,
        print_form(default),
        print_form(kind) if kind is not None else None,
        tuple(map(print_form, choices)) if isinstance(choices, Cons) else (),
        doc if isinstance(doc, str) else None,
    )


def check_value(name: Symbol, value: Any, default: Any, options: dict[str, Any], place: Place) -> None:
    """E-KNOB-003 where a value is not of the knob's type or not among its choices."""
    kind = type_of(default, options)
    if kind is not None and not is_type(value, kind):
        literal = kind is _BOOLEAN and place.source.file.startswith("--set ")
        raise _bad_value(name, value, "t, nil, true or false" if literal else f"of type {print_form(kind)}", place)
    choices = options.get("choices")
    if isinstance(choices, Cons) and not any(print_form(value) == print_form(choice) for choice in choices):
        raise _bad_value(name, value, f"one of {print_form(choices)[1:-1]}", place)


def as_float(name: Symbol, value: int, place: Place) -> float:
    """An integer given for a knob that has a real one (E-KNOB-003)."""
    try:
        return float(value)
    except OverflowError:
        raise _bad_value(name, value, "within the range of a float", place) from None


def bad_set(source: Source, wrong: str, wanted: str | None = None) -> SxError:
    """E-KNOB-003 of a value that a flag gives; `source` is `--set NAME` with the flag's text, which may be long."""
    text = source.text if len(source.text) <= BRIEF else source.text[:BRIEF] + "..."
    return error("E-KNOB-003", f"{source.file}={text}: {wrong}", expected=wanted)


def _bad_value(name: Symbol, value: Any, wanted: str, place: Place) -> SxError:
    if place.source.file.startswith("--set "):
        return bad_set(place.source, f"not {wanted}", wanted)
    return fault(place, "E-KNOB-003", f"the knob `{name.name}` cannot be {show(value)}: it is {wanted}")
