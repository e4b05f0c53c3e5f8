"""What a person sees of a run on standard error: a bar that is drawn over, or a line every few seconds."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Mapping
from typing import TextIO

from attrs import define, field

_DRAW_PERIOD = 0.1
_LINE_PERIOD = 5.0


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
    """Reports steps to `stream`: a bar on a terminal, lines elsewhere; `quiet` reports nothing."""

    stream: TextIO
    steps: int
    quiet: bool = False
    color: bool = False
    _last: float = field(default=0.0, init=False)
    _bar: _Bar | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if self.stream.isatty() and not self.quiet:
            self._bar = _Bar(self.stream, self.steps, self.color)

    def step(self, done: int, loss: float, rates: Mapping[str, float], eta: float) -> None:
        """`done` steps are done; `rates` are counters a second."""
        now = time.monotonic()
        period = _DRAW_PERIOD if self._bar else _LINE_PERIOD
        if self.quiet or (now - self._last < period and done < self.steps):
            return
        self._last = now
        speed = "  ".join(f"{_short(rate)} {name}/s" for name, rate in rates.items())
        left = f"eta {_clock(eta)}" if done < self.steps else ""
        if self._bar is not None:
            self._bar.show(done, f"loss {loss:.4f}", speed, left)
        else:
            parts = (f"step {done}/{self.steps}", f"loss {loss:.4f}", speed, left)
            self._write("  ".join(part for part in parts if part) + "\n")

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._bar is not None:
            self._bar.say(text)
        elif not self.quiet:
            self._write(f"{text}\n")

    def finish(self) -> None:
        """Leaves the terminal as it was, the last state of the bar above."""
        if self._bar is not None:
            self._bar.stop()

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


class _Bar:
    """A rich progress bar that is drawn when told to: no thread of its own beside the loop."""

    def __init__(self, stream: TextIO, steps: int, color: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = [
            TextColumn("step {task.completed}/{task.total}", markup=False),
            BarColumn(bar_width=24),
            *(TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("loss", "speed", "left")),
        ]
        console = Console(file=stream, no_color=not color, highlight=False)
        self._progress = RichProgress(*columns, console=console, auto_refresh=False)
        self._task = self._progress.add_task("", total=steps, loss="", speed="", left="")

    def show(self, done: int, loss: str, speed: str, left: str) -> None:
        self._progress.start()
        self._progress.update(self._task, completed=done, loss=loss, speed=speed, left=left, refresh=True)

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False)

    def stop(self) -> None:
        self._progress.stop()


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.1f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
