"""Machines meet over real connections of this host: who may begin, who is refused, who does not come."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from attrs import define, field

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.runtime import joining, meeting
from sexpgpu.runtime.joining import join, met_itself
from sexpgpu.runtime.meeting import Arrivals, Facts, Place, Stopped, listen
from sexpgpu.runtime.peers import Peers
from sexpgpu.runtime.signals import Signals
from sexpgpu.runtime.wire import Kind, head

FACTS = {"number of machines": "2", "experiment": "a-1234", "checkpoint": "none"}


def place(wait: float = 20.0) -> Place:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Place("127.0.0.1", int(probe.getsockname()[1]), wait)


def never() -> bool:
    return False


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@define
class Background:
    """A call in a thread, and what came of it."""

    call: Callable[[], Any]
    result: Any = None
    fault: BaseException | None = None
    thread: threading.Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as fault:
            self.fault = fault

    def code(self) -> str:
        self.thread.join(30)
        assert isinstance(self.fault, SxError), self.fault
        return self.fault.diagnostic.code


@contextmanager
def gathering(where: Place, count: int = 2, facts: Facts = FACTS) -> Iterator[tuple[Arrivals, Background]]:
    """Machine 0, waiting in a thread."""
    listener = listen(where)
    found = Arrivals(listener, where, count, facts)
    waiting = Background(lambda: found.run(never))
    yield found, waiting
    waiting.thread.join(30)
    found.close()
    listener.close()


def test_all_begin_when_all_are_there() -> None:
    where = place()
    with gathering(where, 3) as (_, waiting):
        others = [Background(partial(join, where, n, FACTS, never)) for n in (2, 1)]
        waiting.thread.join(30)
        for connection in waiting.result:
            connection.sendall(head(Kind.WELCOME, {}))
        for other in others:
            other.thread.join(30)
            other.result.close()
        assert len(waiting.result) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("number of machines", "3"), ("experiment", "a-9999"), ("checkpoint", "step 2, 12ab")]
)
def test_a_machine_that_differs_is_told_with_both_values(name: str, value: str) -> None:
    where = place()
    with gathering(where) as (_, waiting):
        other = Background(lambda: join(where, 1, {**FACTS, name: value}, never))
        assert waiting.code() == other.code() == "E-DP-006"
        for each in (waiting, other):
            assert isinstance(each.fault, SxError)
            said = each.fault.diagnostic
            assert said.message == f"machine 1 differs from machine 0: {name}"
            assert (said.expected, said.actual) == (FACTS[name], value)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_number_that_is_taken_or_too_large(number: int) -> None:
    where = place()
    with gathering(where, 3) as (found, waiting):
        first = Background(lambda: join(where, 1, FACTS, never))
        until(lambda: 1 in found.arrived)
        second = Background(lambda: join(where, number, FACTS, never))
        assert {waiting.code(), first.code(), second.code()} == {"E-DP-006"}


def test_a_machine_that_goes_and_comes_again_is_taken() -> None:
    where = place()
    with gathering(where, 3) as (found, waiting):
        gone = socket.create_connection((where.host, where.port))
        gone.sendall(head(Kind.HELLO, {"node": 1, "facts": FACTS}))
        until(lambda: 1 in found.arrived)
        gone.close()
        until(lambda: 1 not in found.arrived)
        others = [Background(partial(join, where, n, FACTS, never)) for n in (1, 2)]
        waiting.thread.join(30)
        for connection in waiting.result:
            connection.sendall(head(Kind.WELCOME, {}))
        for other in others:
            other.thread.join(30)
            other.result.close()


def test_a_machine_that_does_not_come() -> None:
    where = place(0.5)
    with gathering(where, 3) as (_, waiting):
        assert waiting.code() == "E-DP-007"
        assert isinstance(waiting.fault, SxError)
        assert waiting.fault.diagnostic.message.startswith("machines 1, 2 did not arrive at 127.0.0.1:")


def test_a_machine_that_waits_with_others_does_not_give_up_before_machine_0() -> None:
    """Which says who has not come: not one that has been there, and began to wait sooner."""
    where = place(1.5)
    other = Background(lambda: join(where, 1, FACTS, never))
    time.sleep(0.5)
    with gathering(where, 3) as (_, waiting):
        assert waiting.code() == "E-DP-007"
        assert isinstance(waiting.fault, SxError)
        assert waiting.fault.diagnostic.message.startswith("machine 2 did not arrive at 127.0.0.1:")
    assert other.code() == "E-DP-007"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64])
def test_machine_0_that_is_not_there_or_is_something_else(answer: bytes) -> None:
    where = place(0.5)
    if answer:
        with socket.create_server((where.host, where.port)) as other:
            joining = Background(lambda: join(where, 1, FACTS, never))
            connection, _ = other.accept()
            with connection:
                connection.sendall(answer)
                assert joining.code() == "E-DP-007"
    else:
        assert Background(lambda: join(where, 1, FACTS, never)).code() == "E-DP-007"


def test_a_signal_stops_the_waiting() -> None:
    where = place(60)
    began = time.monotonic()
    with pytest.raises(Stopped):
        join(where, 1, FACTS, lambda: True)
    with listen(where) as listener, pytest.raises(Stopped):
        Arrivals(listener, where, 2, FACTS).run(lambda: True)
    assert time.monotonic() - began < 5


def test_a_place_that_is_taken_or_not_of_this_machine() -> None:
    where = place()
    with listen(where):
        for wrong in (where, Place("198.51.100.7", where.port, 1), Place("no.such.host.invalid", where.port, 1)):
            with pytest.raises(SxError) as raised:
                listen(wrong)
            assert raised.value.diagnostic.code == "E-DP-005"
            assert str(wrong) in raised.value.diagnostic.message
            taken = wrong is where
            assert ("another machine 0 may run there" in (raised.value.diagnostic.help or "")) == taken


WHY = Diagnostic("E-MEM-001", "it does not fit")


def left_alone(waiting: Background, number: int) -> None:
    """Who waited was told at once which machine does not come, and its code."""
    assert waiting.code() == "E-DP-007"
    assert isinstance(waiting.fault, SxError)
    said = waiting.fault.diagnostic
    assert said.message == f"machine {number} ended before the run began"
    assert said.actual == "E-MEM-001: it does not fit"


@pytest.mark.parametrize("number", [0, 2])
def test_a_machine_that_is_not_going_to_begin_tells_all(number: int) -> None:
    where = place(60)
    began = time.monotonic()
    found = {n: Peers(n, 3, "f32", where) for n in range(3)}
    others = [n for n in found if n != number]
    waiting = {n: Background(partial(found[n].meet, FACTS, 1 << 20, Signals())) for n in others}
    found[number].leave(WHY)
    for each in waiting.values():
        left_alone(each, number)
    assert time.monotonic() - began < 20
    for peers in found.values():
        peers.close()


def test_who_comes_late_is_told_too() -> None:
    """Machine 2 is not there yet when machine 1 says that it does not come."""
    where = place(60)
    first, second, third = (Peers(n, 3, "f32", where) for n in range(3))
    waiting = Background(partial(first.meet, FACTS, 1 << 20, Signals()))
    second.leave(WHY)
    late = Background(partial(third.meet, FACTS, 1 << 20, Signals()))
    left_alone(waiting, 1)
    left_alone(late, 1)
    for peers in (first, second, third):
        peers.close()


def test_who_compiles_for_long_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine 0 is gone when machine 1 has compiled, which knocked before it did."""
    monkeypatch.setattr(meeting, "FAREWELL", 1.0)
    where = place(60)
    first, second = Peers(0, 2, "f32", where), Peers(1, 2, "f32", where)
    second.knock()
    first.leave(WHY)
    first.close()
    began = time.monotonic()
    left_alone(Background(partial(second.meet, FACTS, 1 << 20, Signals())), 0)
    assert time.monotonic() - began < 5
    second.close()


def test_who_has_knocked_and_does_not_come_says_so() -> None:
    where = place(60)
    first, second = Peers(0, 3, "f32", where), Peers(1, 3, "f32", where)
    waiting = Background(partial(first.meet, FACTS, 1 << 20, Signals()))
    second.knock()
    second.leave(WHY)
    left_alone(waiting, 1)
    first.close()
    second.close()


def test_who_has_knocked_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than for a hello, and no longer than it lives: it may come again."""
    monkeypatch.setattr(meeting, "PATIENCE", 0.3)
    where = place(60)
    first, second = Peers(0, 2, "f32", where), Peers(1, 2, "f32", where)
    waiting = Background(partial(first.meet, FACTS, 1 << 20, Signals()))
    second.knock()
    time.sleep(1.0)
    assert waiting.thread.is_alive()
    second.meet(FACTS, 1 << 20, Signals())
    waiting.thread.join(30)
    assert waiting.fault is None
    first.close()
    second.close()


@pytest.mark.parametrize("compiles", [False, True])
def test_a_second_machine_0_is_told_to_all(monkeypatch: pytest.MonkeyPatch, compiles: bool) -> None:
    """Where the first one has not begun to listen to anybody, it finds out when it does."""
    monkeypatch.setattr(joining, "FAREWELL", 0.5 if compiles else 10.0)
    where = place(60)
    first, third = Peers(0, 3, "f32", where), Peers(2, 3, "f32", where)
    third.knock()
    second = Background(lambda: Peers(0, 3, "f32", where))
    if compiles:
        assert second.code() == "E-DP-005"
    waiting = Background(partial(first.meet, FACTS, 1 << 20, Signals()))
    joins = Background(partial(third.meet, FACTS, 1 << 20, Signals()))
    for each in (waiting, joins) if compiles else (waiting, joins, second):
        assert each.code() == "E-DP-006"
        assert isinstance(each.fault, SxError)
        assert each.fault.diagnostic.message == "two machines are number 0"
    first.close()
    third.close()


@pytest.mark.parametrize("number", [0, 1])
def test_a_machine_that_nobody_waits_for_ends_soon(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "FAREWELL", 0.5)
    monkeypatch.setattr(joining, "FAREWELL", 0.5)
    began = time.monotonic()
    peers = Peers(number, 2, "f32", place(60))
    peers.leave(WHY)
    peers.close()
    assert 0.4 < time.monotonic() - began < 5


@pytest.mark.parametrize("number", [0, 1])
def test_long_waiting_is_told(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "_NEWS", 0.3)
    told: list[str] = []
    where = place(1.0)
    peers = Peers(number, 2, "f32", where)
    with pytest.raises(SxError) as raised:
        peers.meet(FACTS, 1 << 20, Signals(), told.append)
    peers.close()
    assert "SEXPGPU_NODE_WAIT" in (raised.value.diagnostic.help or "")
    assert len(told) >= 2
    assert re.fullmatch(rf"waiting for machine {1 - number} at {where}, \d s of 1 s", told[0])


def test_a_connection_to_itself_is_known() -> None:
    with socket.socket() as lonely:
        lonely.bind(("127.0.0.1", 0))
        lonely.connect(lonely.getsockname())
        assert met_itself(lonely)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as guest:
        assert not met_itself(guest)
