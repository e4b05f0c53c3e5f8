"""Machines of one run: processes of `sexpgpu run` on this host, which meet at a port of it."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from attrs import define, field

SECONDS = 120
"""After which a machine that does not end is a failure."""


def free_port() -> int:
    """A port that nobody uses, of those that the system does not lend to whoever connects."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", random.SystemRandom().randrange(20000, 32000)))
            return int(probe.getsockname()[1])


@define
class Machines:
    """Starts machines of a run of `count`; `out` is the directory that all of them are given.

    `program` is a module of Python to run, with its arguments, in the place of `sexpgpu run`.
    """

    file: Path
    out: Path
    count: int = 2
    wait: int = 60
    port: int = field(factory=free_port)
    program: Sequence[object] = ()
    started: list[subprocess.Popen[str]] = field(factory=list)

    def start(self, rank: int, *flags: object, **environment: str) -> subprocess.Popen[str]:
        usual = ("sexpgpu", "run", self.file, "--device", "sim", "--out", self.out)
        settings = {
            "SEXPGPU_NODES": str(self.count),
            "SEXPGPU_NODE_RANK": str(rank),
            "SEXPGPU_RENDEZVOUS": f"127.0.0.1:{self.port}",
            "SEXPGPU_NODE_WAIT": str(self.wait),
            **environment,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, self.program or usual), *map(str, flags)],
            env={**os.environ, **settings},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.started.append(process)
        return process

    def run(self, *flags: object, **environment: str) -> list[tuple[int, str]]:
        """Exit codes and what was printed, of all machines, started alike."""
        return ended([self.start(rank, *flags, **environment) for rank in range(self.count)])

    def close(self) -> None:
        """Nothing that was started stays."""
        for process in self.started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def ended(processes: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Exit codes and what was printed, when all have ended."""
    printed = [process.communicate(timeout=SECONDS)[0] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, printed, strict=True)]


def until(file: Path, event: str, process: subprocess.Popen[str]) -> None:
    """Wait for an event in a run's stream."""
    deadline = time.monotonic() + SECONDS
    while not (file.exists() and f'"event":"{event}"' in file.read_text("utf-8")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"no event {event}"
        time.sleep(0.05)
