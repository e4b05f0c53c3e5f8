"""PTX text to records: declarations and headers. What is inside a body is read by `body`."""

from __future__ import annotations

import struct

from attrs import evolve

from sexpgpu.diag import Span, error
from sexpgpu.sim.body import read_body
from sexpgpu.sim.cursor import Cursor
from sexpgpu.sim.lex import LexError, tokens_of
from sexpgpu.sim.source import Function, Source, Space, Variable

LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})
SPACES: dict[str, Space] = {".global": "global", ".const": "const", ".shared": "shared"}


def parse(text: str, file: str) -> Source:
    """The module that `text` says. Raises E-SIM-001 at the line that is not PTX."""
    try:
        cursor = Cursor(*tokens_of(text), file, text)
    except LexError as fault:
        span = Span(file, fault.line, 1, fault.line, 1)
        raise error("E-SIM-001", "the text is not PTX", span, actual=fault.text) from None
    return _module(cursor)


def _module(c: Cursor) -> Source:
    functions: dict[str, Function] = {}
    variables: dict[str, Variable] = {}
    declared: set[str] = set()
    target = version = ""
    while not c.done:
        token = c.peek()
        if token == ".file":
            c.file_name()
        elif token == ".target":
            target = c.rest_of_line(2)[1]
        elif token == ".version":
            version = c.rest_of_line(2)[1]
        elif token in (".address_size", ".loc"):
            c.rest_of_line(2)
        elif token == ".section":
            c.skip_to("{")
            c.skip_braces()
        elif token in (".pragma", ".alias"):
            c.skip_to(";")
        elif token in LINKAGE:
            c.next()
        elif token in (".entry", ".func"):
            function = _function(c)
            if function is None:
                continue
            if isinstance(function, str):
                declared.add(function)
            else:
                functions[function.name] = function
        elif token in SPACES:
            variable = declaration(c, variables)
            variables[variable.name] = variable
        elif token == ";":
            c.next()
        else:
            raise c.fault(f"a directive of a module was expected, not {token}")
    if not version or not target:
        raise error(
            "E-SIM-001",
            "the text is not PTX",
            Span(c.file, 1, 1, 1, 1),
            expected=".version and .target at its head",
        )
    return Source(c.file, c.text, target, version, functions, variables, frozenset(declared - set(functions)))


def _function(c: Cursor) -> Function | str | None:
    """An entry or function; its name alone where it is only declared."""
    line = c.line
    entry = c.next() == ".entry"
    results: tuple[Variable, ...] = ()
    if c.peek() == "(":
        results = _parameters(c)
    name = c.next()
    parameters = _parameters(c) if c.peek() == "(" else ()
    required: tuple[int, int, int] | None = None
    most: int | None = None
    while c.peek() not in ("{", ";"):
        directive = c.next()
        if directive in (".reqntid", ".maxntid"):
            x, y, z = [*_numbers(c), 1, 1][:3]
            if directive == ".reqntid":
                required = (x, y, z)
            else:
                most = x * y * z
        elif directive in (".noreturn", ".explicitcluster"):
            pass
        elif directive in (".minnctapersm", ".maxnctapersm", ".maxnreg", ".reqnctapercluster", ".maxclusterrank"):
            _numbers(c)
        elif directive == ".pragma":
            c.skip_to(";")
        else:
            raise c.fault(f"{directive} is no directive of a function")
    if c.peek() == ";":
        c.next()
        return name
    body = read_body(c)
    return Function(
        name,
        entry,
        parameters,
        results,
        tuple(body.statements),
        body.registers,
        tuple(body.variables),
        line,
        required,
        most,
    )


def _numbers(c: Cursor) -> list[int]:
    numbers = [c.integer()]
    while c.peek() == ",":
        c.next()
        numbers.append(c.integer())
    return numbers


def _parameters(c: Cursor) -> tuple[Variable, ...]:
    c.expect("(")
    found: list[Variable] = []
    while c.peek() != ")":
        if c.peek() == ",":
            c.next()
        c.expect(".param") if c.peek() == ".param" else c.expect(".reg")
        found.append(c.variable("param", found_size=True))
    c.expect(")")
    return tuple(found)


def declaration(c: Cursor, known: dict[str, Variable]) -> Variable:
    """A variable of a module with its initial value."""
    space = SPACES[c.next()]
    variable = c.variable(space, found_size=False)
    if c.peek() == "=":
        c.next()
        variable = _initialised(c, variable)
    if c.peek() == ",":
        raise c.fault("one variable a declaration")
    c.expect(";")
    return variable


def _initialised(c: Cursor, variable: Variable) -> Variable:
    values: list[bytes] = []
    depth = 0
    while True:
        if c.peek() == "{":
            depth += 1
            c.next()
        elif c.peek() == "}":
            depth -= 1
            c.next()
        elif c.peek() == ",":
            c.next()
        elif c.peek() == ";":
            break
        else:
            values.append(_encoded(c, variable))
    initial = b"".join(values)
    size = variable.size or len(initial)
    return evolve(variable, size=size, initial=initial.ljust(size, b"\0"), unsized=False)


def _encoded(c: Cursor, variable: Variable) -> bytes:
    value = c.literal()
    if value is None:
        raise c.fault(f"the initial value of {variable.name} is no number")
    size = variable.type.size
    if isinstance(value.value, float):
        return struct.pack("<d" if size == 8 else "<f", value.value)
    return (int(value.value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
