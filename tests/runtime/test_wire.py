"""Frames between two processes over a connection of this host: what is none, large ones, beats, last words."""

from __future__ import annotations

import socket
import time
from functools import partial

import pytest
from attrs import define

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.runtime import wire
from sexpgpu.runtime.meeting import Place, listen
from sexpgpu.runtime.peers import Peers, Told
from sexpgpu.runtime.signals import Signals
from sexpgpu.runtime.standing import Standing
from sexpgpu.runtime.wire import MAGIC, Bounds, Kind, Lost, Wire, head
from tests.runtime.test_meeting import FACTS, Background, place

GARBAGE = {
    "another magic": b"zzzz" + bytes(16),
    "another version": MAGIC + b"\x09\x04" + bytes(14),
    "another kind": MAGIC + b"\x01\x63" + bytes(14),
    "a header too long": MAGIC + b"\x01\x04\0\0" + b"\xff\xff\xff\x7f" + bytes(8),
    "a body too long": MAGIC + b"\x01\x04\0\0" + bytes(4) + b"\xff" * 8,
    "no header": MAGIC + b"\x01\x04\0\0" + b"\x02\0\0\0" + bytes(8) + b"[]",
    "nested without end": MAGIC + b"\x01\x04\0\0" + b"\x00\x80\0\0" + bytes(8) + b"[" * 0x8000,
    "an end in the middle": MAGIC + b"\x01",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_frame_is_a_loss(data: bytes) -> None:
    where = place()
    with listen(where) as listener, socket.create_connection((where.host, where.port)) as left:
        right, _ = listener.accept()
        left.sendall(data)
        left.shutdown(socket.SHUT_WR)
        with right, pytest.raises(Lost):
            Wire(right, 5).receive(Bounds(1 << 20, 1 << 20))


def pair(where: Place) -> tuple[Peers, Peers]:
    """Two machines that have met."""
    found = [Peers(rank, 2, "f32", where) for rank in (0, 1)]
    meeting = [Background(partial(each.meet, FACTS, 1 << 30, Signals())) for each in found]
    for each in meeting:
        each.thread.join(30)
        assert each.fault is None
    return found[0], found[1]


def ends() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        left = socket.create_connection(server.getsockname())
        return left, server.accept()[0]


@define
class Hand:
    """A clock that a test moves."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_machine_that_is_alive_and_does_not_get_on_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread beats; its loop hangs in a call. One that waits for others, or goes on, takes as long as it does."""
    monkeypatch.setattr(wire, "BEATS", 0.05)
    clock = Hand()
    loop = Standing(clock)
    left, right = ends()
    here, there = Wire(left, 20, patience=100), Wire(right, 20, loop=loop)
    there.beat()
    waiting = Background(lambda: here.receive(Bounds(1 << 10, 0)))
    with loop.waiting():
        clock.now = 1000
        time.sleep(0.3)
        assert waiting.thread.is_alive()
    for _ in range(3):
        clock.now += 90
        loop.began("graph train")
        time.sleep(0.15)
    assert waiting.thread.is_alive()
    clock.now += 101
    waiting.thread.join(20)
    assert isinstance(waiting.fault, Lost)
    assert str(waiting.fault) == "it is alive, and its loop has stood still for 101 s, in graph train"
    there.close()
    here.close()


def test_an_old_beat_is_no_news() -> None:
    """Whoever evaluates for long reads many beats at once, of which only the last says how it is."""
    left, right = ends()
    here = Wire(left, 20, patience=100)
    right.sendall(head(Kind.BEAT, {"still": 500, "in": "graph train"}) + head(Kind.BEAT, {"still": 1, "in": "graph v"}))
    right.sendall(head(Kind.END, {"code": 0}))
    assert here.receive(Bounds(1 << 10, 0)).kind is Kind.END
    left.close()
    right.close()


def test_large_messages_go_both_ways_whole() -> None:
    """64 MiB: more than any buffer of the system holds."""
    first, second = pair(place())
    data = bytes(range(256)) * (1 << 18)
    telling = Background(lambda: second.exchange(Told({"n": 1}, [memoryview(data)]), lambda several: several[0]))
    whole = first.exchange(Told({"n": 0}), lambda several: Told({"got": several[1].header}, several[1].buffers))
    telling.thread.join(60)
    assert whole.header == telling.result.header == {"got": {"n": 1}}
    assert bytes(telling.result.buffers[0]) == data
    first.close()
    second.close()


def test_who_leaves_says_why_even_to_who_only_sends() -> None:
    first, second = pair(place())
    second.leave(Diagnostic("E-MEM-003", "nothing is left"))
    second.close()
    with pytest.raises(SxError) as raised:
        first.order(more="x" * (100 << 20))  # more than the system takes while nobody reads
    assert raised.value.diagnostic.code == "E-DP-007"
    assert raised.value.diagnostic.actual == "E-MEM-003: nothing is left"
    first.close()
