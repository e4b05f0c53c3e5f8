"""The body of a function: scopes, declarations, labels, instructions.

Names are made unique here: a register or label of an inner `{ }` gets a number behind it, so everything later sees
one flat body.
"""

from __future__ import annotations

from attrs import define, evolve, field

from sexpgpu.sim.cursor import Cursor
from sexpgpu.sim.source import (
    Address,
    Group,
    Imm,
    Instr,
    Label,
    Name,
    Operand,
    Place,
    Reg,
    Sink,
    Space,
    Special,
    Statement,
    Targets,
    Variable,
)
from sexpgpu.sim.types import TYPES, Scalar

SPECIALS = frozenset(
    f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"
) | frozenset(
    {
        "%laneid", "%warpid", "%nwarpid", "%clock", "%clock64", "%globaltimer", "%smid", "%nsmid", "%gridid",
        "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt",
        "%dynamic_smem_size", "%total_smem_size", "%cluster_ctarank", "%cluster_nctarank",
    }
)  # fmt: skip
MEMORY: dict[str, Space] = {
    ".local": "local", ".shared": "shared", ".param": "param", ".global": "global", ".const": "const",
}  # fmt: skip
WARP_SIZE = 32


@define
class Scope:
    """What one pair of braces declares: names, and families of registers (`%r<10>`) by their prefix."""

    names: dict[str, str] = field(factory=dict)
    families: dict[str, tuple[Scalar, int, str]] = field(factory=dict)


@define
class Body:
    """A body as it is read."""

    statements: list[Statement] = field(factory=list)
    registers: dict[str, Scalar] = field(factory=dict)
    variables: list[Variable] = field(factory=list)
    scopes: list[Scope] = field(factory=list)
    count: int = 0

    def open(self, c: Cursor) -> None:
        """A new scope, which knows its labels from the start: branches may come before them."""
        self.count += 1
        self.scopes.append(Scope())
        depth, at, texts = 0, c.at, c.texts
        while at < len(texts):
            text = texts[at]
            if text == "{":
                depth += 1
            elif text == "}":
                if depth == 0:
                    return
                depth -= 1
            elif text == ":" and depth == 0 and texts[at - 2] in ENDS and _is_name(texts[at - 1]):
                self.declare(texts[at - 1])
            at += 1

    def declare(self, name: str) -> str:
        """The unique name of what the innermost scope declares as `name`."""
        unique = name if self.count == 1 else f"{name}.{self.count}"
        self.scopes[-1].names[name] = unique
        return unique

    def family(self, prefix: str, count: int, kind: Scalar) -> None:
        suffix = "" if self.count == 1 else f".{self.count}"
        self.scopes[-1].families[prefix] = (kind, count, suffix)

    def resolve(self, name: str) -> str:
        """The unique name, and the register declared where a family has it."""
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
            prefix = name.rstrip("0123456789")
            number = name[len(prefix) :]
            if number and prefix in scope.families:
                kind, count, suffix = scope.families[prefix]
                if int(number) < count:
                    unique = name + suffix
                    self.registers.setdefault(unique, kind)
                    return unique
        return name


ENDS = frozenset({";", "{", "}", ":", ""})


def _is_name(text: str) -> bool:
    return text[0].isalpha() or text[0] in "%$_"


def read_body(c: Cursor) -> Body:
    """The body between the braces that come next. Raises E-SIM-001."""
    body = Body()
    place: Place | None = None
    c.expect("{")
    body.open(c)
    while body.scopes:
        token = c.peek()
        if token == "{":
            c.next()
            body.open(c)
        elif token == "}":
            c.next()
            body.scopes.pop()
        elif token == ".reg":
            _registers(c, body)
        elif token in MEMORY:
            _variables(c, body)
        elif token == ".loc":
            place = c.place()
        elif token == ".file":
            c.file_name()
        elif token == ".pragma":
            c.skip_to(";")
        elif token == ";":
            c.next()
        elif c.peek(1) == ":":
            _label(c, body)
        else:
            body.statements.append(_instruction(c, body, place))
    return body


def _label(c: Cursor, body: Body) -> None:
    name = body.resolve(c.next())
    c.expect(":")
    if c.peek() == ".branchtargets":
        c.next()
        labels = [body.resolve(c.next())]
        while c.peek() == ",":
            c.next()
            labels.append(body.resolve(c.next()))
        c.expect(";")
        body.statements.append(Targets(name, tuple(labels)))
    elif c.peek() in (".callprototype", ".calltargets"):
        c.skip_to(";")
    else:
        body.statements.append(Label(name))


def _registers(c: Cursor, body: Body) -> None:
    c.expect(".reg")
    word = c.next()
    if word[1:] not in TYPES:
        raise c.fault(f"{word} is no type of a register")
    kind = TYPES[word[1:]]
    while True:
        name = c.next()
        if c.peek() == "<":
            c.next()
            body.family(name, c.integer(), kind)
            c.expect(">")
        else:
            body.registers[body.declare(name)] = kind
        if c.next() == ";":
            return


def _variables(c: Cursor, body: Body) -> None:
    space = MEMORY[c.next()]
    while True:
        variable = c.variable(space, found_size=False)
        body.variables.append(evolve(variable, name=body.declare(variable.name)))
        if c.peek() == "=":
            raise c.fault(f"{variable.name} has an initial value inside a function")
        if c.next() == ";":
            return


def _instruction(c: Cursor, body: Body, place: Place | None) -> Instr:
    line, start = c.line, c.at
    guard: Reg | None = None
    if c.peek() == "@":
        c.next()
        negated = c.peek() == "!"
        if negated:
            c.next()
        name = body.resolve(c.next())
        if name not in body.registers:
            raise c.fault(f"{name} is no register")
        guard = Reg(name, negated)
    word = c.next()
    if not word[0].isalpha():
        raise c.fault(f"{word!r} begins no instruction")
    operands: list[Operand] = []
    while c.peek() != ";":
        operands.append(_operand(c, body))
        if c.peek() == ",":
            c.next()
        elif c.peek() != ";":
            raise c.fault(f"{c.peek()!r} behind an operand")
    end = c.at
    c.next()
    op, *parts = word.split(".")
    return Instr(op, tuple(parts), tuple(operands), guard, line, c.columns(start, end), place, _written(c, start, end))


def _written(c: Cursor, start: int, end: int) -> str:
    """The instruction as a reader would write it."""
    text = ""
    for token in c.texts[start:end]:
        tight = not text or token in ",]})>|+:" or text[-1] in "[{(<@!|+-"
        text += token if tight else " " + token
    return text


def _operand(c: Cursor, body: Body) -> Operand:
    token = c.peek()
    if token in ("{", "("):
        c.next()
        close = "}" if token == "{" else ")"
        items: list[Operand] = []
        while c.peek() != close:
            items.append(_operand(c, body))
            if c.peek() == ",":
                c.next()
        c.next()
        return Group(tuple(items))
    if token == "[":
        return _address(c, body)
    first = _atom(c, body)
    if c.peek() == "|":
        c.next()
        return Group((first, _atom(c, body)))
    return first


def _atom(c: Cursor, body: Body) -> Operand:
    word = c.peek()
    if word[:1] == "%":
        c.at += 1
        name = body.resolve(word)
        if name in body.registers:
            return Reg(name)
        if word in SPECIALS or word.startswith("%envreg"):
            return Special(word)
        raise c.fault(f"{word} is no register")
    if word == "!":
        c.at += 1
        name = body.resolve(c.next())
        if name not in body.registers:
            raise c.fault(f"{name} is no register")
        return Reg(name, negated=True)
    value = c.literal()
    if value is not None:
        return value
    c.next()
    if word == "_":
        return Sink()
    if word == "WARP_SZ":
        return Imm(WARP_SIZE)
    name = body.resolve(word)
    if name in body.registers:
        return Reg(name)
    offset = _offset(c)
    return Address(Name(name), offset) if offset else Name(name)


def _offset(c: Cursor) -> int:
    if c.peek() == "+":
        c.next()
        return c.integer()
    return c.integer() if c.peek() == "-" else 0


def _address(c: Cursor, body: Body) -> Operand:
    c.expect("[")
    value = c.literal()
    base: Reg | Name | None = None
    offset = 0
    if value is not None:
        offset = int(value.value)
    else:
        word = c.next()
        name = body.resolve(word)
        if name in body.registers:
            base = Reg(name)
        elif word.startswith("%"):
            raise c.fault(f"{word} is no register")
        else:
            base = Name(name)
        offset = _offset(c)
    coordinates: tuple[Operand, ...] = ()
    if c.peek() == ",":
        c.next()
        group = _operand(c, body)
        coordinates = group.items if isinstance(group, Group) else (group,)
    c.expect("]")
    return Address(base, offset, coordinates)
