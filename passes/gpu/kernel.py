"""Writing a kernel: a `gpu.func` in the dialects that upstream lowers to PTX, over scalars and short vectors.

A kernel takes one pointer an argument. Indices are i32 or i64 numbers, known ones Python integers, which arithmetic
folds; what is left over (`x + 0`, a product computed twice) upstream's canonicalization and CSE remove. Loops and
conditions are `scf`, so that a value made inside one cannot be used outside by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import define, field
from mlir import ir

from sexpgpu.passes.gpu.instructions import Instructions
from sexpgpu.passes.gpu.modules import MAPS, TABLE
from sexpgpu.passes.gpu.registers import BYTES, FLOATS, WARP, Index, KernelModule, Loop, Pointer, Reg, Writer

__all__ = ["BYTES", "FLOATS", "WARP", "Index", "Kernel", "KernelModule", "Loop", "Pointer", "Reg", "Writer"]

_ROLLED = "#llvm.loop_annotation<unroll = <disable = true>>"
_DYNAMIC = -2147483648  # `getelementptr` reads this index from an operand


@define(eq=False)
class Kernel(Instructions):
    """A kernel being written: `at` is where the next operation goes.

    `block` is the number of threads, along x: all kernels use one dimension of threads, and of blocks. `wide`: indices
    need 64 bits.
    """

    pointers: list[Pointer] = field(init=False, factory=list)
    faults: Pointer | None = field(init=False, default=None)
    table: Any = field(init=False, default=None)
    maps: list[Any] = field(init=False, factory=list)
    _shared: int = field(init=False, default=0)

    # Beginning and end

    def begin(
        self,
        arguments: Sequence[tuple[str, bool]],
        blocks: int,
        faults: bool = False,
        per_multiprocessor: int = 0,
        table: int = 0,
        maps: int = 0,
    ) -> None:
        """Open the kernel: for each argument the type of its elements and whether nothing writes there.

        With `faults` one more pointer follows: what the host looks at for indices that were out of range. With `table`
        so many 64-bit words are a parameter behind, and how many `blocks` there are is not known. The last parameters
        are `maps`, so many of them.
        """
        mlir = self.context.mlir
        self.location = self.context.location(None)
        pointer = ir.Type.parse("!llvm.ptr<1>", mlir)
        types = [pointer] * (len(arguments) + faults) + [ir.Type.parse("!llvm.ptr", mlir)] * ((table > 0) + maps)
        attributes = {
            "sym_name": ir.StringAttr.get(self.name, context=mlir),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [], context=mlir), context=mlir),
            "gpu.kernel": ir.UnitAttr.get(context=mlir),
            "known_block_size": ir.DenseI32ArrayAttr.get([self.block, 1, 1], context=mlir),
        }
        if table:
            attributes[TABLE] = self._i64(table)
        else:
            attributes["known_grid_size"] = ir.DenseI32ArrayAttr.get([blocks, 1, 1], context=mlir)
        if maps:
            attributes[MAPS] = self._i64(maps)
        if per_multiprocessor:
            i32 = ir.IntegerType.get_signless(32, context=mlir)
            attributes["nvvm.minctasm"] = ir.IntegerAttr.get(i32, per_multiprocessor)
        func = ir.Operation.create(
            "gpu.func", attributes=attributes, regions=1, loc=self.location, ip=ir.InsertionPoint(self.module.block)
        )
        body = func.regions[0].blocks.append(*types, arg_locs=[self.location] * len(types))
        self.at = ir.InsertionPoint(body)
        self.pointers = [
            Pointer(value, type, constant=constant)
            for value, (type, constant) in zip(body.arguments, arguments, strict=False)
        ]
        if faults:
            self.faults = Pointer(body.arguments[len(arguments)], "i32")
        if table:
            self.table = body.arguments[len(types) - 1 - maps]
        self.maps = [body.arguments[number] for number in range(len(types) - maps, len(types))]

    def end(self) -> None:
        self.emit("gpu.return", [], [])

    # Indices

    def add(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.op("arith.addi", self.reg(a), self.reg(b))

    def sub(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.op("arith.subi", self.reg(a), self.reg(b))

    def mul(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.op("arith.muli", self.reg(a), self.reg(b))

    def div(self, a: Index, b: int) -> Index:
        """Of numbers that are not negative."""
        if isinstance(a, int):
            return a // b
        return a if b == 1 else self.op("arith.divui", a, self.reg(b))

    def rem(self, a: Index, b: int) -> Index:
        """Of numbers that are not negative."""
        if isinstance(a, int):
            return a % b
        return 0 if b == 1 else self.op("arith.remui", a, self.reg(b))

    def below(self, a: Index, b: Index) -> Reg:
        """a < b"""
        return self.compare("lt", self.reg(a), self.reg(b))

    def checked(self, a: Reg, size: int) -> Reg:
        """An index that was read: one outside range(`size`) is reported to the host, and 0 taken for it."""
        bad = self.outside(a, size)
        self.report(bad, a, size)
        return self.select(bad, self.reg(0), a)

    def outside(self, a: Reg, size: int) -> Reg:
        """Whether an index lies outside range(`size`)."""
        return self.op("arith.cmpi", a, self.reg(size), type="i1", predicate=self._i64(9))  # unsigned, not less

    def report(self, bad: Reg, a: Reg, size: int) -> None:
        """Tell the host of an index outside range(`size`) where `bad` holds: 1, the index, the size."""
        assert self.faults is not None, "this kernel was not said to check indices"
        with self.when(bad):
            given = a if a.type == "i32" else self.op("arith.trunci", a, type="i32")
            self.store(self.const(1, "i32"), self.faults, 0)
            self.store(given, self.faults, 1)
            self.store(self.const(min(size, 2**31 - 1), "i32"), self.faults, 2)

    def reg(self, index: Index) -> Reg:
        return self.const(index, self.index) if isinstance(index, int) else index

    def thread(self) -> Reg:
        return self._place("gpu.thread_id")

    def block_number(self) -> Reg:
        return self._place("gpu.block_id")

    def _place(self, name: str) -> Reg:
        mlir = self.context.mlir
        value = self.emit(name, [ir.IndexType.get(mlir)], [], {"dimension": ir.Attribute.parse("#gpu<dim x>", mlir)})
        return Reg(self.emit("arith.index_castui", [self.type(self.index)], [value]), self.index)

    # Memory

    def load(self, base: Pointer, index: Index, lanes: int = 0, aligned: bool = True) -> Reg:
        """Elements from `index`; a vector lies at a multiple of its size unless `aligned` is false."""
        mlir = self.context.mlir
        attributes: dict[str, Any] = {"ordering": self._i64(0), "alignment": self._align(base, lanes, aligned)}
        if base.constant:
            attributes["invariant"] = ir.UnitAttr.get(context=mlir)
        value = self.emit("llvm.load", [self.type(base.type, lanes)], [self.address(base, index)], attributes)
        return Reg(value, base.type, lanes)

    def word(self, index: Index, type: str = "") -> Any:
        """A word of the table: a register of an integer `type`, or the address of what lies in global memory."""
        word = Pointer(self.table, "i64", 0, 8)
        if type:
            found = self.load(word, index)
            return found if type == "i64" else self.op("arith.trunci", found, type=type)
        pointer = ir.Type.parse("!llvm.ptr<1>", self.context.mlir)
        attributes = {"ordering": self._i64(0), "alignment": self._i64(8)}
        return self.emit("llvm.load", [pointer], [self.address(word, index)], attributes)

    def store(self, value: Reg, base: Pointer, index: Index, aligned: bool = True) -> None:
        assert value.type == base.type, (value.type, base.type)
        attributes = {"ordering": self._i64(0), "alignment": self._align(base, value.lanes, aligned)}
        self.emit("llvm.store", [], [value.value, self.address(base, index)], attributes)

    def address(self, base: Pointer, index: Index) -> Any:
        mlir = self.context.mlir
        number = index if isinstance(index, int) else _DYNAMIC
        if number == 0:
            return base.value
        operands = [base.value] if isinstance(index, int) else [base.value, index.value]
        attributes = {
            "elem_type": ir.TypeAttr.get(self.type(base.type), context=mlir),
            "rawConstantIndices": ir.DenseI32ArrayAttr.get([number], context=mlir),
        }
        return self.emit("llvm.getelementptr", [base.value.type], operands, attributes)

    def _align(self, base: Pointer, lanes: int, aligned: bool) -> ir.Attribute:
        size = BYTES[base.type] * (max(lanes, 1) if aligned else 1)
        return self._i64(min(size, base.align))

    def shared(self, type: str, count: int) -> Pointer:
        """Static shared memory of `count` elements, aligned to 16 bytes."""
        mlir = self.context.mlir
        name = f"{self.name}_shared_{self._shared}"
        self._shared += 1
        array = ir.Type.parse(f"!llvm.array<{count} x {type}>", mlir)
        i32 = ir.IntegerType.get_signless(32, context=mlir)
        attributes = {
            "sym_name": ir.StringAttr.get(name, context=mlir),
            "global_type": ir.TypeAttr.get(array, context=mlir),
            "linkage": ir.Attribute.parse("#llvm.linkage<internal>", mlir),
            "addr_space": ir.IntegerAttr.get(i32, 3),
            "alignment": self._i64(16),
        }
        start = ir.InsertionPoint.at_block_begin(self.module.block)
        ir.Operation.create("llvm.mlir.global", attributes=attributes, regions=1, loc=self.location, ip=start)
        symbol = {"global_name": ir.FlatSymbolRefAttr.get(name, context=mlir)}
        value = self.emit("llvm.mlir.addressof", [ir.Type.parse("!llvm.ptr<3>", mlir)], [], symbol)
        return Pointer(value, type, 3)

    # Threads together

    def barrier(self) -> None:
        self.emit("gpu.barrier", [], [])

    def shuffle(self, a: Reg, distance: int) -> Reg:
        """The value of the lane whose number differs by `distance`, a power of two."""
        return self._shuffled(a, "xor", self.const(distance, "i32"))

    def from_lane(self, a: Reg, lane: Index) -> Reg:
        """The value of another lane of the warp."""
        number = self.reg(lane)
        if number.type != "i32":
            number = self.op("arith.trunci", number, type="i32")
        return self._shuffled(a, "idx", number)

    def _shuffled(self, a: Reg, how: str, number: Reg) -> Reg:
        """Lanes exchange 32 bits at a time."""
        if a.type == "f64":
            bits = self._shuffled(self.op("arith.bitcast", a, type="i64"), how, number)
            return self.op("arith.bitcast", bits, type="f64")
        if a.type == "i64":
            half = self.const(32, "i64")
            high = self.op("arith.trunci", self.op("arith.shrui", a, half), type="i32")
            low = self._shuffled(self.op("arith.trunci", a, type="i32"), how, number)
            high = self.op("arith.extui", self._shuffled(high, how, number), type="i64")
            return self.op("arith.ori", self.op("arith.extui", low, type="i64"), self.op("arith.shli", high, half))
        if a.type == "i1":
            whole = self._shuffled(self.op("arith.extui", a, type="i32"), how, number)
            return self.op("arith.trunci", whole, type="i1")
        mode = ir.Attribute.parse(f"#gpu<shuffle_mode {how}>", self.context.mlir)
        operands = [a.value, number.value, self.const(WARP, "i32").value]
        op = self._create("gpu.shuffle", [self.type(a.type), self.type("i1")], operands, {"mode": mode})
        return Reg(op.results[0], a.type)

    # Control

    @contextmanager
    def when(self, condition: Reg) -> Iterator[None]:
        """What is written within the block happens where the condition holds."""
        op = self._create("scf.if", [], [condition.value], {}, regions=2)
        with self._inside(op.regions[0].blocks.append()):
            yield
            self.emit("scf.yield", [], [])

    def choose(self, condition: Reg, then: Writer, otherwise: Writer, type: str, lanes: int = 0) -> Reg:
        """What one of two functions writes, a value of the type; what the other writes does not happen."""
        op = self._create("scf.if", [self.type(type, lanes)], [condition.value], {}, regions=2)
        for region, write in zip(op.regions, (then, otherwise), strict=True):
            with self._inside(region.blocks.append()):
                self.emit("scf.yield", [], [write().value])
        return Reg(op.results[0], type, lanes)

    def either(self, condition: Reg, then: Callable[[], Sequence[Reg]], otherwise: Sequence[Reg]) -> list[Reg]:
        """What a function writes where the condition holds, else the values that there are, of the same types."""
        types = [v.value.type for v in otherwise]
        op = self._create("scf.if", types, [condition.value], {}, regions=2)
        with self._inside(op.regions[0].blocks.append()):
            self.emit("scf.yield", [], [v.value for v in then()])
        with self._inside(op.regions[1].blocks.append()):
            self.emit("scf.yield", [], [v.value for v in otherwise])
        return [Reg(v, o.type, o.lanes) for v, o in zip(op.results, otherwise, strict=True)]

    @contextmanager
    def loop(
        self, start: Index, stop: Index, step: Index, carried: Sequence[Reg] = (), *, rolled: bool = False
    ) -> Iterator[Loop]:
        """A loop: within the block `loop.index` and `loop.carried` are a turn's; `loop.next(...)` ends the turn.

        `rolled`: its turns stay one piece of code, since the registers of several at once would not do.
        """
        kept = [c.value for c in carried]
        operands = [self.reg(start).value, self.reg(stop).value, self.reg(step).value, *kept]
        op = self._create("scf.for", [v.type for v in kept], operands, {}, regions=1)
        if rolled:
            op.attributes["llvm.loop_annotation"] = ir.Attribute.parse(_ROLLED, self.module.context.mlir)
        types = [self.type(self.index), *(v.type for v in kept)]
        body = op.regions[0].blocks.append(*types, arg_locs=[self.location] * len(types))
        number, *values = body.arguments
        inside = [Reg(v, c.type, c.lanes) for v, c in zip(values, carried, strict=True)]
        turn = Loop(Reg(number, self.index), inside)
        with self._inside(body):
            yield turn
            self.emit("scf.yield", [], [v.value for v in turn.given])
        turn.results = [Reg(v, c.type, c.lanes) for v, c in zip(op.results, carried, strict=True)]

    @contextmanager
    def _inside(self, block: Any) -> Iterator[None]:
        before, self.at = self.at, ir.InsertionPoint(block)
        try:
            yield
        finally:
            self.at = before
