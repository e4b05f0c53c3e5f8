"""The emitter: where values go, order of evaluation, and the nodes that are plain expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sexpgpu.lang.emit import code
from sexpgpu.lang.emit.code import Frame, Loc
from sexpgpu.lang.forms import NIL, T
from sexpgpu.lang.ir import (
    CallBuiltin,
    Const,
    If,
    Lambda,
    LocalRef,
    Node,
    Or,
    Seq,
    Single,
)
from sexpgpu.lang.module import Module
from sexpgpu.lang.observe import OBSERVED, Observer, is_own
from sexpgpu.lang.place import Place

DEEPEST_BLOCK: Final = 14

# What parts of emitted code cost, in fractions of a step.
STEP: Final = 32
NODE_WORK: Final = 1
OPERATION_WORK: Final = 32
QUICK_WORK: Final = 192
CALL_WORK: Final = 32
FUNCTION_WORK: Final = 320
LIBRARY_WORK: Final = 384
ARGUMENT_WORK: Final = 8
CONS_WORK: Final = 96
EXIT_WORK: Final = 640
_OPERATION_WORK: Final = {
    "leave": EXIT_WORK,
    "throw": EXIT_WORK,
    "enter_handlers": QUICK_WORK,
    "keys": EXIT_WORK,
    "value_list": EXIT_WORK,
}


class Into:
    """Where a statement leaves its value: in a Python variable, `multi` when several values may go there."""

    __slots__ = ("multi", "name")

    def __init__(self, name: str, multi: bool = False) -> None:
        self.name = name
        self.multi = multi


class Return:
    """The value is the function's."""

    multi = True


class Ignore:
    """The value is not wanted."""

    multi = True


RETURN: Final = Return()
IGNORE: Final = Ignore()
Dest = Into | Return | Ignore

Expression = Callable[["Emitter", Any, bool], ast.expr]
Statement = Callable[["Emitter", Any, Dest], None]
EXPRESSIONS: Final[dict[type[Node], Expression]] = {}
STATEMENTS: Final[dict[type[Node], Statement]] = {}
TESTS: Final[dict[str, Callable[[Emitter, CallBuiltin], ast.expr | None]]] = {}
INLINE: Final[dict[str, Callable[[Emitter, CallBuiltin], ast.expr | None]]] = {}
MULTIPLE: Final = frozenset({"value_list", "nth_value", "throw"})
"""Operations whose last argument keeps all its values."""


class Emitter:
    """Emits one compilation unit into the namespace of a module."""

    def __init__(self, module: Module, observer: Observer | None = None) -> None:
        self.module = module
        self._observer = observer
        self.frame = Frame(None)
        self.states: dict[Node, Any] = {}
        self.flags: dict[Node, str] = {}
        self._count = 0
        self._locs: dict[tuple[int, int], Loc] = {}

    # Names and places.

    def temp(self, stem: str = "t", frame: Frame | None = None) -> str:
        """A fresh Python variable of the function under construction (or of another frame)."""
        self._count += 1
        made = f"{stem}.{self._count}."
        (frame or self.frame).names.add(made)
        return made

    def loc(self, place: Place) -> Loc:
        """A place as `ast` wants it."""
        key = (place.start, place.end)
        found = self._locs.get(key)
        if found is None:
            line, col = place.source.position(place.start)
            end_line, end_col = place.source.position(place.end)
            found = self._locs[key] = (line, col - 1, end_line, end_col - 1)
        if place.trail is not None:
            self.module.trails[found] = place.trail
        return found

    def value(self, value: Any, loc: Loc) -> ast.expr:
        """A constant, written out where Python can and else by a name of the namespace."""
        if value is NIL:
            return code.name("NIL", loc)
        if value is T:
            return code.name("T", loc)
        if type(value) in (int, float, str):
            return code.constant(value, loc)
        return code.name(self.module.constant(value), loc)

    def runtime(self, operation: str, args: list[ast.expr], loc: Loc) -> ast.expr:
        """A call of a function of `lang.runtime`."""
        self.frame.work += _OPERATION_WORK.get(operation, OPERATION_WORK)
        return code.call(code.name(f"rt.{operation}", loc), args, loc)

    # The budget.

    @contextmanager
    def ticking(self, loc: Loc) -> Iterator[None]:
        """Take the steps of what is emitted in the block each time it is run: of a function or a turn of a loop.

        The call stands before the block; how many steps it takes is known behind it.
        """
        call = code.name("tick", loc)
        self.add(code.expression(code.call(call, [], loc), loc))
        outer, self.frame.work = self.frame.work, 0
        yield
        self.charge(call, self.frame.work)
        self.frame.work = outer

    def charge(self, call: ast.expr, work: int) -> None:
        """Make a call of `tick` one that takes the steps of so much work besides."""
        steps = 1 + work // STEP
        if steps > 1:
            assert isinstance(call, ast.Name)
            call.id = self.module.ticks(steps)

    # Statements.

    def add(self, statement: ast.stmt) -> None:
        self.frame.body.append(statement)

    @contextmanager
    def captured(self) -> Iterator[list[ast.stmt]]:
        """Collect the statements emitted in the block instead of adding them."""
        outer = self.frame.body
        inner: list[ast.stmt] = []
        self.frame.body = inner
        try:
            yield inner
        finally:
            self.frame.body = outer

    @contextmanager
    def nested(self, levels: int = 1) -> Iterator[list[ast.stmt]]:
        """Collect the statements of a Python loop or try."""
        self.frame.depth += levels
        with self.captured() as body:
            yield body
        self.frame.depth -= levels

    def statement(self, node: Node, dest: Dest) -> None:
        """Emit `node` so that its value goes to `dest`."""
        self.frame.work += NODE_WORK
        emit = STATEMENTS.get(type(node))
        if emit is None:
            self.finish(self.expression(node, dest.multi), dest, self.loc(node.place))
        elif self.frame.depth >= DEEPEST_BLOCK:
            self.lifted(node, dest)
        else:
            emit(self, node, dest)

    def finish(self, value: ast.expr, dest: Dest, loc: Loc) -> None:
        """Send a value where it is wanted."""
        if isinstance(dest, Into):
            self.assign(dest.name, value, loc)
        elif isinstance(dest, Return):
            self.add(code.give(value, loc))
        elif not isinstance(value, ast.Name | ast.Constant):
            self.add(code.expression(value, loc))

    def assign(self, name: str, value: ast.expr, loc: Loc) -> None:
        if isinstance(value, ast.Name) and value.id == name:
            return
        self.frame.write(name)
        self.add(code.assign(name, value, loc))

    def lifted(self, node: Node, dest: Dest) -> None:
        """Emit `node` as a function of its own, called here: for fresh bindings, or Python's nesting limit."""
        loc = self.loc(node.place)
        made = self.temp("inner")
        outer, self.frame = self.frame, Frame(self.frame)
        STATEMENTS[type(node)](self, node, RETURN)
        self.define(made, [], [], None, outer, loc)
        self.finish_call(code.call(code.name(made, loc), [], loc), node.single, dest, loc)

    def finish_call(self, value: ast.expr, single: bool, dest: Dest, loc: Loc) -> None:
        self.finish(value if single or dest.multi else self.strip(value, loc), dest, loc)

    def define(
        self, made: str, parameters: list[str], defaults: list[ast.expr], rest: str | None, outer: Frame, loc: Loc
    ) -> None:
        """Close the function under construction and add its definition to `outer`, which is current again."""
        frame = self.frame
        body = frame.body or [code.give(code.name("NIL", loc), loc)]
        if not isinstance(body[-1], ast.Return):
            body.append(code.give(code.name("NIL", loc), loc))
        if frame.writes:
            body.insert(0, code.outer_names(sorted(frame.writes), loc))
            for written in frame.writes:
                outer.write(written)
        self.frame = outer
        outer.work += frame.work
        outer.names.add(made)
        self.add(code.define(made, parameters, defaults, rest, body, loc))

    # Expressions.

    def expression(self, node: Node, multi: bool = False) -> ast.expr:
        """The value of `node` after the statements this may add; one value unless `multi`."""
        self.frame.work += NODE_WORK
        emit = EXPRESSIONS.get(type(node))
        if emit is not None:
            value = emit(self, node, multi)
            return value if self._observer is None else self._observed(node, value, self._observer)
        held = self.temp()
        self.statement(node, Into(held, multi))
        return code.name(held, self.loc(node.place))

    def _observed(self, node: Node, value: ast.expr, observer: Observer) -> ast.expr:
        """`give(value, file, start, end, own)` where an observer wants to know the value."""
        file = node.place.source.file
        if not isinstance(node, OBSERVED) or file not in observer.files:
            return value
        loc = self.loc(node.place)
        where = [code.constant(fact, loc) for fact in (file, node.place.start, node.place.end, is_own(node))]
        return code.call(code.name(self.module.constant(observer.give), loc), [value, *where], loc)

    def strip(self, value: ast.expr, loc: Loc) -> ast.expr:
        """The first of several values: `(t if type(t := value) is not MV else one(t))`."""
        held = self.temp()
        kind = code.call(code.name("type", loc), [code.walrus(held, value, loc)], loc)
        rest = self.runtime("one", [code.name(held, loc)], loc)
        return code.choose(code.differs(kind, "MV", loc), code.name(held, loc), rest, loc)

    def single(self, value: ast.expr, node: Node, multi: bool) -> ast.expr:
        """`value` as the consumer of `node` wants it."""
        return value if multi or node.single else self.strip(value, self.loc(node.place))

    def operands(self, nodes: list[Node], multi: frozenset[int] = frozenset()) -> list[ast.expr]:
        """Several values in order: what stands before a statement that a later one needs is put aside."""
        pieces: list[tuple[list[ast.stmt], ast.expr]] = []
        for index, node in enumerate(nodes):
            with self.captured() as before:
                value = self.expression(node, index in multi)
            pieces.append((before, value))
        last = max((i for i, (before, _) in enumerate(pieces) if before), default=-1)
        values = []
        for index, (before, value) in enumerate(pieces):
            self.frame.body.extend(before)
            if index < last and not is_stable(nodes[index]):
                held = self.temp()
                loc = self.loc(nodes[index].place)
                self.assign(held, value, loc)
                value = code.name(held, loc)
            values.append(value)
        return values

    # Tests.

    def test(self, node: Node) -> ast.expr:
        """A Python condition that holds when `node`'s value is true."""
        self.frame.work += NODE_WORK
        loc = self.loc(node.place)
        if isinstance(node, Const):
            return code.constant(node.value is not NIL, loc)
        if isinstance(node, CallBuiltin):
            inline = TESTS.get(node.builtin.name)
            found = inline(self, node) if inline is not None else None
            if found is not None:
                return found
        if isinstance(node, Seq):
            for part in node.parts[:-1]:
                self.statement(part, IGNORE)
            return self.test(node.parts[-1])
        if isinstance(node, If):
            return self.choice(self.test(node.test), node.then, node.orelse, self.test, loc)
        if isinstance(node, Or):
            return self._either(node, loc)
        if isinstance(node, Single) and not isinstance(node.part, Single):
            return self.test(node.part)
        return self.truth(self.expression(node, multi=True), loc)

    def truth(self, value: ast.expr, loc: Loc) -> ast.expr:
        """`(v := value) is not NIL and (v is T or truth(v))`."""
        if isinstance(value, ast.Name):
            held, first = value.id, value
        else:
            held = self.temp()
            first = code.walrus(held, value, loc)  # type: ignore[assignment]
        certain = code.same(code.name(held, loc), "T", loc)
        asked = self.runtime("truth", [code.name(held, loc)], loc)
        return code.both([code.differs(first, "NIL", loc), code.either([certain, asked], loc)], loc)

    def _either(self, node: Or, loc: Loc) -> ast.expr:
        tests = []
        for part in node.parts:
            with self.captured() as before:
                tests.append((before, self.test(part)))
        if not any(before for before, _ in tests[1:]):
            self.frame.body.extend(tests[0][0])
            return code.either([test for _, test in tests], loc)
        held = self.temp()
        self._cascade(tests, held, loc)
        return code.name(held, loc)

    def _cascade(self, tests: list[tuple[list[ast.stmt], ast.expr]], held: str, loc: Loc) -> None:
        """held = first test; if not held: held = second; ..."""
        before, test = tests[0]
        self.frame.body.extend(before)
        self.assign(held, test, loc)
        for later, test in tests[1:]:
            body = [*later, code.assign(held, test, loc)]
            self.add(code.when(code.negate(code.name(held, loc), loc), body, [], loc))

    def choice(self, test: ast.expr, then: Node, orelse: Node, emit: Callable[[Node], ast.expr], loc: Loc) -> ast.expr:
        """A conditional expression, or an if statement where one of the branches needs statements."""
        with self.captured() as before_then:
            first = emit(then)
        with self.captured() as before_else:
            second = emit(orelse)
        if not before_then and not before_else:
            return code.choose(test, first, second, loc)
        held = self.temp()
        before_then.append(code.assign(held, first, loc))
        before_else.append(code.assign(held, second, loc))
        self.add(code.when(test, before_then, before_else, loc))
        return code.name(held, loc)


def is_stable(node: Node) -> bool:
    """Whether a value may be read later than its turn: nothing in between can change it."""
    return isinstance(node, Const | Lambda) or (isinstance(node, LocalRef) and not node.var.assigned)


def expression(kind: type[Node]) -> Callable[[Expression], Expression]:
    """Enter an emitter of expressions."""

    def enter(emit: Expression) -> Expression:
        EXPRESSIONS[kind] = emit
        return emit

    return enter


def statement(kind: type[Node]) -> Callable[[Statement], Statement]:
    """Enter an emitter of statements."""

    def enter(emit: Statement) -> Statement:
        STATEMENTS[kind] = emit
        return emit

    return enter
