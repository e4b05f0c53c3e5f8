"""An entry as one flat program: calls inlined, variables laid out, basic blocks found.

A device function is copied to where it is called, its registers, labels and local variables renamed; its parameters
are the caller's `.param` variables, which live in local memory like any others.
"""

from __future__ import annotations

from attrs import define, evolve, field, frozen

from sexpgpu.diag import error
from sexpgpu.sim.lanes import span_of
from sexpgpu.sim.source import (
    Address,
    Function,
    Group,
    Instr,
    Label,
    Name,
    Operand,
    Reg,
    Source,
    Space,
    Statement,
    Targets,
    Variable,
)
from sexpgpu.sim.types import PRED, Scalar

CARRY = "%cc"  # the carry of sums of several words, which no instruction names
MOST_INLINED = 64
TRANSFERS = frozenset({"bra", "brx", "ret", "exit", "trap"})
BARRIERS = frozenset({"bar", "barrier"})
WARP_WIDE = frozenset({"shfl", "vote", "match", "redux", "mma", "ldmatrix", "stmatrix", "wgmma", "elect"})


@frozen
class Symbol:
    """Where a variable lies: an offset within its space, or an address for `global` (set when a module is loaded)."""

    space: Space
    offset: int
    size: int
    name: str


@frozen(eq=False)
class Program:
    """A flat entry. `statements` refer to registers and symbols by unique names; shared sizes are of static ones."""

    name: str
    file: str
    statements: tuple[Statement, ...]
    registers: dict[str, Scalar]
    symbols: dict[str, Symbol]
    parameters: tuple[Variable, ...]
    offsets: tuple[int, ...]  # of each parameter in the bytes that a launch passes
    parameter_bytes: int
    shared: int
    dynamic: int | None  # where the unsized shared array begins
    local: int
    threads: tuple[int, int, int] | None
    most_threads: int | None


@define
class _Flat:
    source: Source
    statements: list[Statement] = field(factory=list)
    registers: dict[str, Scalar] = field(factory=dict)
    symbols: dict[str, Symbol] = field(factory=dict)
    local: int = 0
    shared: int = 0
    dynamic_align: int = 0
    dynamic_names: list[str] = field(factory=list)
    copies: int = 0


def flatten(source: Source, entry: Function) -> Program:
    """The program of an entry. Raises E-SIM-010 for calls that cannot be followed."""
    flat = _Flat(source, registers={CARRY: PRED})
    for variable in source.variables.values():
        if variable.space == "shared":
            _place_shared(flat, variable, variable.name)
    offset = 0
    offsets = []
    for parameter in entry.parameters:
        offset = _up(offset, parameter.align)
        offsets.append(offset)
        flat.symbols[parameter.name] = Symbol("param", offset, parameter.size, parameter.name)
        offset += parameter.size
    _copy(flat, entry, "", {}, None, ())
    dynamic: int | None = None
    if flat.dynamic_names:
        dynamic = _up(flat.shared, max(flat.dynamic_align, 16))
        for name in flat.dynamic_names:
            flat.symbols[name] = Symbol("shared", dynamic, 0, name)
    return Program(
        entry.name,
        source.file,
        tuple(flat.statements),
        flat.registers,
        flat.symbols,
        entry.parameters,
        tuple(offsets),
        offset,
        flat.shared,
        dynamic,
        flat.local,
        entry.threads,
        entry.most_threads,
    )


def _up(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _place_shared(flat: _Flat, variable: Variable, name: str) -> None:
    if variable.unsized:
        flat.dynamic_names.append(name)
        flat.dynamic_align = max(flat.dynamic_align, variable.align)
        return
    flat.shared = _up(flat.shared, variable.align)
    flat.symbols[name] = Symbol("shared", flat.shared, variable.size, variable.name)
    flat.shared += variable.size


def _copy(
    flat: _Flat, function: Function, suffix: str, names: dict[str, str], end: str | None, stack: tuple[str, ...]
) -> None:
    """Append the body of `function`. `names`: its parameters as the caller's variables; `end`: where it returns."""
    for name, kind in function.registers.items():
        flat.registers[name + suffix] = kind
    own = set()
    for variable in (*function.variables, *(r for r in function.results if r.name not in names)):
        own.add(variable.name)
        if variable.space == "shared":
            _place_shared(flat, variable, variable.name + suffix)
            continue
        flat.local = _up(flat.local, max(variable.align, 1))
        flat.symbols[variable.name + suffix] = Symbol("local", flat.local, variable.size, variable.name)
        flat.local += variable.size
    labels = {s.name for s in function.body if isinstance(s, Label | Targets)}

    def renamed(name: str) -> str:
        if name in names:
            return names[name]
        return name + suffix if name in own or name in labels else name

    def operand(x: Operand) -> Operand:
        if isinstance(x, Reg):
            return Reg(x.name + suffix, x.negated)
        if isinstance(x, Name):
            return Name(renamed(x.name))
        if isinstance(x, Address):
            base = x.base
            if base is not None:
                base = Reg(base.name + suffix, base.negated) if isinstance(base, Reg) else Name(renamed(base.name))
            return Address(base, x.offset, tuple(operand(c) for c in x.coordinates))
        return Group(tuple(operand(i) for i in x.items)) if isinstance(x, Group) else x

    for statement in function.body:
        if isinstance(statement, Label):
            flat.statements.append(Label(statement.name + suffix))
        elif isinstance(statement, Targets):
            flat.statements.append(Targets(statement.name + suffix, tuple(n + suffix for n in statement.labels)))
        else:
            ins = statement
            if suffix:
                guard = ins.guard and Reg(ins.guard.name + suffix, ins.guard.negated)
                ins = evolve(ins, operands=tuple(operand(x) for x in ins.operands), guard=guard)
            if ins.op == "call":
                _inline(flat, ins, (*stack, function.name))
            elif ins.op == "ret" and end is not None:
                flat.statements.append(evolve(ins, op="bra", parts=("uni",), operands=(Name(end),)))
            else:
                flat.statements.append(ins)


def _inline(flat: _Flat, call: Instr, stack: tuple[str, ...]) -> None:
    operands = list(call.operands)
    results = operands.pop(0) if operands and isinstance(operands[0], Group) else Group(())
    target = operands.pop(0) if operands else None
    given = operands.pop(0) if operands and isinstance(operands[0], Group) else Group(())
    if not isinstance(target, Name):
        raise _refused(flat, call, "a call through a register")
    function = flat.source.functions.get(target.name)
    if function is None:
        raise _refused(flat, call, f"the function {target.name} has no body in this module")
    flat.copies += 1
    if target.name in stack or flat.copies > MOST_INLINED:
        raise _refused(flat, call, f"{target.name} calls itself, or calls nest too often")
    names: dict[str, str] = {}
    assert isinstance(results, Group)
    assert isinstance(given, Group)
    for formal, actual in zip((*function.results, *function.parameters), (*results.items, *given.items), strict=False):
        if not isinstance(actual, Name):
            raise _refused(flat, call, "an argument that is no .param variable")
        names[formal.name] = actual.name
    if len(function.parameters) != len(given.items) or len(results.items) > len(function.results):
        raise _refused(flat, call, f"{target.name} takes {len(function.parameters)} arguments, not {len(given.items)}")
    end = f"$return.{flat.copies}"
    if call.guard is not None:
        over = Reg(call.guard.name, not call.guard.negated)
        flat.statements.append(evolve(call, op="bra", parts=(), operands=(Name(end),), guard=over))
    _copy(flat, function, f"@{flat.copies}", names, end, stack)
    flat.statements.append(Label(end))


def _refused(flat: _Flat, call: Instr, why: str) -> Exception:
    return error("E-SIM-010", f"this call cannot be followed: {why}", span_of(flat.source.file, call), actual=call.text)
