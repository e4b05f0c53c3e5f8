"""Builtins that are emitted in place: integer arithmetic and comparison, `not`, `eq` with a known symbol.

The fast path is taken when both operands are Python integers; anything else goes to the library's function.
"""

from __future__ import annotations

import ast
from typing import Final

from sexpgpu.lang.emit import code
from sexpgpu.lang.emit.code import Loc
from sexpgpu.lang.emit.core import INLINE, TESTS, Emitter
from sexpgpu.lang.forms import Symbol
from sexpgpu.lang.ir import CallBuiltin, Const, LocalRef, Node

_ARITHMETIC: Final[dict[str, type[ast.operator]]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "%loop-sum": ast.Add,
}  # fmt: skip
_COMPARISON: Final[dict[str, type[ast.cmpop]]] = {
    "<": ast.Lt, ">": ast.Gt, "<=": ast.LtE, ">=": ast.GtE, "=": ast.Eq,
}  # fmt: skip

_SHORT: Final = 1 << 62


class _Operands:
    """Two operands put so that each is evaluated once, the condition that both are integers, and the slow call."""

    __slots__ = ("left", "loc", "right", "slow", "test")

    def __init__(self, em: Emitter, node: CallBuiltin, args: list[Node]) -> None:
        self.loc = loc = em.loc(node.place)
        values = em.operands(args, frozenset({0, 1}))
        simple = all(isinstance(arg, Const | LocalRef) for arg in args)
        checks: list[ast.expr] = []
        names: list[ast.expr] = []
        computed = False  # whether the last operand is computed inside its check
        for arg, value in zip(args, values, strict=True):
            computed = False
            if isinstance(arg, Const):
                names.append(value)
                continue
            if isinstance(value, ast.Name) and (simple or _settled(arg, value)):
                held, first = value.id, value
            else:
                held = em.temp()
                first = code.walrus(held, value, loc)  # type: ignore[assignment]
                computed = True
            kind = code.call(code.name("type", loc), [first], loc)
            checks.append(code.same(kind, "int", loc))
            names.append(code.name(held, loc))
        if len(checks) == 1:
            self.test = checks[0]
        elif computed:  # `&` evaluates both sides
            self.test = code.binary(checks[0], ast.BitAnd(), checks[1], loc)
        else:
            self.test = code.both(checks, loc)
        self.left, self.right = names
        plain = [name if arg.single else em.runtime("one", [name], loc) for name, arg in zip(names, args, strict=True)]
        function = em.module.named(f"b:{node.builtin.name}", node.builtin.function)
        self.slow = code.call(code.name(function, loc), plain[: len(node.args)], loc)


def _settled(arg: Node, value: ast.Name) -> bool:
    """A name that nothing assigns between its check and its use: a temporary or an unassigned variable."""
    return value.id.endswith(".") or (isinstance(arg, LocalRef) and not arg.var.assigned)


def _integers(node: CallBuiltin) -> bool:
    args = node.args
    constants = [arg for arg in args if isinstance(arg, Const)]
    return len(args) == 2 and len(constants) < 2 and all(type(arg.value) is int for arg in constants)


def _arithmetic(em: Emitter, node: CallBuiltin) -> ast.expr | None:
    if not _integers(node):
        return None
    pair = _Operands(em, node, node.args)
    loc = pair.loc
    fast = code.binary(pair.left, _ARITHMETIC[node.builtin.name](), pair.right, loc)
    if node.builtin.name == "*":  # what is long goes to the library, which bounds it
        product = em.temp()
        short = _is_short(code.walrus(product, fast, loc), loc)
        return code.choose(code.both([pair.test, short], loc), code.name(product, loc), pair.slow, loc)
    return code.choose(_both_short(pair, node), fast, pair.slow, loc)


def _both_short(pair: _Operands, node: CallBuiltin) -> ast.expr:
    """Whether both are integers and the work is that of short ones: the library counts that of long ones."""
    tested = pair.right if isinstance(node.args[0], Const) else pair.left
    return code.both([pair.test, _is_short(tested, pair.loc)], pair.loc)


def _is_short(value: ast.expr, loc: Loc) -> ast.expr:
    least, most = (code.constant(bound, loc) for bound in (-_SHORT, _SHORT))
    test: ast.expr = code.placed(ast.Compare(least, [ast.Lt(), ast.Lt()], [value, most]), loc)
    return test


def _step(em: Emitter, node: CallBuiltin) -> ast.expr | None:
    one = Const(node.place, 1)
    pair = _Operands(em, node, [node.args[0], one])
    if isinstance(node.args[0], Const):
        return None
    operator = ast.Add() if node.builtin.name == "1+" else ast.Sub()
    fast = code.binary(pair.left, operator, pair.right, pair.loc)
    return code.choose(_both_short(pair, node), fast, pair.slow, pair.loc)


def _comparison_test(em: Emitter, node: CallBuiltin) -> ast.expr | None:
    if not _integers(node):
        return None
    pair = _Operands(em, node, node.args)
    fast = code.compare(pair.left, _COMPARISON[node.builtin.name](), pair.right, pair.loc)
    return code.choose(_compared(pair, node), fast, em.truth(pair.slow, pair.loc), pair.loc)


def _comparison(em: Emitter, node: CallBuiltin) -> ast.expr | None:
    if not _integers(node):
        return None
    pair = _Operands(em, node, node.args)
    fast = code.compare(pair.left, _COMPARISON[node.builtin.name](), pair.right, pair.loc)
    return code.choose(_compared(pair, node), _as_lisp(fast, pair.loc), pair.slow, pair.loc)


def _compared(pair: _Operands, node: CallBuiltin) -> ast.expr:
    """As `_both_short`; a comparison with a number written in place takes no longer for a long one."""
    return pair.test if any(isinstance(arg, Const) for arg in node.args) else _both_short(pair, node)


def _as_lisp(test: ast.expr, loc: Loc) -> ast.expr:
    return code.choose(test, code.name("T", loc), code.name("NIL", loc), loc)


def _not_test(em: Emitter, node: CallBuiltin) -> ast.expr:
    return code.negate(em.test(node.args[0]), em.loc(node.place))


def _not(em: Emitter, node: CallBuiltin) -> ast.expr:
    return _as_lisp(_not_test(em, node), em.loc(node.place))


def _null_test(em: Emitter, node: CallBuiltin) -> ast.expr:
    return code.same(em.expression(node.args[0]), "NIL", em.loc(node.place))


def _null(em: Emitter, node: CallBuiltin) -> ast.expr:
    return _as_lisp(_null_test(em, node), em.loc(node.place))


def _eq_test(em: Emitter, node: CallBuiltin) -> ast.expr | None:
    """`eq` and `eql` with a symbol written in place are Python's `is`.

    A variable is itself, whatever it holds; a string written in place is an object of its own. The library could
    not tell: Python shares short strings and equal constants.
    """
    left, right = node.args
    if isinstance(left, LocalRef) and isinstance(right, LocalRef) and left.var is right.var:
        return code.constant(True, em.loc(node.place))
    if any(isinstance(arg, Const) and type(arg.value) is str for arg in node.args):
        other = right if isinstance(left, Const) else left
        if isinstance(other, Const):
            return code.constant(False, em.loc(node.place))
        return code.same(em.expression(other), "UNSET", em.loc(node.place))
    if not any(isinstance(arg, Const) and isinstance(arg.value, Symbol) for arg in node.args):
        return None
    if isinstance(left, Const) and isinstance(right, Const):
        return code.constant(left.value is right.value, em.loc(node.place))
    first, second = em.operands(node.args)
    return code.compare(first, ast.Is(), second, em.loc(node.place))


def _eq(em: Emitter, node: CallBuiltin) -> ast.expr | None:
    test = _eq_test(em, node)
    return None if test is None else _as_lisp(test, em.loc(node.place))


INLINE.update(
    {name: _arithmetic for name in _ARITHMETIC}
    | {name: _comparison for name in _COMPARISON}
    | {"1+": _step, "1-": _step, "not": _not, "null": _null, "eq": _eq, "eql": _eq}
)
TESTS.update(
    {name: _comparison_test for name in _COMPARISON}
    | {"not": _not_test, "null": _null_test, "eq": _eq_test, "eql": _eq_test}
)
