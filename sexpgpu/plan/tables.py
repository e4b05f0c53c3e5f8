"""The tables that kernels of many tensors take: which tensors, where they are, which blocks take which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from attrs import frozen

Word = TypeVar("Word")
NO_BLOCK = (1 << 31) - 1
"""More than the number of any block along a grid's first axis."""


@frozen
class Row:
    """A tensor in a kernel's table: the arguments whose addresses are there, and how many elements it has."""

    args: tuple[int, ...]
    elements: int

    def blocks(self, chunk: int) -> int:
        """The blocks that take `chunk` elements each: at least one, for results that have no elements of the tensor."""
        return max(1, -(-self.elements // chunk))


@frozen
class Table:
    """The tensors that a kernel of many works on. It is the kernel's last parameter, passed by value.

    It has place for `capacity` rows of 64-bit words: the addresses, how many elements there are, and the number of the
    tensor's first block. A block takes `chunk` elements. What such a kernel reads of a gradient it reads before it
    writes the elements that are made of it, so that a result may lie where the gradient is.
    """

    rows: tuple[Row, ...]
    capacity: int
    chunk: int

    @property
    def blocks(self) -> int:
        return sum(row.blocks(self.chunk) for row in self.rows)

    def words(self, addresses: Sequence[Word], number: Callable[[int], Word]) -> list[Word]:
        """The whole table, of the addresses of all arguments and of what numbers are there.

        Rows that no tensor has begin behind every block.
        """
        found: list[Word] = []
        first = 0
        for row in self.rows:
            found += [addresses[argument] for argument in row.args]
            found += [number(row.elements), number(first)]
            first += row.blocks(self.chunk)
        empty = [number(0)] * (len(self.rows[0].args) + 1) + [number(NO_BLOCK)]
        return found + empty * (self.capacity - len(self.rows))
