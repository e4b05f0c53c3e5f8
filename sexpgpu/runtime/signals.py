"""Signals: stop after this step, checkpoint now."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from attrs import define, field

_STOP = (signal.SIGINT, signal.SIGTERM)


@define
class Signals:
    """Within the `with`: SIGINT and SIGTERM ask the loop to stop, SIGUSR1 asks for a checkpoint.

    The loop looks at `stop` (the signal's number) and `checkpoint` between any two calls of a graph. A second
    stop signal ends the process at once. Handlers are installed only from the main thread; elsewhere signals
    keep their meaning. `elsewhere` is a stop signal that another machine of the run got.
    """

    stop: int | None = None
    checkpoint: bool = False
    elsewhere: int | None = None
    _owner: int = field(factory=os.getpid, init=False)
    _before: dict[signal.Signals, Any] = field(factory=dict, init=False)

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (*_STOP, signal.SIGUSR1):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stopped(self) -> bool:
        return self.number is not None

    @property
    def number(self) -> int | None:
        """The signal that stops the run, whoever got it."""
        return self.stop if self.stop is not None else self.elsewhere

    def asked_elsewhere(self, stop: int | None, checkpoint: bool) -> None:
        """What signals asked of another machine. With its stop our first is no second one: schedulers stop each."""
        self.elsewhere = stop if self.elsewhere is None else self.elsewhere
        self.checkpoint = self.checkpoint or checkpoint

    def take_checkpoint_request(self) -> bool:
        """Whether a checkpoint was asked for since the last time."""
        asked, self.checkpoint = self.checkpoint, False
        return asked

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:  # a forked child must not answer for the run
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif number == signal.SIGUSR1:
            self.checkpoint = True
        elif self.stop is None:
            self.stop = number
        else:
            os._exit(128 + number)
