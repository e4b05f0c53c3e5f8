"""The session whose code is running, for builtins that need its tables (function names, special variables)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sexpgpu.diag import error
from sexpgpu.lang.builtin import show
from sexpgpu.lang.conditions import TypeFault
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import Symbol, symbol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sexpgpu.lang.observe import Observer
    from sexpgpu.lang.session import Session

_stack: list[Session] = []


@contextmanager
def activated(session: Session) -> Iterator[None]:
    """Make `session` the active one for the time of the block."""
    _stack.append(session)
    try:
        yield
    finally:
        _stack.pop()


def active() -> Session:
    """The session whose code is running."""
    return _stack[-1]


def spend_steps(steps: int) -> None:
    """Count work as so many steps of the running session's budget; where none runs there is no budget."""
    if _stack:
        _stack[-1].spend(steps)


def active_observer() -> Observer | None:
    """Who is told the values of the code compiled now, if anybody."""
    return _stack[-1].observer if _stack else None


def as_function(designator: Any) -> Callable[..., Any]:
    """The Python callable that a function designator means: a function, a symbol naming one, or a `Foreign`.

    Raises E-TYPE-002 for anything else, E-NAME-002 for a symbol that names no function.
    """
    if isinstance(designator, Symbol):
        return active().function_named(designator)
    if callable(designator):
        return designator  # type: ignore[no-any-return]
    if isinstance(designator, Foreign):
        return designator.lisp_call
    wrong = error("E-TYPE-002", f"{show(designator)} is not a function")
    raise TypeFault(wrong.diagnostic, designator, symbol("function"))


def function_name(function: Callable[..., Any]) -> str:
    """The name a Lisp function prints with: `mlp`, `(setf mid)`, `lambda`."""
    name = getattr(function, "__qualname__", "")
    if name.startswith("builtin "):
        return str(name[len("builtin ") :])
    plain = str(getattr(function, "__name__", "function"))
    return plain.partition("#")[0] or plain
