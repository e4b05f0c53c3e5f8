"""What a PTX text says, as records: modules, functions, variables, instructions and their operands."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from sexpgpu.sim.types import Scalar

Space = Literal["global", "const", "shared", "local", "param"]


@frozen
class Reg:
    """A register, by a name that is unique in its function; `negated` for a predicate written `!p`."""

    name: str
    negated: bool = False


@frozen
class Imm:
    """A literal: an integer, or a float given by its bits (`bits` of them) or written in decimals (0 bits)."""

    value: int | float
    bits: int = 0


@frozen
class Special:
    """A register of the machine: `%tid.x`."""

    name: str


@frozen
class Name:
    """A label, a variable or a function."""

    name: str


@frozen
class Address:
    """`[base + offset]`; a base of None is an address by number. `coordinates` are those of a tensor map."""

    base: Reg | Name | None
    offset: int
    coordinates: tuple[Operand, ...] = ()


@frozen
class Group:
    """`{a, b}`, `(a, b)` or `a|b`."""

    items: tuple[Operand, ...]


@frozen
class Sink:
    """`_`: a result that nobody wants."""


Operand = Reg | Imm | Special | Name | Address | Group | Sink


@frozen
class Place:
    """A line of the user's source that an instruction was made from, as `.loc` says it."""

    file: str
    line: int
    col: int


@frozen(eq=False)
class Instr:
    """One instruction: `op` is its first word, `parts` the words behind it."""

    op: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Reg | None
    line: int
    columns: tuple[int, int]  # from 1, the last exclusive
    place: Place | None
    text: str


@frozen
class Label:
    """A place in the code that branches name."""

    name: str


@frozen
class Targets:
    """`.branchtargets`: what a `brx.idx` chooses from."""

    name: str
    labels: tuple[str, ...]


Statement = Instr | Label | Targets


@frozen
class Variable:
    """A named piece of memory of `size` bytes; `unsized` for an extern array that a launch sizes."""

    name: str
    space: Space
    size: int
    align: int
    type: Scalar
    initial: bytes = b""
    unsized: bool = False


@frozen(eq=False)
class Function:
    """An entry or a device function: `body` with unique names, `registers` by name."""

    name: str
    entry: bool
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...]
    body: tuple[Statement, ...]
    registers: dict[str, Scalar]
    variables: tuple[Variable, ...]
    line: int
    threads: tuple[int, int, int] | None = None  # .reqntid
    most_threads: int | None = None  # .maxntid, multiplied out


@frozen(eq=False)
class Source:
    """A module: `file` is what diagnostics call it."""

    file: str
    text: str
    target: str
    version: str
    functions: dict[str, Function] = field(factory=dict)
    variables: dict[str, Variable] = field(factory=dict)
    declared: frozenset[str] = frozenset()  # functions without a body
