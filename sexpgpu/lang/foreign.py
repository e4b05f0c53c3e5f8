"""Values that the language itself does not know: tensors, models, loaders, schedules."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import SxError, error
from sexpgpu.lang.forms import MV, NIL


class Foreign:
    """Base class of values that come from another part of the product; each method has a refusing default."""

    __slots__ = ()

    def lisp_generic(self, name: str, args: tuple[Any, ...], /) -> Any:
        """The generic function `name` (+, expt, max, =, ...) met this value among `args` (keywords included)."""
        raise error("E-TYPE-001", f"{name} cannot take {self.lisp_print()}")

    def lisp_refused(self, message: str, needs: str, /) -> SxError:
        """The error of a library function that needs something else, `a list`, where this value stands."""
        self.lisp_test()
        return error("E-TYPE-001", message)

    def lisp_call(self, *args: Any) -> Any:
        """`(funcall this ...)`."""
        raise error("E-TYPE-002", f"{self.lisp_print()} is not a function")

    def lisp_test(self) -> bool:
        """This value as the test of `if` and its kin."""
        return True

    def lisp_print(self) -> str:
        """How the printer shows this value."""
        return f"#<{type(self).__name__.lower()}>"


def truth(value: Any) -> bool:
    """Whether `value` counts as true in a test; a `Foreign` decides for itself (a tensor refuses)."""
    if value is NIL:
        return False
    if isinstance(value, Foreign):
        return value.lisp_test()
    if type(value) is MV:
        return bool(value.values) and truth(value.values[0])
    return True


def foreign_among(args: tuple[Any, ...]) -> Foreign | None:
    """The first `Foreign` among `args`, whose `lisp_generic` decides."""
    for arg in args:
        if isinstance(arg, Foreign):
            return arg
    return None
