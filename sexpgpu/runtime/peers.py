"""The machines of a run, each a process: machine 0 leads, the others do their share of what it orders.

What every machine found of a step goes to machine 0, which puts it together and sends the whole to all: one place adds
up, so that everybody holds the same bits.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from attrs import define, field, frozen

from sexpgpu.diag import Diagnostic, SxError, error
from sexpgpu.runtime.joining import Knocking, join, refused_by_another, stay_away
from sexpgpu.runtime.meeting import Arrivals, Facts, Place, listen
from sexpgpu.runtime.signals import Signals
from sexpgpu.runtime.standing import LOOP
from sexpgpu.runtime.wire import Bounds, Frame, Kind, Lost, Wire, head

Gradients = Literal["bf16", "f32"]
SILENCE = 60.0
"""Seconds after which a machine that says nothing is lost, or fewer where machines wait for each other for less."""
STANDING = 600.0
"""Seconds for which a machine's loop may stand still, or more where machines wait for each other for long."""
_WAITS = 6  # times as long: 30 minutes where nothing is said
_HEADER = 1 << 30
_CODED = re.compile(r"[A-Z]+-[A-Z]+-[0-9]+: ")
_SHORT = 80  # characters of what a diagnostic met, that others are told


@frozen(eq=False)
class Told:
    """A header of JSON and a body of arrays."""

    header: Mapping[str, Any]
    buffers: Sequence[memoryview] = ()


@define(eq=False)
class Peers:
    """This process as machine `rank` of `count`. `gradients` is how those travel where nothing asks for all their bits.

    Whatever ends the run on one machine ends it on all: `E-DP-007` on the others.
    """

    rank: int
    count: int
    gradients: Gradients
    place: Place
    _listener: socket.socket | None = field(default=None, init=False)
    _knocking: Knocking | None = field(default=None, init=False)
    _wires: dict[int, Wire] = field(factory=dict, init=False)  # to all from machine 0, to machine 0 from each other
    _bounds: Bounds = field(default=Bounds(_HEADER, 0), init=False)
    _signals: Signals = field(factory=Signals, init=False)
    _gone: tuple[int, str] | None = field(default=None, init=False)
    _came: bool = field(default=False, init=False)  # the others have heard of this machine

    def __attrs_post_init__(self) -> None:
        if self.rank == 0:
            try:
                self._listener = listen(self.place)
            except SxError as fault:
                raise refused_by_another(self.place) or fault from None

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def knock(self) -> None:
        """Let machine 0 know that this one is coming, which may take a while."""
        if not self.leads:
            self._knocking = Knocking(self.place, self.rank)

    def meet(
        self, facts: Facts, largest: int, signals: Signals, say: Callable[[str], None] = lambda line: None
    ) -> None:
        """Begin together. `largest` bounds the bytes of arrays that a machine ever sends; `signals` that one machine
        gets are known to machine 0 with the next step; `say` hears of long waiting. `E-DP-006` and `E-DP-007` where
        nothing begins.
        """
        self._came = True
        self._bounds, self._signals = Bounds(_HEADER, largest), signals
        silence, patience = min(SILENCE, self.place.wait), max(STANDING, _WAITS * self.place.wait)
        if self._listener is None:
            connection = join(self.place, self.rank, facts, signals.stopped, say, self._knocked())
            self._wires = {0: Wire(connection, silence, patience)}
        else:
            arrivals = Arrivals(self._listener, self.place, self.count, facts)
            try:
                found = arrivals.run(signals.stopped, say)
            except BaseException as fault:
                if isinstance(fault, SxError):
                    arrivals.turn_away()
                arrivals.close()
                raise
            finally:
                self._listener.close()
                self._listener = None
            self._wires = {number: Wire(each, silence, patience) for number, each in enumerate(found, start=1)}
            self._send(Kind.WELCOME, Told({}))
        LOOP.began("its beginning")
        for wire in self._wires.values():
            wire.beat()

    def order(self, **what: Any) -> None:
        """Machine 0 has all others do something."""
        self._send(Kind.ORDER, Told(what))

    def next_order(self) -> Mapping[str, Any] | int:
        """What machine 0 wants done; at the end of the run its exit code."""
        frame = self._receive(0, (Kind.ORDER, Kind.END))
        return int(frame.header["code"]) if frame.kind is Kind.END else frame.header

    def exchange(self, own: Told, put_together: Callable[[Sequence[Told]], Told]) -> Told:
        """What machine 0 makes of what all machines tell, in their order."""
        if not self.leads:
            asked = {"stop": self._signals.stop, "checkpoint": self._signals.take_checkpoint_request()}
            self._send(Kind.MESSAGE, Told({**asked, "told": own.header}, own.buffers))
            frame = self._receive(0, (Kind.MESSAGE,))
            return Told(frame.header["told"], [memoryview(frame.body)])
        several = [own]
        for number in self._wires:
            frame = self._receive(number, (Kind.MESSAGE,))
            self._signals.asked_elsewhere(frame.header["stop"], frame.header["checkpoint"])
            several.append(Told(frame.header["told"], [memoryview(frame.body)]))
        whole = put_together(several)
        self._send(Kind.MESSAGE, Told({"told": whole.header}, whole.buffers))
        return whole

    def end(self, code: int) -> None:
        """Machine 0 ends the run, and with it the others end theirs."""
        for wire in self._wires.values():
            with suppress(Lost):  # it has missed nothing but this
                wire.send(Kind.END, {"code": code})

    def leave(self, why: Diagnostic) -> None:
        """This machine's run has failed, or is not going to begin: the others are told whose fault it was."""
        number, reason = self._gone or (self.rank, _told(why))
        if not self._came:
            self._came = True
            self._stay_away(reason)
        for wire in self._wires.values():
            with suppress(Lost):  # it knows, or is the one who left
                wire.send(Kind.LEFT, {"node": number, "reason": reason})

    def _stay_away(self, reason: str) -> None:
        """Tell the others why this machine does not come; it takes a few seconds at most."""
        if self._listener is None:
            stay_away(self.place, self.rank, reason, self._knocked())
            return
        arrivals = Arrivals(self._listener, self.place, self.count, {})
        try:
            arrivals.turn_away(head(Kind.LEFT, {"node": self.rank, "reason": reason}))
        finally:
            arrivals.close()

    def _knocked(self) -> socket.socket | None:
        """The connection that knocking gave, which is the caller's."""
        knocking, self._knocking = self._knocking, None
        return None if knocking is None else knocking.take()

    def close(self) -> None:
        early = self._knocked()
        if early is not None:
            early.close()
        for wire in self._wires.values():
            wire.close()
        self._wires = {}
        if self._listener is not None:
            self._listener.close()

    def _send(self, kind: Kind, told: Told) -> None:
        for number, wire in self._wires.items():
            try:
                wire.send(kind, told.header, told.buffers)
            except Lost as lost:
                raise self._left(number, self._last_words(wire) or (number, str(lost))) from None

    def _receive(self, number: int, wanted: Sequence[Kind]) -> Frame:
        try:
            frame = self._wires[number].receive(self._bounds)
        except Lost as lost:
            raise self._left(number, (number, str(lost))) from None
        if frame.kind is Kind.LEFT:
            raise self._left(number, _words(frame, number))
        if frame.kind not in wanted:
            raise self._left(number, (number, "it sent another message than the run is at"))
        return frame

    def _last_words(self, wire: Wire) -> tuple[int, str] | None:
        """What a machine that takes nothing any more had to say before it left."""
        try:
            frame = wire.receive(self._bounds)
        except Lost:
            return None
        return _words(frame, 0) if frame.kind is Kind.LEFT else None

    def _left(self, number: int, gone: tuple[int, str]) -> SxError:
        self._gone = gone
        return error(
            "E-DP-007",
            f"machine {gone[0]} left the run",
            actual=gone[1],
            help=("mend what ended it, then " if _CODED.match(gone[1]) else "")
            + "start every machine again with `--resume latest`",
        )


def _told(why: Diagnostic) -> str:
    """A diagnostic in a line: its code, what it says, the values that it met, its place."""
    found = f": {why.actual}" if why.actual is not None and len(why.actual) < _SHORT and "\n" not in why.actual else ""
    return f"{why.code}: {why.message}{found}" + (f" ({why.span})" if why.span is not None else "")


def _words(frame: Frame, number: int) -> tuple[int, str]:
    return int(frame.header.get("node", number)), str(frame.header.get("reason"))
