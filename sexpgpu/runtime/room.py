"""What a run does where its device has no memory for a microbatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import define, field

from sexpgpu.diag import Diagnostic, SxError, error
from sexpgpu.runtime.arrays import Arrays, NoMemory
from sexpgpu.tensortype import binary_size

T = TypeVar("T")
IN_A_ROW = 3
"""Calls of the train graph in a row that find no memory at first, of which the last ends the run."""


@define
class Retry:
    """Runs calls of the train graph; one that finds no memory is tried once more, when all that waits to be used was
    let go.
    """

    arrays: Arrays
    _refused: int = field(default=0, init=False)  # the last microbatches in a row

    def run(self, step: int, several: range, call: Callable[[], T]) -> T:
        """What a call gives for `several` microbatches of a step; `E-MEM-003` where there is no memory the second time,
        or too often the first.
        """
        try:
            result = call()
        except NoMemory as refused:
            self._refused += 1
            if self._refused == IN_A_ROW:
                unit = "microbatches" if len(several) == 1 else "calls"
                raise self._ended(step, several, refused, f"{IN_A_ROW} {unit} in a row found none") from None
        else:
            self._refused = 0
            return result
        self.arrays.release()
        try:
            return call()
        except NoMemory as refused:
            raise self._ended(step, several, refused, "it was tried twice") from None

    def _ended(self, step: int, several: range, refused: NoMemory, why: str) -> SxError:
        planned, free = self.arrays.planned, self.arrays.free_bytes()
        facts = [f"{binary_size(planned.total)} planned"] if planned is not None else []
        facts += [f"{binary_size(free)} free"] if free is not None else []
        which = f"microbatch {several[0]}" if len(several) == 1 else f"microbatches {several[0]} to {several[-1]}"
        return error(
            "E-MEM-003",
            f"step {step}, {which}: the device has no memory for it; {why}",
            expected=f"a block of {binary_size(refused.nbytes)}",
            actual=", ".join(facts) or None,
            help="another process may hold memory of the device; a smaller batch with more :microbatches needs less",
        )


def not_given(refused: NoMemory) -> Diagnostic:
    """`E-MEM-002`: what is said where nothing can be tried once more."""
    return Diagnostic(
        "E-MEM-002",
        f"the device could not allocate {refused.nbytes} bytes; the run does not fit it",
        help="a smaller model or batch, or more :microbatches",
    )
