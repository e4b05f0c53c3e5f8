"""How fast evaluated Lisp is beside the same program in Python, in one process: the median ratio of several turns.

The turns of the two alternate, and processor time is measured: what else the machine does falls on both.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import asdict, frozen

from sexpgpu.diag import Diagnostics
from sexpgpu.driver.compile import new_session
from sexpgpu.lang.limits import run_deep

TURNS = 9
FIRST = 9
"""The argument of the call that compiles a function."""
BOUND = 15.0
"""How many times Python's time `fib` and the loops may take."""

LISP = """
(defun fib (n)
  (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))

(defun loops (n)
  (let ((total 0))
    (dotimes (i n)
      (dotimes (j n)
        (setq total (+ total (* i j)))))
    total))

(defun sums (n)
  (loop for i from 0 below n
        when (evenp i) sum i))

(defun squares (n)
  (let ((made '()))
    (loop for i from 0 below n do (push (* i i) made))
    (length (reverse made))))

(defun tally (n)
  (let ((counts (make-hash-table)))
    (dotimes (i n)
      (incf (gethash (mod (* i i) 101) counts 0)))
    (values (gethash 4 counts))))

(defun words (n)
  (length (with-output-to-string (out)
            (dotimes (i n)
              (write-string "word" out)
              (write-char #\\Space out)))))
"""


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def loops(n: int) -> int:
    total = 0
    for i in range(n):
        for j in range(n):
            total = total + i * j
    return total


def sums(n: int) -> int:
    total = 0
    for i in range(n):
        if i % 2 == 0:
            total += i
    return total


def squares(n: int) -> int:
    made: list[int] = []
    for i in range(n):
        made.append(i * i)
    return len(list(reversed(made)))


def tally(n: int) -> int:
    counts: dict[int, int] = {}
    for i in range(n):
        key = i * i % 101
        counts[key] = counts.get(key, 0) + 1
    return counts[4]


def words(n: int) -> int:
    parts: list[str] = []
    for _ in range(n):
        parts.append("word")
        parts.append(" ")
    return len("".join(parts))


@frozen
class Program:
    """One program in both languages; `bounded` says that the promise is about it."""

    name: str
    python: Callable[[int], int]
    size: int
    bounded: bool


PROGRAMS = (
    Program("fib", fib, 21, bounded=True),
    Program("loops", loops, 150, bounded=True),
    Program("sums", sums, 20_000, bounded=True),
    Program("squares", squares, 20_000, bounded=False),
    Program("tally", tally, 20_000, bounded=False),
    Program("words", words, 20_000, bounded=False),
)
WHAT = {
    "fib": "calls: (fib 21)",
    "loops": "nested loops, 150 x 150",
    "sums": "loop: the even ones of 20,000",
    "squares": "a list of 20,000, pushed and reversed",
    "tally": "20,000 counts in a hash table",
    "words": "20,000 words into a string",
}


@frozen
class Measured:
    """Median milliseconds of each language, and the median over the turns of their ratio."""

    name: str
    lisp: float
    python: float
    ratio: float
    bounded: bool

    @property
    def passed(self) -> bool:
        return not self.bounded or self.ratio < BOUND


def loaded(name: str) -> Callable[[int], Any]:
    """The Lisp function in a session of its own, so with a whole budget of steps. It is compiled."""
    diagnostics = Diagnostics()
    session = new_session(diagnostics)
    session.evaluate_text(LISP)
    if len(diagnostics.records):
        raise AssertionError(diagnostics.records)
    function = session.function(name)
    assert function is not None
    lisp = partial(session.call, function)
    lisp(FIRST)
    return lisp


def measure(program: Program) -> Measured:
    """Both on the same argument, `TURNS` times. They must agree."""
    times: list[tuple[float, float]] = []
    for _ in range(TURNS):
        lisp = loaded(program.name)
        begun = time.thread_time()
        ours = lisp(program.size)
        between = time.thread_time()
        theirs = program.python(program.size)
        times.append((between - begun, time.thread_time() - between))
        if ours != theirs:
            raise AssertionError(f"{program.name} differs between the languages")
    return Measured(
        program.name,
        1e3 * statistics.median(a for a, _ in times),
        1e3 * statistics.median(b for _, b in times),
        statistics.median(a / b for a, b in times),
        program.bounded,
    )


def table() -> list[Measured]:
    return [measure(program) for program in PROGRAMS]


def main() -> int:
    measured = run_deep(table)
    if "--json" in sys.argv[1:]:
        print(json.dumps([asdict(m) | {"passed": m.passed} for m in measured], indent=1))
    else:
        for m in measured:
            bound = f"  (bound {BOUND:.0f})  {'pass' if m.passed else 'fail'}" if m.bounded else ""
            print(f"{WHAT[m.name]:40} {m.lisp:7.2f} ms  Python {m.python:6.2f} ms  {m.ratio:5.1f} x{bound}")
    return 0 if all(m.passed for m in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
