"""Lambda lists, ordinary and destructuring, taken apart into their sections."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.lang.analyze.grammar import Items, items_of, malformed
from sexpgpu.lang.builtin import Parameters, show
from sexpgpu.lang.forms import NIL, Cons, Symbol, keyword, symbol
from sexpgpu.lang.place import Place
from sexpgpu.lang.printer import print_form

OPTIONAL: Final = symbol("&optional")
REST: Final = symbol("&rest")
BODY: Final = symbol("&body")
KEY: Final = symbol("&key")
AUX: Final = symbol("&aux")
OTHER_KEYS: Final = symbol("&allow-other-keys")
WHOLE: Final = symbol("&whole")
ENVIRONMENT: Final = symbol("&environment")
_WORDS: Final = frozenset({OPTIONAL, REST, BODY, KEY, AUX, OTHER_KEYS, WHOLE, ENVIRONMENT})
_ORDER: Final = {OPTIONAL: 1, REST: 2, BODY: 2, KEY: 3, OTHER_KEYS: 4, AUX: 5}
SHAPE: Final = "(name... [&optional (name default)...] [&rest name] [&key (name default)...])"


class Part:
    """One parameter: what it binds (a symbol, or a pattern when destructuring), and its default if it has one."""

    __slots__ = ("default", "key", "pattern", "place", "supplied")

    def __init__(
        self, pattern: Any, place: Place, default: Any = NIL, supplied: Symbol | None = None, key: Symbol | None = None
    ) -> None:
        self.pattern = pattern
        self.place = place
        self.default = default
        self.supplied = supplied
        self.key = key


class LambdaList:
    """The sections of a lambda list."""

    __slots__ = ("aux", "environment", "keys", "optional", "other_keys", "required", "rest", "text", "whole")

    def __init__(self, text: str) -> None:
        self.text = text
        self.required: list[Part] = []
        self.optional: list[Part] = []
        self.rest: Part | None = None
        self.keys: list[Part] | None = None
        self.other_keys = False
        self.aux: list[Part] = []
        self.whole: Part | None = None
        self.environment: Part | None = None

    @property
    def parameters(self) -> Parameters:
        """The counts and names that messages and call checks use."""
        return Parameters(
            self.text,
            tuple(_label(p) for p in self.required),
            tuple(_label(p) for p in self.optional),
            _label(self.rest) if self.rest else None,
            None if self.keys is None else tuple(p.key.name for p in self.keys if p.key is not None),
            self.other_keys,
        )


def _label(part: Part) -> str:
    return part.pattern.name if isinstance(part.pattern, Symbol) else print_form(part.pattern)


def parse_lambda_list(form: Any, place: Place, destructuring: bool = False) -> LambdaList:
    """Take a lambda list apart; E-MACRO-001 at the element that is out of place."""
    found = LambdaList(print_form(form) if form is not NIL else "()")
    section: Symbol | None = None
    cell = form
    items: Items = []
    while isinstance(cell, Cons):
        items.append((cell.car, place.of_element(cell)))
        cell = cell.cdr
    dotted = cell if cell is not NIL else None
    if dotted is not None and not (destructuring and isinstance(dotted, Symbol)):
        raise malformed(place, SHAPE, f"a lambda list is a list of names, found {show(form)}")
    at = 0
    while at < len(items):
        item, where = items[at]
        at += 1
        if isinstance(item, Symbol) and item in _WORDS:
            if item in (WHOLE, ENVIRONMENT, REST, BODY):
                if at == len(items) or (not destructuring and item in (WHOLE, ENVIRONMENT, BODY)):
                    raise malformed(where, SHAPE, f"`{item.name}` does not belong here")
                part = Part(_target(items[at], destructuring), items[at][1])
                at += 1
                if item is WHOLE:
                    found.whole = part
                    continue
                if item is ENVIRONMENT:
                    found.environment = part
                    continue
                found.rest = part
            elif item is KEY:
                found.keys = []
            elif item is OTHER_KEYS:
                found.other_keys = True
            if section is not None and _ORDER[item] <= _ORDER[section]:
                raise malformed(where, SHAPE, f"`{item.name}` cannot follow `{section.name}`")
            if item is OTHER_KEYS and section is not KEY:
                raise malformed(where, SHAPE, "`&allow-other-keys` follows the &key parameters")
            section = item
        elif section is None:
            found.required.append(Part(_target((item, where), destructuring), where))
        elif section is OPTIONAL:
            found.optional.append(_optional(item, where, destructuring))
        elif section is KEY and found.keys is not None:
            found.keys.append(_key(item, where, destructuring))
        elif section is AUX:
            found.aux.append(_optional(item, where, destructuring))
        else:
            raise malformed(where, SHAPE, f"{show(item)} follows `{section.name}`, which takes one name")
    if dotted is not None:
        found.rest = Part(dotted, place)
    return found


def _target(item: tuple[Any, Place], destructuring: bool) -> Any:
    form, place = item
    if isinstance(form, Symbol) and not form.keyword and (form is not NIL or destructuring):
        return form
    if destructuring and isinstance(form, Cons):
        return form
    raise malformed(place, SHAPE, f"a parameter is a name, found {show(form)}")


def _optional(item: Any, place: Place, destructuring: bool) -> Part:
    if not isinstance(item, Cons):
        return Part(_target((item, place), destructuring), place)
    parts = items_of(item, place, "(name [default [supplied-p]])")
    if len(parts) > 3:
        raise malformed(place, "(name [default [supplied-p]])", f"{show(item)} has too many parts")
    supplied = _target(parts[2], False) if len(parts) == 3 else None
    default = parts[1][0] if len(parts) > 1 else NIL
    return Part(_target(parts[0], destructuring), place, default, supplied)


def _key(item: Any, place: Place, destructuring: bool) -> Part:
    if isinstance(item, Cons) and isinstance(item.car, Cons):
        names = items_of(item.car, place, "(:keyword name)")
        if len(names) != 2 or not isinstance(names[0][0], Symbol):
            raise malformed(place, "((:keyword name) [default [supplied-p]])", f"found {show(item)}")
        part = _optional(Cons(names[1][0], item.cdr), place, destructuring)
        part.key = names[0][0]
        return part
    part = _optional(item, place, False)
    part.key = keyword(part.pattern.name)
    return part
