"""Generic names hand a `Foreign` argument over; the rest of the library refuses it by name."""

from __future__ import annotations

from typing import Any

import pytest

from sexpgpu.diag import SxError
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import keyword
from sexpgpu.lang.library import standard_libraries
from sexpgpu.lang.printer import print_form

TABLE = {name: builtin for library in standard_libraries() for name, builtin in library.table.items()}
X, AXIS = "x", keyword("axis")


class Node(Foreign):
    """A value that records what was asked of it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def lisp_generic(self, name: str, args: tuple[Any, ...], /) -> Node:
        return Node(f"({' '.join([name, *map(print_form, args)])})")

    def lisp_print(self) -> str:
        return self.text


@pytest.mark.parametrize(
    ("name", "args", "asked"),
    [
        ("+", (X, 1.0), "(+ x 1.0)"),
        ("+", (1, 2, X), "(+ 3 x)"),
        ("+", (X,), "(+ x)"),
        ("*", (X, X, 2), "(* (* x x) 2)"),
        ("-", (X,), "(- x)"),
        ("-", (1, X), "(- 1 x)"),
        ("/", (X, 2), "(/ x 2)"),
        ("/", (X,), "(/ 1 x)"),
        ("=", (X, 0), "(= x 0)"),
        ("<", (0, X, 1), "(< 0 x 1)"),
        ("/=", (X, 1), "(/= x 1)"),
        ("max", (X, 0), "(max x 0)"),
        ("min", (1, 2, X), "(min 1 x)"),
        ("1+", (X,), "(1+ x)"),
        ("expt", (X, 2), "(expt x 2)"),
        ("mod", (X, 2), "(mod x 2)"),
        ("floor", (X,), "(floor x)"),
        ("round", (X,), "(round x)"),
        ("abs", (X,), "(abs x)"),
        ("sqrt", (X,), "(sqrt x)"),
        ("exp", (X,), "(exp x)"),
        ("log", (X,), "(log x)"),
        ("tanh", (X,), "(tanh x)"),
        ("signum", (X,), "(signum x)"),
        ("length", (X,), "(length x)"),
        ("reverse", (X,), "(reverse x)"),
        ("sort", (X, AXIS, 0), "(sort x :axis 0)"),
        ("sort", (X,), "(sort x)"),
        ("zerop", (X,), "(zerop x)"),
    ],
)
def test_the_foreign_value_decides(name: str, args: tuple[Any, ...], asked: str) -> None:
    given = [Node("x") if arg is X else arg for arg in args]
    assert TABLE[name].call(*given).text == asked


def test_a_wrong_argument_beside_a_foreign_one_is_refused() -> None:
    with pytest.raises(SxError, match='argument 3 is the string "a", not a number'):
        TABLE["+"].call(Node("x"), 1, "a")


@pytest.mark.parametrize("name", ["car", "evenp", "string-upcase", "char-code", "elt", "gcd"])
def test_other_functions_name_the_foreign_value(name: str) -> None:
    function = TABLE[name]
    args = (Node("#<tensor f32[2]>"),) + (0,) * (len(function.parameters.required) - 1)
    with pytest.raises(SxError, match=r"#<tensor f32\[2\]>"):
        function.call(*args)
