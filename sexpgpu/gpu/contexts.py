"""Several GPUs of one process: each call of the CUDA driver goes to the GPU whose context is current in the thread."""

from __future__ import annotations

from typing import Any

from attrs import define


@define(eq=False)
class Turn:
    """Whose context is current in the thread that trains; None where that is not known."""

    context: Any = None


@define(eq=False)
class InContext:
    """The bindings for one of several GPUs: before a function of theirs is called its context becomes the current one.

    That costs a call where another GPU was used before. A process with one GPU uses the bindings themselves.
    """

    _bindings: Any
    _context: Any
    _turn: Turn

    def enter(self) -> None:
        if self._turn.context is not self._context:
            (status,) = self._bindings.cuCtxSetCurrent(self._context)
            # A context that cannot be entered is told by the call that is to follow: it is refused as well.
            self._turn.context = self._context if status == self._bindings.CUresult.CUDA_SUCCESS else None

    def __getattr__(self, name: str) -> Any:
        self.enter()
        return getattr(self._bindings, name)
