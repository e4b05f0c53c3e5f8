"""Machines of one run meet: machine 0 listens, the others come and say what they are about to run, all is compared.

Machine 0 listens at one place until everybody is there, then no more. A machine that is still compiling says that it is
coming. Whoever connects and is no machine of a run says nothing for too long, or what is no hello: he is let go, and
the others wait for him no moment longer. A machine that is not going to begin comes nevertheless, to say why, and
nobody waits for it.
"""

from __future__ import annotations

import errno
import math
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from attrs import define, field, frozen

from sexpgpu.diag import SxError, error
from sexpgpu.runtime.wire import PREFIX, Bounds, Kind, Lost, head, lengths, parsed

Facts = Mapping[str, str]
"""What has to be the same everywhere, by what it is called, in the order in which it is compared."""
HELLOS = Bounds(64 << 10, 0)
_GUESTS = 64
PATIENCE = 10.0
"""Seconds from a connection to its hello."""
LOOK = 0.2
"""Seconds between two looks at whether the run is to stop."""
_NEWS = 30.0  # seconds between two words on the waiting
FAREWELL = 5.0
"""Seconds that a machine which is not going to begin has to say so."""


_TAKEN = "another machine 0 may run there: each machine has a SEXPGPU_NODE_RANK of its own"


class Stopped(Exception):
    """A signal stops the run before it has begun."""


@frozen
class Place:
    """Where machine 0 listens, and the seconds that everybody has to come."""

    host: str
    port: int
    wait: float

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def unheard(line: str) -> None:
    """Nobody hears of the waiting."""


@define
class Patience:
    """How long a machine has waited at a place, which it says from time to time."""

    place: Place
    stopped: Callable[[], bool]
    say: Callable[[str], None]
    _began: float = field(factory=time.monotonic, init=False)
    _said: float = field(default=0.0, init=False)

    @property
    def left(self) -> float:
        return self._began + self.place.wait - time.monotonic()

    def lasts(self, whom: str, beyond: float = 0.0) -> bool:
        """Whether there is time left to wait for somebody, seconds `beyond` the wait among it; `Stopped` where the run
        is to stop.
        """
        if self.stopped():
            raise Stopped
        waited = time.monotonic() - self._began
        if waited - self._said >= _NEWS:
            self._said = waited
            self.say(f"waiting for {whom} at {self.place}, {waited:.0f} s of {self.place.wait:g} s")
        return self.left + beyond > 0


def listen(place: Place) -> socket.socket:
    """The socket of machine 0; `E-DP-005` where this machine cannot listen there."""
    try:
        family, _, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_GUESTS)
    except OSError as fault:
        raise error(
            "E-DP-005",
            f"machine 0 cannot listen at {place}",
            expected="an address of this machine and a port that is free, in SEXPGPU_RENDEZVOUS",
            actual=fault.strerror or str(fault),
            help=_TAKEN if fault.errno == errno.EADDRINUSE else None,
        ) from None


@define(eq=False)
class _Guest:
    """A connection that has not said its hello yet: of machine `number`, once it has said that it is coming."""

    socket: socket.socket
    address: str
    until: float
    number: int | None = None
    said: bytearray = field(factory=bytearray)

    def heard(self) -> tuple[Kind, dict[str, object]] | None:
        """What it said, once that is whole; `Lost` where it is neither hello nor that it is coming."""
        got = self.socket.recv(self._wanted() - len(self.said))
        if not got:
            raise Lost("its connection has ended")
        self.said += got
        if len(self.said) < PREFIX or len(self.said) < self._wanted():
            return None
        kind, header = Kind(lengths(self.said[:PREFIX], HELLOS)[0]), parsed(self.said[PREFIX:])
        self.said.clear()
        return kind, header

    def _wanted(self) -> int:
        """The bytes of what it says, as far as is known."""
        if len(self.said) < PREFIX:
            return PREFIX
        kind, header, _ = lengths(self.said[:PREFIX], HELLOS)
        if kind not in (Kind.HELLO, Kind.COMING):
            raise Lost("it did not begin with a hello")
        return PREFIX + header


@define(eq=False)
class Arrivals:
    """Machine 0 waits for the others. `facts` are its own; `arrived` are the machines that may begin, by number."""

    listener: socket.socket
    place: Place
    count: int
    facts: Facts
    arrived: dict[int, tuple[socket.socket, str]] = field(factory=dict, init=False)
    _guests: dict[socket.socket, _Guest] = field(factory=dict, init=False)
    _refusal: bytes | None = field(default=None, init=False)  # what everybody is told where nothing begins
    _know: set[int] = field(factory=set, init=False)  # the machines that know it

    def run(self, stopped: Callable[[], bool], say: Callable[[str], None] = unheard) -> list[socket.socket]:
        """Everybody's connection in the order of machines, from 1; `say` hears of long waiting. `E-DP-006` where a
        machine differs, `E-DP-007` where one does not come, be it that it says so.
        """
        patience = Patience(self.place, stopped, say)
        with selectors.DefaultSelector() as looking:
            looking.register(self.listener, selectors.EVENT_READ)
            while len(self.arrived) < self.count - 1:
                if not patience.lasts(self._absent()):
                    raise self._missing()
                self._turn(looking)
            for guest in list(self._guests.values()):
                self._dismiss(looking, guest)
        connections = [self.arrived[number][0] for number in sorted(self.arrived)]
        for each in connections:
            each.setblocking(True)
        return connections

    def turn_away(self, refusal: bytes | None = None) -> None:
        """Nothing begins: whoever has come or comes within `FAREWELL` seconds is told why, by a frame; by what the
        others were told already where none is given, or not at all. It takes no longer than until all know.
        """
        if refusal is not None:
            self._tell(refusal)
        deadline = time.monotonic() + FAREWELL
        with selectors.DefaultSelector() as looking:
            looking.register(self.listener, selectors.EVENT_READ)
            for guest in self._guests:
                looking.register(guest, selectors.EVENT_READ)
            while self._refusal is not None and len(self._know) < self.count - 1 and time.monotonic() < deadline:
                self._turn(looking)

    def close(self) -> None:
        """Let go of everybody."""
        for connection in [*self._guests, *(each for each, _ in self.arrived.values())]:
            connection.close()

    def _turn(self, looking: selectors.BaseSelector) -> None:
        """Whatever there is to read now, or soon."""
        for key, _ in looking.select(LOOK):
            self._look(looking, key.fileobj)
        for late in [g for g in self._guests.values() if time.monotonic() > g.until]:
            self._dismiss(looking, late)

    def _look(self, looking: selectors.BaseSelector, ready: object) -> None:
        if ready is self.listener:
            self._accept(looking)
        elif isinstance(ready, socket.socket) and ready in self._guests:
            guest = self._guests[ready]
            try:
                heard = guest.heard()
            except BlockingIOError:
                return
            except (Lost, OSError):
                self._dismiss(looking, guest)
                return
            if heard is not None and heard[0] is Kind.COMING:
                self._expect(looking, guest, heard[1])
            elif heard is not None:
                self._meet(looking, guest, heard[1])
        else:
            # A machine that has arrived has nothing to say yet: it has gone, and may come again. A guest who is neither
            # was let go in this look.
            for number in [n for n, (connection, _) in self.arrived.items() if connection is ready]:
                looking.unregister(self.arrived[number][0])
                self.arrived.pop(number)[0].close()

    def _accept(self, looking: selectors.BaseSelector) -> None:
        with suppress(OSError):  # it has gone already
            connection, address = self.listener.accept()
            connection.setblocking(False)
            if len(self._guests) == _GUESTS:
                self._dismiss(looking, min(self._guests.values(), key=lambda guest: guest.until))
            self._guests[connection] = _Guest(connection, str(address[0]), time.monotonic() + PATIENCE)
            looking.register(connection, selectors.EVENT_READ)

    def _dismiss(self, looking: selectors.BaseSelector, guest: _Guest) -> None:
        looking.unregister(guest.socket)
        del self._guests[guest.socket]
        guest.socket.close()

    def _expect(self, looking: selectors.BaseSelector, guest: _Guest, said: Mapping[str, object]) -> None:
        """A machine is there, and takes as long as it takes to compile."""
        number = said.get("node")
        if not isinstance(number, int) or isinstance(number, bool):
            self._dismiss(looking, guest)
        elif self._refusal is not None:
            self._inform(guest.socket, number)
            self._dismiss(looking, guest)
        elif number == 0:
            self._refuse_number(guest, number)
        else:
            guest.number, guest.until = number, math.inf

    def _meet(self, looking: selectors.BaseSelector, guest: _Guest, hello: Mapping[str, object]) -> None:
        number, told = hello.get("node"), hello.get("facts")
        if not isinstance(number, int) or isinstance(number, bool) or not isinstance(told, dict):
            self._dismiss(looking, guest)
            return
        if self._refusal is not None:
            self._inform(guest.socket, number)
            self._dismiss(looking, guest)
            return
        if "absent" in told:
            self._know.add(number)
            self._tell(head(Kind.LEFT, {"node": number, "reason": str(told["absent"])}))
            raise not_coming(number, str(told["absent"]))
        for name, own in self.facts.items():
            if told.get(name) != own:
                told_of = str(told.get(name))
                self._refuse(guest, number, f"machine {number} differs from machine 0: {name}", own, told_of)
        if number not in range(1, self.count) or number in self.arrived:
            self._refuse_number(guest, number)
        del self._guests[guest.socket]
        self.arrived[number] = (guest.socket, guest.address)

    def _refuse_number(self, guest: _Guest, number: int) -> None:
        there = self.arrived[number][1] if number in self.arrived else self.place.host
        expected = "another number for each" if self.count > 2 or number == 0 else "1"
        self._refuse(guest, number, f"two machines are number {number}", expected, f"{there} and {guest.address}")

    def _refuse(self, guest: _Guest, number: int, message: str, expected: str, actual: str) -> None:
        self._tell(head(Kind.REFUSED, {"message": message, "expected": expected, "actual": actual}))
        self._inform(guest.socket, number)
        raise different(message, expected, actual)

    def _tell(self, refusal: bytes) -> None:
        """Tell all machines that are there why nothing begins."""
        self._refusal = refusal
        for number, (connection, _) in self.arrived.items():
            self._inform(connection, number)
        for guest in self._guests.values():
            if guest.number is not None:
                self._inform(guest.socket, guest.number)

    def _inform(self, connection: socket.socket, number: int) -> None:
        if number in range(1, self.count):
            self._know.add(number)
        with suppress(OSError):
            connection.send(self._refusal or b"")

    def _absent(self) -> str:
        absent = [str(number) for number in range(1, self.count) if number not in self.arrived]
        return f"machine {absent[0]}" if len(absent) == 1 else f"machines {', '.join(absent)}"

    def _missing(self) -> SxError:
        found = error(
            "E-DP-007",
            f"{self._absent()} did not arrive at {self.place} within {self.place.wait:g} s",
            expected=f"{self.count} machines",
            actual=str(1 + len(self.arrived)),
            help="is it started, with this SEXPGPU_RENDEZVOUS, and can it reach that port? SEXPGPU_NODE_WAIT is how "
            "many seconds machines wait",
        )
        self._tell(head(Kind.LEFT, {"node": 0, "reason": f"E-DP-007: {found.diagnostic.message}"}))
        self._know.update(range(1, self.count))  # the others had their time
        return found


def not_coming(number: int, why: str) -> SxError:
    """`E-DP-007` of a machine that ended before the run began."""
    return error(
        "E-DP-007",
        f"machine {number} ended before the run began",
        actual=why,
        help="mend what ended it, then start every machine again",
    )


def different(message: str, expected: str, actual: str) -> SxError:
    """`E-DP-006` of machines that are not about to do the same."""
    return error(
        "E-DP-006",
        message,
        expected=expected,
        actual=actual,
        help="every machine takes the same files, flags, number of devices and checkpoints",
    )
