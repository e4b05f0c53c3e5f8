"""What the reader decides by evaluating: feature expressions (`#+`), `#.form`, and literals that are made by a form."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from sexpgpu.lang.forms import NIL, Cons, Symbol, keyword, lisp_list, symbol

READ_EVAL: Final = symbol("read-eval")
"""The head of the form that stands for `#.form` until its file is evaluated up to it."""

_FEATURES: Final = frozenset({"sexpgpu", "common-lisp"})


def has_feature(test: Any) -> bool:
    """Whether a feature expression holds: a name, or `(and ...)`, `(or ...)`, `(not ...)` of such."""
    if isinstance(test, Symbol):
        return test.name in _FEATURES
    if isinstance(test, Cons) and isinstance(test.car, Symbol):
        parts = [has_feature(part) for part in test.cdr] if isinstance(test.cdr, Cons) else []
        return {"and": all(parts), "or": any(parts), "not": not any(parts)}.get(test.car.name, False)
    return False


def literal(prefix: str, datum: Any) -> Any:
    """The form that makes what `#nA` or `#S` before a datum stands for; behind any other prefix the datum itself."""
    quoted = lisp_list((symbol("quote"), datum))
    if prefix.startswith("#a"):
        return lisp_list((symbol("%read-array"), int(prefix[2:]), quoted))
    return lisp_list((symbol("%read-structure"), quoted)) if prefix == "#s" else datum


def substitute_read_eval(datum: Any, evaluate: Callable[[Any], Any]) -> Any:
    """`datum` with every `#.form` replaced by the value that `evaluate` gives for the form."""
    if not isinstance(datum, Cons):
        return [substitute_read_eval(item, evaluate) for item in datum] if type(datum) is list else datum
    if datum.car is READ_EVAL:
        return evaluate(substitute_read_eval(datum.cdr.car, evaluate))
    cell: Any = datum
    while isinstance(cell, Cons):
        cell.car = substitute_read_eval(cell.car, evaluate)
        if isinstance(cell.cdr, Cons) and cell.cdr.car is READ_EVAL and cell.cdr.cdr.cdr is NIL:
            cell.cdr = evaluate(substitute_read_eval(cell.cdr.cdr.car, evaluate))
            break
        cell = cell.cdr
    return datum


def required_as(form: Any) -> list[str]:
    """The aliases that a top-level form gives to modules: `(require "x" :as m)`."""
    if not isinstance(form, Cons) or form.car is not symbol("require"):
        return []
    return [name.name for key, name in pairwise(form) if key is keyword("as") and isinstance(name, Symbol)]
