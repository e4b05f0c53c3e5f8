"""A machine behind the first comes to machine 0: it knocks, says what it will run, and waits until all are there.

It knocks before it compiles, so that machine 0 can tell it at once where nothing is going to begin, whatever takes
longer on which of them.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from attrs import define, field

from sexpgpu.diag import SxError, error
from sexpgpu.runtime.meeting import (
    FAREWELL,
    HELLOS,
    LOOK,
    PATIENCE,
    Facts,
    Patience,
    Place,
    different,
    not_coming,
    unheard,
)
from sexpgpu.runtime.wire import Frame, Kind, Lost, Wire

_KNOCK = 5.0  # seconds that one attempt to connect may take


@define(eq=False)
class Knocking:
    """Machine `number` lets machine 0 know that it is coming, from a thread, as soon as that listens."""

    place: Place
    number: int
    _connection: socket.socket | None = field(default=None, init=False)
    _over: threading.Event = field(factory=threading.Event, init=False)
    _thread: threading.Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="knocking", daemon=True)
        self._thread.start()

    def take(self) -> socket.socket | None:
        """The connection, which belongs to the caller, where there is one; no more knocking."""
        self._over.set()
        self._thread.join()
        found, self._connection = self._connection, None
        return found

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                connection = _knock(self.place, _KNOCK)
            except OSError:
                self._over.wait(LOOK)
                continue
            with suppress(Lost):
                Wire(connection, PATIENCE).send(Kind.COMING, {"node": self.number})
            self._connection = connection
            return


def join(
    place: Place,
    number: int,
    facts: Facts,
    stopped: Callable[[], bool],
    say: Callable[[str], None] = unheard,
    early: socket.socket | None = None,
) -> socket.socket:
    """The connection of machine `number` to machine 0, when all are there; `say` and errors as in `Arrivals.run`.

    `early` is one that it has already, and may have been told something by.
    """
    patience = Patience(place, stopped, say)
    reason = "nobody listens there"
    while patience.lasts("machine 0"):
        try:
            connection, early = early or _knock(place, min(_KNOCK, max(LOOK, patience.left))), None
        except OSError as fault:
            reason = fault.strerror or str(fault)
            time.sleep(LOOK)
            continue
        try:
            wire = Wire(connection, PATIENCE)
            with suppress(Lost):  # what takes nothing any more may have had its last word
                wire.send(Kind.HELLO, {"node": number, "facts": dict(facts)})
            if _welcomed(wire, patience):
                return connection
            reason = "not all machines came"
        except Lost as lost:
            reason = str(lost)
        except BaseException:
            connection.close()
            raise
        connection.close()
        time.sleep(LOOK)
    raise error(
        "E-DP-007",
        f"machine 0 did not begin at {place} within {place.wait:g} s",
        actual=reason,
        help="is machine 0 started, is SEXPGPU_RENDEZVOUS its address and a port that can be reached, and are all "
        "others started? SEXPGPU_NODE_WAIT is how many seconds machines wait",
    )


def stay_away(place: Place, number: int, why: str, early: socket.socket | None = None) -> None:
    """Machine `number` is not going to begin, and tells machine 0 why, where that listens within `FAREWELL` seconds."""
    connection = early or _reached(place)
    if connection is not None:
        wire = Wire(connection, FAREWELL)
        with suppress(Lost):
            wire.send(Kind.HELLO, {"node": number, "facts": {"absent": why}})
        wire.close()


def refused_by_another(place: Place) -> SxError | None:
    """`E-DP-006` of a second machine 0, which cannot listen, where the first is there and says so; it tells the others
    as well, at the latest when it has compiled. None where nobody answers within `FAREWELL` seconds.
    """
    connection = _reached(place)
    if connection is None:
        return None
    wire = Wire(connection, FAREWELL)
    try:
        wire.send(Kind.COMING, {"node": 0})
        _judge(wire.receive(HELLOS))
    except Lost:
        pass
    except SxError as refusal:
        return refusal
    finally:
        wire.close()
    return None


def _reached(place: Place) -> socket.socket | None:
    """A connection to machine 0, tried for `FAREWELL` seconds."""
    deadline = time.monotonic() + FAREWELL
    while (left := deadline - time.monotonic()) > 0:
        try:
            return _knock(place, max(LOOK, left))
        except OSError:
            time.sleep(LOOK)
    return None


def _knock(place: Place, limit: float) -> socket.socket:
    """A connection to whoever listens there; `OSError` where nobody does."""
    connection = socket.create_connection((place.host, place.port), limit)
    if met_itself(connection):
        connection.close()
        raise ConnectionRefusedError("nobody listens there")
    return connection


def met_itself(connection: socket.socket) -> bool:
    """Whether both ends are the same socket. TCP joins one to itself where it is lent the very port that it calls (RFC
    9293, section 3.5, simultaneous opening), which nobody listens at.
    """
    return bool(connection.getsockname() == connection.getpeername())


def _welcomed(wire: Wire, patience: Patience) -> bool:
    """Whether machine 0 begins in time; `E-DP-006` where it refuses to, `E-DP-007` where somebody does not come."""
    while patience.lasts("the other machines", FAREWELL):  # machine 0 gives up first, and says who has not come
        ready, _, _ = select.select([wire.socket], [], [], LOOK)
        if ready:
            _judge(wire.receive(HELLOS))
            return True
    return False


def _judge(frame: Frame) -> None:
    """What machine 0 answers: nothing is raised for a welcome alone."""
    if frame.kind is Kind.REFUSED:
        raise different(*(str(frame.header.get(name)) for name in ("message", "expected", "actual")))
    if frame.kind is Kind.LEFT:
        raise not_coming(int(frame.header.get("node", 0)), str(frame.header.get("reason")))
    if frame.kind is not Kind.WELCOME:
        raise Lost("it did not begin with a welcome")
