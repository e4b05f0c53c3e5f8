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
"""Microbatches in a row that find no memory at first, of which the last ends the run."""


@define
class Retry:
    """Runs microbatches; one that finds no memory is tried once more when all that waits to be used was let go."""

    arrays: Arrays
    _refused: int = field(default=0, init=False)  # the last microbatches in a row

    def run(self, step: int, microbatch: int, call: Callable[[], T]) -> T:
        """What `call` gives; `E-MEM-003` where there is no memory the second time, or too often the first."""
        try:
            result = call()
        except NoMemory as refused:
            self._refused += 1
            if self._refused == IN_A_ROW:
                raise self._ended(step, microbatch, refused, f"{IN_A_ROW} microbatches in a row found none") from None
        else:
            self._refused = 0
            return result
        self.arrays.release()
        try:
            return call()
        except NoMemory as refused:
            raise self._ended(step, microbatch, refused, "it was tried twice") from None

    def _ended(self, step: int, microbatch: int, refused: NoMemory, why: str) -> SxError:
        planned, free = self.arrays.planned, self.arrays.free_bytes()
        facts = [f"{binary_size(planned.total)} planned"] if planned is not None else []
        facts += [f"{binary_size(free)} free"] if free is not None else []
        return error(
            "E-MEM-003",
            f"step {step}, microbatch {microbatch}: the device has no memory for it; {why}",
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
