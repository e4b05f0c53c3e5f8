"""The constants of the standard, and the variables that its functions look at."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL, T, lisp_list, symbol
from sexpgpu.lang.library.check import MOST_ELEMENTS
from sexpgpu.lang.style import STANDARD

_FIXNUM: Final = 1 << 62
_MOST_ARGUMENTS: Final = 100_000
_KEYWORDS: Final = "&optional &rest &body &key &allow-other-keys &aux &whole &environment"

_OF_FLOATS: Final[dict[str, float]] = {
    "most-positive-{}": sys.float_info.max,
    "most-negative-{}": -sys.float_info.max,
    "least-positive-{}": 5e-324,
    "least-negative-{}": -5e-324,
    "least-positive-normalized-{}": sys.float_info.min,
    "least-negative-normalized-{}": -sys.float_info.min,
    "{}-epsilon": math.nextafter(2.0**-53, 1.0),  # the smallest float that makes 1 larger when added
    "{}-negative-epsilon": math.nextafter(2.0**-54, 1.0),
}
"""By the pattern of their names; every float is a double, so all formats have the same."""

_BOOLE: Final = (
    "clr", "and", "andc2", "1", "andc1", "2", "xor", "ior", "nor", "eqv", "c2", "orc2", "c1", "orc1", "nand", "set",
)  # fmt: skip
"""The operations of `boole` in the order of their numbers."""


def _constants() -> dict[str, Any]:
    formats = ("double-float", "single-float", "short-float", "long-float")
    return {
        "pi": math.pi,
        "most-positive-fixnum": _FIXNUM - 1,
        "most-negative-fixnum": -_FIXNUM,
        **{name.format(kind): value for kind in formats for name, value in _OF_FLOATS.items()},
        "char-code-limit": sys.maxunicode + 1,
        "call-arguments-limit": _MOST_ARGUMENTS,
        "lambda-parameters-limit": _MOST_ARGUMENTS,
        "multiple-values-limit": _MOST_ARGUMENTS,
        "array-rank-limit": 65,
        "array-dimension-limit": MOST_ELEMENTS + 1,
        "array-total-size-limit": MOST_ELEMENTS + 1,
        "lambda-list-keywords": lisp_list([symbol(word) for word in _KEYWORDS.split()]),
        **{f"boole-{name}": number for number, name in enumerate(_BOOLE)},
    }


def _specials() -> dict[str, Any]:
    unused = ("pretty", "readably", "lines", "right-margin", "miser-width")
    return {
        "*standard-output*": T,
        "*gensym-counter*": 0,
        **{f"*print-{name}*": value for name, value in STANDARD.items()},
        "*print-escape*": T,
        **{f"*print-{name}*": NIL for name in unused},
    }


library = Library("variables", constants=_constants(), specials=_specials())
