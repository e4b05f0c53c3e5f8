"""What a smaller file has to keep: a code, an internal error, or that a command succeeds."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sexpgpu.diag import error, nearest
from sexpgpu.diag.catalogue import ENTRIES
from sexpgpu.driver.outcome import Trials
from sexpgpu.driver.pipeline import whole

CHECK = "check"


def keeping_code(compiler: Trials, text: str, code: str) -> Callable[[str], bool]:
    """Whether a text gives `code`. E-REDUCE-001 for what is no code, E-REDUCE-002 where `text` does not give it."""
    if code not in ENTRIES:
        near = nearest(code, ENTRIES)
        raise error("E-REDUCE-001", f"there is no code `{code}`", help=f"`{near}`" if near else None)
    found: tuple[str, ...] = ()
    for pipeline in (CHECK, whole()):
        found = compiler.outcome(text, pipeline).codes
        if code in found:
            return lambda candidate: code in compiler.outcome(candidate, pipeline).codes
    raise error(
        "E-REDUCE-002",
        f"{compiler.path} does not give {code}",
        actual=", ".join(dict.fromkeys(found)) or "no diagnostics",
        help="give the flags under which it does: --variant, --set",
    )


def keeping_fault(compiler: Trials, text: str) -> Callable[[str], bool]:
    """Whether the compiler fails on a text as it does on `text`; E-REDUCE-002 where it does not fail."""
    pipeline = whole()
    first = compiler.outcome(text, pipeline)
    if first.internal is None:
        raise error(
            "E-REDUCE-002",
            f"the compiler does not fail on {compiler.path}",
            actual="it took longer than --each" if first.timed_out else ", ".join(first.codes) or "no diagnostics",
            help="--code keeps a diagnostic",
        )
    return lambda candidate: compiler.outcome(candidate, pipeline).internal == first.internal


@contextmanager
def command_succeeds(path: Path, text: str, shell: str, seconds: float) -> Iterator[Callable[[str], bool]]:
    """Whether a command of the shell succeeds on a text, which is written to a file beside `path` for it.

    E-REDUCE-002 where it does not on `text`; a command that takes longer than `seconds` has failed.
    """
    trial = path.with_name(f".{path.stem}.reduce-{os.getpid()}.sx")
    quoted = shlex.quote(str(trial))
    line = shell.replace("{}", quoted) if "{}" in shell else f"{shell} {quoted}"

    def succeeds(candidate: str) -> bool:
        try:
            trial.write_text(candidate, "utf-8")
        except OSError as fault:
            raise error("E-IO-106", f"{trial} cannot be written", actual=str(fault.strerror)) from None
        return _succeeds(line, seconds)

    try:
        if not succeeds(text):
            raise error("E-REDUCE-002", f"the command does not succeed on {path}", actual=line, help="try it by hand")
        yield succeeds
    finally:
        trial.unlink(missing_ok=True)


def _succeeds(line: str, seconds: float) -> bool:
    """Run a line of the shell in a process group of its own, so that all of it ends with its time."""
    process = subprocess.Popen(
        line,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            process.wait()
