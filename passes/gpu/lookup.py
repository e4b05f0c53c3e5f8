"""How the blocks of a kernel of many tensors find their tensor: a table, which is the kernel's last parameter.

A row of the table has an address for each argument that every tensor has of its own, and behind these how many elements
the tensor has and the number of its first block. A block looks up the last row that begins no later than itself.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from sexpgpu.passes.gpu.kernel import Index, Kernel, Reg

ROOM = 4096
"""Bytes of parameters that every driver lets a kernel have (CUDA C++ Programming Guide, "Function Parameters")."""
WORD = 8


@frozen(eq=False)
class Lookup:
    """A table of as many rows as fit beside `others`, so many more parameters of the kernel."""

    arguments: tuple[int, ...]
    others: int

    @property
    def words(self) -> int:
        """Of a row."""
        return len(self.arguments) + 2

    @property
    def capacity(self) -> int:
        """The rows that there is place for."""
        return (ROOM // WORD - self.others) // self.words

    def find(self, k: Kernel) -> Found:
        """The row of the block's tensor, by halving: rows that no tensor has begin behind every block."""
        block = k.block_number()
        row: Index = 0
        step = 1 << (self.capacity - 1).bit_length()
        while step := step >> 1:
            ahead = k.op("arith.minsi", k.reg(k.add(row, step)), k.const(self.capacity - 1, "i32"))
            begins = self._word(k, ahead, self.words - 1, "i32")
            row = k.select(k.compare("le", begins, block), ahead, k.reg(row))
        found = k.reg(row)
        number = k.op("arith.subi", block, self._word(k, found, self.words - 1, "i32"))
        size = self._word(k, found, self.words - 2, "i64")
        addresses = {argument: self._word(k, found, place) for place, argument in enumerate(self.arguments)}
        return Found(addresses, number, size)

    def _word(self, k: Kernel, row: Reg, place: int, type: str = "") -> Any:
        return k.word(k.add(k.mul(row, self.words), place), type)


@frozen(eq=False)
class Found:
    """A block's tensor: where its arguments lie, the block's number among those of the tensor (i32), and how many
    elements the tensor has (i64).
    """

    addresses: dict[int, Any] = field(repr=False)
    number: Reg
    size: Reg

    def part(self, k: Kernel, chunk: int) -> tuple[Reg, Reg]:
        """Of the tensor's chunks the block's: its first element (i64), and how many there are behind that (i32)."""
        start = k.op("arith.muli", k.op("arith.extui", self.number, type="i64"), k.const(chunk, "i64"))
        left = k.op("arith.minsi", k.op("arith.subi", self.size, start), k.const(chunk, "i64"))
        return start, k.op("arith.trunci", left, type="i32")
