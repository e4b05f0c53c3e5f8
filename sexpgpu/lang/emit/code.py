"""Constructors of `ast` nodes with positions, and the Python function under construction."""

from __future__ import annotations

import ast
from typing import Any, Final

Loc = tuple[int, int, int, int]
"""Line, column, end line, end column as `ast` counts them: lines from 1, columns from 0."""

_LOAD: Final = ast.Load()
_STORE: Final = ast.Store()


def placed(node: Any, loc: Loc) -> Any:
    """`node` with its position."""
    node.lineno, node.col_offset, node.end_lineno, node.end_col_offset = loc
    return node


def name(of: str, loc: Loc) -> ast.expr:
    return placed(ast.Name(of, _LOAD), loc)  # type: ignore[no-any-return]


def target(of: str, loc: Loc) -> ast.Name:
    return placed(ast.Name(of, _STORE), loc)  # type: ignore[no-any-return]


def constant(value: Any, loc: Loc) -> ast.expr:
    return placed(ast.Constant(value), loc)  # type: ignore[no-any-return]


def call(function: ast.expr, args: list[ast.expr], loc: Loc, keywords: Any = ()) -> ast.expr:
    named = [placed(ast.keyword(key, value), loc) for key, value in keywords]
    return placed(ast.Call(function, args, named), loc)  # type: ignore[no-any-return]


def cell(key: str, loc: Loc) -> ast.expr:
    """The value in a global cell."""
    return placed(ast.Subscript(name(key, loc), constant(0, loc), _LOAD), loc)  # type: ignore[no-any-return]


def walrus(of: str, value: ast.expr, loc: Loc) -> ast.expr:
    return placed(ast.NamedExpr(target(of, loc), value), loc)  # type: ignore[no-any-return]


def choose(test: ast.expr, then: ast.expr, orelse: ast.expr, loc: Loc) -> ast.expr:
    return placed(ast.IfExp(test, then, orelse), loc)  # type: ignore[no-any-return]


def compare(left: ast.expr, op: ast.cmpop, right: ast.expr, loc: Loc) -> ast.expr:
    if isinstance(op, ast.Is | ast.IsNot) and isinstance(left, ast.Constant):  # a number or string is no symbol
        return constant(isinstance(op, ast.IsNot), loc)
    return placed(ast.Compare(left, [op], [right]), loc)  # type: ignore[no-any-return]


def same(left: ast.expr, right: str, loc: Loc) -> ast.expr:
    """`left is right`."""
    return compare(left, ast.Is(), name(right, loc), loc)


def differs(left: ast.expr, right: str, loc: Loc) -> ast.expr:
    """`left is not right`."""
    return compare(left, ast.IsNot(), name(right, loc), loc)


def both(parts: list[ast.expr], loc: Loc) -> ast.expr:
    return placed(ast.BoolOp(ast.And(), parts), loc)  # type: ignore[no-any-return]


def either(parts: list[ast.expr], loc: Loc) -> ast.expr:
    return placed(ast.BoolOp(ast.Or(), parts), loc)  # type: ignore[no-any-return]


def negate(value: ast.expr, loc: Loc) -> ast.expr:
    """`not value`, simplified where value is itself a negation or an `is`."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        return value.operand
    if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.Is | ast.IsNot):
        value.ops = [ast.IsNot() if isinstance(value.ops[0], ast.Is) else ast.Is()]
        return value
    return placed(ast.UnaryOp(ast.Not(), value), loc)  # type: ignore[no-any-return]


def binary(left: ast.expr, op: ast.operator, right: ast.expr, loc: Loc) -> ast.expr:
    return placed(ast.BinOp(left, op, right), loc)  # type: ignore[no-any-return]


def tuple_of(parts: list[ast.expr], loc: Loc) -> ast.expr:
    return placed(ast.Tuple(parts, _LOAD), loc)  # type: ignore[no-any-return]


def starred(value: ast.expr, loc: Loc) -> ast.expr:
    return placed(ast.Starred(value, _LOAD), loc)  # type: ignore[no-any-return]


# Statements.


def expression(value: ast.expr, loc: Loc) -> ast.stmt:
    return placed(ast.Expr(value), loc)  # type: ignore[no-any-return]


def assign(of: str, value: ast.expr, loc: Loc) -> ast.stmt:
    return placed(ast.Assign([target(of, loc)], value), loc)  # type: ignore[no-any-return]


def assign_all(names: list[str], value: ast.expr, loc: Loc) -> ast.stmt:
    """`a, b = value`."""
    targets = placed(ast.Tuple([target(n, loc) for n in names], _STORE), loc)
    return placed(ast.Assign([targets], value), loc)  # type: ignore[no-any-return]


def store_cell(key: str, value: ast.expr, loc: Loc, whole: bool = False) -> ast.stmt:
    """`cell[:] = value`: the slice also binds a cell that was unbound; `whole` stores a list of contents."""
    everything = placed(ast.Slice(), loc)
    slot = placed(ast.Subscript(name(key, loc), everything, _STORE), loc)
    contents = value if whole else placed(ast.List([value], _LOAD), loc)
    return placed(ast.Assign([slot], contents), loc)  # type: ignore[no-any-return]


def cell_contents(key: str, loc: Loc) -> ast.expr:
    """`cell[:]`."""
    return placed(ast.Subscript(name(key, loc), placed(ast.Slice(), loc), _LOAD), loc)  # type: ignore[no-any-return]


def give(value: ast.expr, loc: Loc) -> ast.stmt:
    return placed(ast.Return(value), loc)  # type: ignore[no-any-return]


def when(test: ast.expr, then: list[ast.stmt], orelse: list[ast.stmt], loc: Loc) -> ast.stmt:
    return placed(ast.If(test, then or [skip(loc)], orelse), loc)  # type: ignore[no-any-return]


def loop(test: ast.expr, body: list[ast.stmt], loc: Loc) -> ast.stmt:
    return placed(ast.While(test, body, []), loc)  # type: ignore[no-any-return]


def loop_over(of: str, items: ast.expr, body: list[ast.stmt], loc: Loc) -> ast.stmt:
    return placed(ast.For(target(of, loc), items, body or [skip(loc)], []), loc)  # type: ignore[no-any-return]


def leave_loop(loc: Loc) -> ast.stmt:
    return placed(ast.Break(), loc)  # type: ignore[no-any-return]


def next_turn(loc: Loc) -> ast.stmt:
    return placed(ast.Continue(), loc)  # type: ignore[no-any-return]


def skip(loc: Loc) -> ast.stmt:
    return placed(ast.Pass(), loc)  # type: ignore[no-any-return]


def reraise(loc: Loc) -> ast.stmt:
    return placed(ast.Raise(), loc)  # type: ignore[no-any-return]


def attempt(
    body: list[ast.stmt], loc: Loc, catch: str | None = None, as_: str | None = None,
    handler: list[ast.stmt] | None = None, cleanup: list[ast.stmt] | None = None,
) -> ast.stmt:  # fmt: skip
    """`try`, with one `except catch as as_` clause and a `finally` where given."""
    handlers = []
    if catch is not None:
        handlers = [placed(ast.ExceptHandler(name(catch, loc), as_, handler or [skip(loc)]), loc)]
    return placed(ast.Try(body or [skip(loc)], handlers, [], cleanup or []), loc)  # type: ignore[no-any-return]


def guarded(body: list[ast.stmt], catch: ast.expr, handler: list[ast.stmt], loc: Loc) -> ast.stmt:
    """`try` with one `except` clause for what `catch` gives then."""
    clause = placed(ast.ExceptHandler(catch, None, handler), loc)
    return placed(ast.Try(body, [clause], [], []), loc)  # type: ignore[no-any-return]


def within(context: ast.expr, body: list[ast.stmt], loc: Loc) -> ast.stmt:
    return placed(ast.With([ast.withitem(context)], body or [skip(loc)]), loc)  # type: ignore[no-any-return]


def define(
    of: str, parameters: list[str], defaults: list[ast.expr], rest: str | None, body: list[ast.stmt], loc: Loc
) -> ast.stmt:
    """A function of positional parameters."""
    args = ast.arguments(
        posonlyargs=[placed(ast.arg(p), loc) for p in parameters],
        args=[],
        vararg=placed(ast.arg(rest), loc) if rest is not None else None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=defaults,
    )
    return placed(ast.FunctionDef(of, args, body, []), loc)  # type: ignore[no-any-return]


def outer_names(names: list[str], loc: Loc) -> ast.stmt:
    return placed(ast.Nonlocal(names), loc)  # type: ignore[no-any-return]


class Level:
    """A Python loop (or one-turn loop standing for a block) around what is being emitted.

    `node` is what leaving or repeating this loop means; `after` collects the jumps that pass through it:
    (flag, node) pairs that the code behind the loop must look at.
    """

    __slots__ = ("after", "node")

    def __init__(self, node: Any) -> None:
        self.node = node
        self.after: dict[str, Any] = {}


class Frame:
    """A Python function under construction: its statements so far and what surrounds the next one."""

    __slots__ = ("body", "depth", "levels", "names", "outer", "repeats", "work", "writes")

    def __init__(self, outer: Frame | None) -> None:
        self.outer = outer
        self.body: list[ast.stmt] = []
        self.levels: list[Level] = []
        self.depth = 0  # nested loops and tries, of which Python allows 20
        self.repeats = 0  # loops that may run their body more than once
        self.work = 0  # what is emitted since the last tick, in parts of a step
        self.names: set[str] = set()
        self.writes: set[str] = set()

    def write(self, of: str) -> None:
        """Note an assignment: a name of a function further out has to be declared."""
        if of not in self.names:
            self.writes.add(of)
