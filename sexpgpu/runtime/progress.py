"""What a person sees of a run on standard error: one line that is drawn over, or a line every few seconds."""

from __future__ import annotations

import shutil
import statistics
import time
from collections import deque
from collections.abc import Mapping
from typing import TextIO

from attrs import define, field

_DRAW_PERIOD = 0.1
_LINE_PERIOD = 5.0
_CLEAR = "\r\x1b[2K"
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


@define
class Pace:
    """How fast steps go, from the last of them; the median, so that one slow step does not move the
    estimate.
    """

    _seconds: deque[float] = field(factory=lambda: deque(maxlen=64), init=False)

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)

    @property
    def step_seconds(self) -> float:
        return statistics.median(self._seconds) if self._seconds else 0.0

    def remaining(self, steps: int) -> float:
        return self.step_seconds * steps


@define
class Progress:
    """Reports steps to `stream`; `quiet` reports nothing, `color` allows dimmed text on a terminal."""

    stream: TextIO
    steps: int
    quiet: bool = False
    color: bool = False
    _terminal: bool = field(init=False)
    _last: float = field(default=0.0, init=False)
    _drawn: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._terminal = self.stream.isatty()

    def step(self, done: int, loss: float, rates: Mapping[str, float], eta: float) -> None:
        """`done` steps are done; `rates` are counters a second."""
        now = time.monotonic()
        period = _DRAW_PERIOD if self._terminal else _LINE_PERIOD
        if self.quiet or (now - self._last < period and done < self.steps):
            return
        self._last = now
        speed = "  ".join(f"{_short(rate)} {name}/s" for name, rate in rates.items())
        rest = "  ".join(part for part in (speed, f"eta {_clock(eta)}" if done < self.steps else "") if part)
        head = f"step {done}/{self.steps}  loss {loss:.4f}"
        if not self._terminal:
            self._write(f"{head}  {rest}".rstrip() + "\n")
            return
        # A line that wraps could not be drawn over.
        rest = rest[: max(0, shutil.get_terminal_size().columns - len(head) - 3)]
        self._drawn = True
        self._write(f"{_CLEAR}{head}  {_DIM}{rest}{_PLAIN}" if self.color else f"{_CLEAR}{head}  {rest}")

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.quiet:
            self.finish()
            self._write(f"{text}\n")

    def finish(self) -> None:
        """Ends a line that was being drawn over."""
        if self._drawn:
            self._drawn = False
            self._write("\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.1f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
