"""Writing a kernel: a `gpu.func` in the dialects that upstream lowers to PTX, over scalars and short vectors.

A kernel takes one pointer an argument. Indices are i32 or i64 numbers, known ones Python integers, which arithmetic
folds; what is left over (`x + 0`, a product computed twice) upstream's canonicalization and CSE remove. Loops and
conditions are `scf`, so that a value made inside one cannot be used outside by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import define, field, frozen
from mlir import ir

from sexpgpu.dialects.context import Context

WARP = 32
BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "i8": 1, "i1": 1}
"""Bytes of a scalar in memory; an i1 is only ever in a register."""
FLOATS = frozenset({"f64", "f32", "bf16"})
_DYNAMIC = -2147483648  # `getelementptr` reads this index from an operand


@frozen(eq=False)
class Reg:
    """A value in registers: one scalar of `type` (`lanes` 0) or a vector of `lanes` of them."""

    value: Any
    type: str
    lanes: int = 0


@frozen(eq=False)
class Pointer:
    """Where elements of `type` begin; `space` 1 is global memory, 3 shared. Aligned to `align` bytes."""

    value: Any
    type: str
    space: int = 1
    align: int = 16
    constant: bool = False  # nothing writes there while the kernel runs


Index = int | Reg
Writer = Callable[[], Reg]


@define(eq=False)
class Loop:
    """A turn of a loop while its body is written, and the loop's results behind it."""

    index: Reg
    carried: list[Reg]
    given: list[Reg] = field(factory=list, init=False)
    results: list[Reg] = field(factory=list, init=False)

    def next(self, *values: Reg) -> None:
        """What the next turn carries."""
        self.given = list(values)


@define(eq=False)
class KernelModule:
    """A `gpu.module` being filled: its block, and the MLIR types that its kernels share."""

    context: Context
    block: Any
    _types: dict[tuple[str, int], Any] = field(factory=dict, init=False)

    def type(self, name: str, lanes: int = 0) -> Any:
        """The MLIR type of a scalar, or of a vector of them."""
        found = self._types.get((name, lanes))
        if found is None:
            text = f"vector<{lanes}x{name}>" if lanes else name
            found = self._types[name, lanes] = ir.Type.parse(text, self.context.mlir)
        return found


@define(eq=False)
class Kernel:
    """A kernel being written: `at` is where the next operation goes.

    `block` is the number of threads, along x: all kernels use one dimension of threads, and of blocks. `wide`: indices
    need 64 bits.
    """

    module: KernelModule
    name: str
    block: int
    wide: bool = False
    pointers: list[Pointer] = field(init=False, factory=list)
    faults: Pointer | None = field(init=False, default=None)
    at: Any = field(init=False, default=None)
    location: Any = field(init=False)
    _shared: int = field(init=False, default=0)

    @property
    def context(self) -> Context:
        return self.module.context

    @property
    def index(self) -> str:
        """The type of indices."""
        return "i64" if self.wide else "i32"

    # Beginning and end

    def begin(
        self, arguments: Sequence[tuple[str, bool]], blocks: int, faults: bool = False, per_multiprocessor: int = 0
    ) -> None:
        """Open the kernel: for each argument the type of its elements and whether nothing writes there.

        With `faults` one more pointer follows: what the host looks at for indices that were out of range.
        """
        mlir = self.context.mlir
        self.location = self.context.location(None)
        pointer = ir.Type.parse("!llvm.ptr<1>", mlir)
        types = [pointer] * (len(arguments) + faults)
        attributes = {
            "sym_name": ir.StringAttr.get(self.name, context=mlir),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [], context=mlir), context=mlir),
            "gpu.kernel": ir.UnitAttr.get(context=mlir),
            "known_block_size": ir.DenseI32ArrayAttr.get([self.block, 1, 1], context=mlir),
            "known_grid_size": ir.DenseI32ArrayAttr.get([blocks, 1, 1], context=mlir),
        }
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

    def end(self) -> None:
        self.emit("gpu.return", [], [])

    # Numbers

    def const(self, value: bool | int | float, type: str, lanes: int = 0) -> Reg:
        scalar = self.type(type)
        if type in FLOATS:
            attribute = ir.FloatAttr.get(scalar, float(value), loc=self.location)
        else:
            attribute = ir.IntegerAttr.get(scalar, _wrapped(int(value), type))
        if lanes:
            attribute = ir.DenseElementsAttr.get_splat(self.type(type, lanes), attribute)
        return Reg(self.emit("arith.constant", [self.type(type, lanes)], [], {"value": attribute}), type, lanes)

    def op(self, name: str, *operands: Reg, type: str | None = None, **attributes: Any) -> Reg:
        """An operation whose result is like its first operand, or of another scalar `type`."""
        first = operands[0]
        kind = type if type is not None else first.type
        value = self.emit(name, [self.type(kind, first.lanes)], [o.value for o in operands], attributes)
        return Reg(value, kind, first.lanes)

    def compare(self, how: str, a: Reg, b: Reg) -> Reg:
        """`how` is `eq ne lt le gt ge`, ordered but for `ne`; integers are signed."""
        if a.type in ("f32", "f64"):
            predicate = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5, "ne": 13}[how]
            return self.op("arith.cmpf", a, b, type="i1", predicate=self._i64(predicate))
        predicate = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}[how]
        return self.op("arith.cmpi", a, b, type="i1", predicate=self._i64(predicate))

    def select(self, condition: Reg, a: Reg, b: Reg) -> Reg:
        value = self.emit("arith.select", [self.type(a.type, a.lanes)], [condition.value, a.value, b.value])
        return Reg(value, a.type, a.lanes)

    def wide_product(self, a: Reg, b: int) -> tuple[Reg, Reg]:
        """The low and the high half of an unsigned product of 32-bit numbers."""
        type = self.type("i32", a.lanes)
        factor = self.const(b, "i32", a.lanes)
        op = self._create("arith.mului_extended", [type, type], [a.value, factor.value], {})
        low, high = op.results
        return Reg(low, "i32", a.lanes), Reg(high, "i32", a.lanes)

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
        assert self.faults is not None, "this kernel was not said to check indices"
        bound = self.reg(size)
        good = self.op("arith.cmpi", a, bound, type="i1", predicate=self._i64(6))  # unsigned less than
        with self.when(self.op("arith.xori", good, self.const(1, "i1"))):
            given = a if a.type == "i32" else self.op("arith.trunci", a, type="i32")
            self.store(self.const(1, "i32"), self.faults, 0)
            self.store(given, self.faults, 1)
            self.store(self.const(min(size, 2**31 - 1), "i32"), self.faults, 2)
        return self.select(good, a, self.reg(0))

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

    # Vectors

    def splat(self, a: Reg, lanes: int) -> Reg:
        if not lanes or a.lanes:
            return a
        return Reg(self.emit("vector.broadcast", [self.type(a.type, lanes)], [a.value]), a.type, lanes)

    def lane(self, a: Reg, number: int) -> Reg:
        """One element of a vector; a scalar is the same in every lane."""
        if not a.lanes:
            return a
        where = {"static_position": ir.DenseI64ArrayAttr.get([number], context=self.context.mlir)}
        return Reg(self.emit("vector.extract", [self.type(a.type)], [a.value], where), a.type)

    def pack(self, elements: Sequence[Reg]) -> Reg:
        """A vector of scalars."""
        type = elements[0].type
        value = self.emit("vector.from_elements", [self.type(type, len(elements))], [e.value for e in elements])
        return Reg(value, type, len(elements))

    # Memory

    def load(self, base: Pointer, index: Index, lanes: int = 0, aligned: bool = True) -> Reg:
        """Elements from `index`; a vector lies at a multiple of its size unless `aligned` is false."""
        mlir = self.context.mlir
        attributes: dict[str, Any] = {"ordering": self._i64(0), "alignment": self._align(base, lanes, aligned)}
        if base.constant:
            attributes["invariant"] = ir.UnitAttr.get(context=mlir)
        value = self.emit("llvm.load", [self.type(base.type, lanes)], [self.address(base, index)], attributes)
        return Reg(value, base.type, lanes)

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

    def counting(self, lanes: int, type: str = "") -> Reg:
        """The vector 0, 1, 2, ..."""
        type = type or self.index
        whole = self.type(type, lanes)
        each = ", ".join(map(str, range(lanes)))
        value = ir.Attribute.parse(f"dense<[{each}]> : {whole}", self.context.mlir)
        return Reg(self.emit("arith.constant", [whole], [], {"value": value}), type, lanes)

    def joined(self, vectors: Sequence[Reg]) -> Reg:
        """One vector behind another."""
        return self.pack([self.lane(v, i) for v in vectors for i in range(v.lanes)])

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

    def shuffle(self, a: Reg, distance: int, how: str = "xor") -> Reg:
        """The value of the lane whose number differs by `distance`; 64-bit and 32-bit scalars."""
        operands = [a.value, self.const(distance, "i32").value, self.const(WARP, "i32").value]
        mode = ir.Attribute.parse(f"#gpu<shuffle_mode {how}>", self.context.mlir)
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

    @contextmanager
    def loop(self, start: Index, stop: Index, step: Index, carried: Sequence[Reg] = ()) -> Iterator[Loop]:
        """A loop: within the block `loop.index` and `loop.carried` are a turn's; `loop.next(...)` ends the turn."""
        kept = [c.value for c in carried]
        operands = [self.reg(start).value, self.reg(stop).value, self.reg(step).value, *kept]
        op = self._create("scf.for", [v.type for v in kept], operands, {}, regions=1)
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

    # MLIR

    def type(self, name: str, lanes: int = 0) -> Any:
        return self.module.type(name, lanes)

    def emit(
        self, name: str, results: Sequence[Any], operands: Sequence[Any], attributes: dict[str, Any] | None = None
    ) -> Any:
        """Any operation of MLIR; its only result, or None."""
        made = self._create(name, results, operands, attributes or {})
        return made.results[0] if results else None

    def _create(
        self, name: str, results: Sequence[Any], operands: Sequence[Any], attributes: dict[str, Any], regions: int = 0
    ) -> Any:
        return ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=attributes,
            regions=regions,
            loc=self.location,
            ip=self.at,
        )

    def _i64(self, value: int) -> Any:
        return ir.IntegerAttr.get(self.type("i64"), value)


def _wrapped(value: int, type: str) -> int:
    """The number that the bits of an integer type make of `value`, as a signed one."""
    bits = int(type[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value
