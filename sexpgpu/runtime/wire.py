"""Frames between two processes over a TCP connection: a header of JSON, then bytes as they lie in memory.

A frame begins with a magic number, a version, its kind and both lengths; nothing of it is code, and whoever reads says
how long each part may be. While a process works in silence a thread of its own sends beats, so that a peer that says
nothing at all for long is one that is lost. A beat says how long the process's loop has stood still, and at what.
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any

from attrs import define, field, frozen

from sexpgpu.runtime.standing import LOOP, Standing

MAGIC = b"sxgp"
VERSION = 1
_PREFIX = struct.Struct("<4sBBHIQ")  # magic, version, kind, nothing, bytes of header and of body
PREFIX = _PREFIX.size
_PIECE = 4 << 20
_PARTING = 1.0  # seconds of silence that end the other side's last words
_FAREWELL = 30.0  # and that these take at most: whoever hangs goes on to beat
BEATS = 5.0
"""Seconds between two beats, or less where silence is allowed for less."""


class Kind(IntEnum):
    """What a frame is for."""

    HELLO = 1  # of a machine that joins
    WELCOME = 2  # all are there
    REFUSED = 3  # why nothing begins
    ORDER = 4  # what machine 0 wants done
    MESSAGE = 5  # what one machine found, or what all did
    BEAT = 6
    LEFT = 7  # why a machine goes
    END = 8  # the run is over
    COMING = 9  # of a machine that will say its hello when it has compiled


class Lost(Exception):
    """The other side is gone, silent, or says what is no frame; the text says which."""


@frozen(eq=False)
class Frame:
    kind: Kind
    header: Mapping[str, Any]
    body: bytearray


@frozen
class Bounds:
    """Bytes that a header and a body may have at most."""

    header: int
    body: int


def head(kind: Kind, header: Mapping[str, Any], body: int = 0) -> bytes:
    """A frame up to its body, which has so many bytes."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return _PREFIX.pack(MAGIC, VERSION, kind, 0, len(text), body) + text


def lengths(prefix: bytes | bytearray, bounds: Bounds) -> tuple[Kind, int, int]:
    """Kind and lengths of a frame from its first bytes; `Lost` where they begin none, or one that is too long."""
    magic, version, kind, _, header, body = _PREFIX.unpack(prefix)
    if magic != MAGIC or kind not in list(Kind):
        raise Lost("it sent what is no message of a run")
    if version != VERSION:
        raise Lost(f"it speaks version {version} of the protocol, this is version {VERSION}")
    if header > bounds.header or body > bounds.body:
        raise Lost("it sent a message that is too long")
    return Kind(kind), header, body


def parsed(text: bytes | bytearray) -> dict[str, Any]:
    """A header; `Lost` where the text is none."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise Lost("it sent a message without a header")
    return header


@define(eq=False)
class Wire:
    """One connection. `silence` is for how many seconds the other side may say nothing before it is `Lost`, `patience`
    for how many its loop may stand still; `loop` is that of this side.
    """

    socket: socket.socket
    silence: float
    patience: float = math.inf
    loop: Standing = LOOP
    _sending: threading.Lock = field(factory=threading.Lock, init=False)
    _closed: threading.Event = field(factory=threading.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.socket.settimeout(self.silence)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, kind: Kind, header: Mapping[str, Any], buffers: Sequence[memoryview] = ()) -> None:
        """A frame whose body are the buffers, one behind the other."""
        start = head(kind, header, sum(each.nbytes for each in buffers))
        with self._sending:
            for each in (memoryview(start), *buffers):
                self._send(each)

    def _send(self, data: memoryview) -> None:
        sent = 0
        try:
            while sent < data.nbytes:  # piece by piece: the time allowed is for each
                sent += self.socket.send(data[sent : sent + _PIECE])
        except TimeoutError:
            raise Lost(f"it has taken nothing for {self.silence:.0f} s") from None
        except OSError as fault:
            raise Lost(fault.strerror or str(fault)) from None

    def receive(self, bounds: Bounds) -> Frame:
        """The next frame that is not a beat."""
        with self.loop.waiting():
            while True:
                kind, header, body = lengths(self._take(PREFIX), bounds)
                frame = Frame(kind, parsed(self._take(header)), self._take(body))
                if kind is not Kind.BEAT:
                    return frame
                self._judge(frame.header)

    def _judge(self, beat: Mapping[str, Any]) -> None:
        """`Lost` where the newest beat is of a loop that has stood still for too long: those before it are old news."""
        still = beat.get("still")
        if isinstance(still, int | float) and still > self.patience and not select.select([self.socket], [], [], 0)[0]:
            raise Lost(f"it is alive, and its loop has stood still for {still:.0f} s, in {beat.get('in')}")

    def _take(self, count: int) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        taken = 0
        try:
            while taken < count:
                got = self.socket.recv_into(view[taken : taken + _PIECE])
                if not got:
                    raise Lost("its connection has ended")
                taken += got
        except TimeoutError:
            raise Lost(f"it has said nothing for {self.silence:.0f} s") from None
        except OSError as fault:
            raise Lost(fault.strerror or str(fault)) from None
        return data

    def beat(self) -> None:
        """Send beats from a thread until the wire is closed."""
        threading.Thread(target=self._beat, name="beats", daemon=True).start()

    def _beat(self) -> None:
        while not self._closed.wait(min(BEATS, self.silence / 4)):
            # Whoever is sending shows by that, that it lives.
            if self._sending.acquire(blocking=False):
                still, what = self.loop.still()
                try:
                    self._send(memoryview(head(Kind.BEAT, {"still": round(still, 1), "in": what})))
                except Lost:
                    return  # whoever uses the wire next is told
                finally:
                    self._sending.release()

    def close(self) -> None:
        """The other side reads what was sent, then the end; what it still says is read, or its system would throw away
        what it has not read itself.
        """
        self._closed.set()
        with self._sending, suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
            self.socket.settimeout(_PARTING)
            deadline = time.monotonic() + _FAREWELL
            while self.socket.recv(_PIECE) and time.monotonic() < deadline:
                pass
        self.socket.close()
