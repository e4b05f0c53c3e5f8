"""How printing functions print: what the variables `*print-base*` and its like ask for at the moment."""

from __future__ import annotations

from typing import Any, Final

from attrs import frozen

from sexpgpu.diag import SxError, error
from sexpgpu.lang.active import active
from sexpgpu.lang.forms import NIL, Symbol, T, keyword, symbol


@frozen
class Style:
    """The settings of the printer. `length` and `level` None: no bound; `case` is `:downcase` and its like."""

    base: int = 10
    radix: bool = False
    case: str = "downcase"
    length: int | None = None
    level: int | None = None
    circle: bool = False
    gensym: bool = True
    array: bool = True


PLAIN: Final = Style()

_CASES: Final = ("downcase", "upcase", "capitalize")
STANDARD: Final[dict[str, Any]] = {
    "base": 10,
    "radix": NIL,
    "case": keyword("downcase"),
    "length": NIL,
    "level": NIL,
    "circle": NIL,
    "gensym": T,
    "array": T,
}
"""What the variable of each setting holds when the language starts."""

_VARIABLES: Final = [(name, symbol(f"*print-{name}*"), value) for name, value in STANDARD.items()]
_ESCAPE: Final = symbol("*print-escape*")


def current_style() -> Style:
    """The style that the printer's variables ask for now (E-VALUE-006 for a value that means nothing)."""
    variables = active().base.variables
    changed: dict[str, Any] = {}
    for name, key, standard in _VARIABLES:
        variable = variables.get(key)
        if variable is not None and variable.ref and variable.ref[0] is not standard and variable.ref[0] != standard:
            changed[name] = variable.ref[0]
    return style_with(changed) if changed else PLAIN


def style_with(changed: dict[str, Any], named: str = "*print-{}*") -> Style:
    """The standard style with the values of some settings, as Lisp writes them; `named` is how messages call them."""
    found: dict[str, Any] = {}
    for name, value in changed.items():
        if name == "base":
            ok, meant = type(value) is int and 2 <= value <= 36, value
        elif name == "case":
            ok = isinstance(value, Symbol) and value.name in _CASES
            meant = value.name if ok else None
        elif name in ("length", "level"):
            ok = value is NIL or (type(value) is int and value >= 0)
            meant = None if value is NIL else value
        else:
            ok, meant = True, value is not NIL
        if not ok:
            raise _meaningless(named.format(name), name, value)
        found[name] = meant
    return Style(**found)


def _meaningless(shown: str, name: str, value: Any) -> SxError:
    from sexpgpu.lang.printer import brief

    wanted = {"base": "an integer from 2 to 36", "case": ":downcase, :upcase or :capitalize"}
    return error(
        "E-VALUE-006", f"{shown} is {brief(value)}", expected=wanted.get(name, "nil or an integer of at least 0")
    )


def settings() -> dict[str, Any]:
    """The value of every setting now, as Lisp sees it."""
    variables = active().base.variables
    return {
        name: variables[key].ref[0] if key in variables and variables[key].ref else standard
        for name, key, standard in _VARIABLES
    }


def escaping() -> bool:
    """Whether `write` quotes strings and characters where it is not told."""
    variable = active().base.variables.get(_ESCAPE)
    return variable is None or not variable.ref or variable.ref[0] is not NIL
