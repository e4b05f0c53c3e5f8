"""Whether this process's loop gets on: what it began last, and when.

Everything that may take long in a loop says that it begins: calls of graphs, passes of a compilation, files of a
checkpoint. A process in which nothing has begun for very long is stuck in one of them, and other machines that wait for
it are told so; that it still sends beats says only that it has not died.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field


@define(eq=False)
class Standing:
    """`began` is called by the loop alone, `still` by any thread. `clock` counts seconds."""

    clock: Callable[[], float] = time.monotonic
    _last: tuple[float, str] = field(init=False)
    _waits: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._last = (self.clock(), "its beginning")

    def began(self, what: str) -> None:
        self._last = (self.clock(), what)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """It is another process's turn meanwhile."""
        self._waits = True
        try:
            yield
        finally:
            self._last = (self.clock(), self._last[1])  # before anybody looks at it again
            self._waits = False

    def still(self) -> tuple[float, str]:
        """The seconds since something began, none while others are waited for; and what that was."""
        at, what = self._last
        return (0.0 if self._waits else self.clock() - at), what


LOOP = Standing()
"""That of this process."""
