"""Emission of loops, blocks, tags and the forms that watch how a body is left."""

from __future__ import annotations

import ast
from typing import Any

from sexpgpu.lang.emit import code
from sexpgpu.lang.emit.binding import needs_fresh, own
from sexpgpu.lang.emit.code import Frame, Level, Loc
from sexpgpu.lang.emit.core import IGNORE, Dest, Emitter, Into, Return, statement
from sexpgpu.lang.ir import (
    Block,
    Catch,
    ForEach,
    Go,
    Handle,
    Protect,
    ReturnFrom,
    Tagbody,
    While,
    Within,
)


class BlockState:
    """How a block is left: where its value goes, and which of the ways out were used."""

    __slots__ = ("dest", "direct", "frame", "token")

    def __init__(self, dest: Dest, frame: Frame) -> None:
        self.dest = dest
        self.frame = frame
        self.direct = False  # a `break` out of a one-turn loop
        self.token: str | None = None  # the variable of the token that exits from other functions carry


class TagState:
    """How a tagbody's tags are reached."""

    __slots__ = ("counter", "frame", "jumps", "ticks", "token")

    def __init__(self, counter: str, frame: Frame) -> None:
        self.counter = counter
        self.frame = frame
        self.ticks: list[ast.expr] = []  # of the jumps: each takes the steps of a turn
        self.jumps = False
        self.token: str | None = None


def enter(em: Emitter, node: Any) -> Level:
    """A loop begins around what is emitted next."""
    level = Level(node)
    em.frame.levels.append(level)
    return level


def leave(em: Emitter, level: Level, loc: Loc) -> list[ast.stmt]:
    """The loop ends; gives the checks of the jumps that passed through it, to stand behind it."""
    em.frame.levels.pop()
    checks = []
    for flag, node in level.after.items():
        onward = em.frame.levels[-1]
        jump: list[ast.stmt]
        if onward.node is not node:
            onward.after[flag] = node
            jump = [code.leave_loop(loc)]
        elif isinstance(node, Tagbody):
            jump = [code.assign(flag, code.constant(False, loc), loc), code.next_turn(loc)]
        else:
            jump = [code.leave_loop(loc)]
        checks.append(code.when(code.name(flag, loc), jump, [], loc))
    return checks


def jump(em: Emitter, node: Block | Tagbody, loc: Loc) -> None:
    """Leave the loops up to that of `node` and then it (a block) or go to its head (a tagbody)."""
    level = em.frame.levels[-1]
    if level.node is node:
        em.add(code.leave_loop(loc) if isinstance(node, Block) else code.next_turn(loc))
        return
    flag = em.flags.get(node) or em.flags.setdefault(node, em.temp("flag"))
    em.add(code.assign(flag, code.constant(True, loc), loc))
    em.add(code.leave_loop(loc))
    level.after[flag] = node


def lower_flag(em: Emitter, node: Block | Tagbody, loc: Loc) -> list[ast.stmt]:
    """The first value of a jump's flag, where there is one."""
    flag = em.flags.get(node)
    return [] if flag is None else [code.assign(flag, code.constant(False, loc), loc)]


@statement(Block)
def block(em: Emitter, node: Block, dest: Dest) -> None:
    loc = em.loc(node.place)
    state = em.states[node] = BlockState(dest, em.frame)
    returning = isinstance(dest, Return)
    level = None if returning else enter(em, node)
    with em.nested(2) as body:
        em.statement(node.body, dest)
    checks = leave(em, level, loc) if level is not None else []
    if state.token is not None:
        body = _catching_exit(em, state, dest, body, loc)
    if state.direct or checks:
        body.append(code.leave_loop(loc))
        body = [*lower_flag(em, node, loc), code.loop(code.constant(True, loc), body, loc)]
    em.frame.body.extend(body)
    em.frame.body.extend(checks)


def _catching_exit(em: Emitter, state: BlockState, dest: Dest, body: list[ast.stmt], loc: Loc) -> list[ast.stmt]:
    token, caught = str(state.token), em.temp("exit")
    mine = code.differs(_attribute(caught, "token", loc), token, loc)
    with em.captured() as handler:
        em.add(code.when(mine, [code.reraise(loc)], [], loc))
        value = _attribute(caught, "value", loc)
        if isinstance(dest, Into) and not dest.multi:
            value = em.runtime("one", [value], loc)
        em.finish(value, dest, loc)
    retire = [code.expression(em.runtime("retire", [code.name(token, loc)], loc), loc)]
    return [
        code.assign(token, em.runtime("Token", [], loc), loc),
        code.attempt(body, loc, "rt.Exit", caught, handler, retire),
    ]


def _attribute(of: str, attribute: str, loc: Loc) -> ast.expr:
    node = ast.Attribute(code.name(of, loc), attribute, ast.Load())
    return code.placed(node, loc)  # type: ignore[no-any-return]


@statement(ReturnFrom)
def return_from(em: Emitter, node: ReturnFrom, dest: Dest) -> None:
    loc = em.loc(node.place)
    state: BlockState = em.states[node.block]
    if state.frame is em.frame:
        em.statement(node.value, state.dest)
        if not isinstance(state.dest, Return):
            jump(em, node.block, loc)
            state.direct = True
        return
    if state.token is None:
        state.token = em.temp("token", state.frame)
    value = em.expression(node.value, multi=True)
    name = code.constant(node.block.name.name, loc)
    em.add(code.expression(em.runtime("leave", [code.name(state.token, loc), value, name], loc), loc))
    _unreachable(em, dest, loc)


def _unreachable(em: Emitter, dest: Dest, loc: Loc) -> None:
    """A value is still expected behind a jump: Python must see the variable assigned."""
    if isinstance(dest, Into):
        em.assign(dest.name, code.name("NIL", loc), loc)


@statement(Tagbody)
def tagbody(em: Emitter, node: Tagbody, dest: Dest) -> None:
    """`n = 0; while True: if n <= 0: ...; if n <= 1: ...; break`, where a `go` sets n and continues."""
    loc = em.loc(node.place)
    counter = em.temp("tag")
    state = em.states[node] = TagState(counter, em.frame)
    level = enter(em, node)
    em.frame.repeats += 1
    outer, em.frame.work = em.frame.work, 0
    segments = []
    with em.nested(3):
        for segment in node.segments:
            with em.captured() as body:
                for part in segment:
                    em.statement(part, IGNORE)
            segments.append(body)
    em.frame.repeats -= 1
    for call in state.ticks:
        em.charge(call, em.frame.work)
    em.frame.work += outer
    checks = leave(em, level, loc)
    if state.jumps or checks or state.token is not None:
        _tag_loop(em, node, state, segments, loc)
        em.frame.body.extend(checks)
    else:
        for body in segments:
            em.frame.body.extend(body)
    em.finish(code.name("NIL", loc), dest, loc)


def _tag_loop(em: Emitter, node: Tagbody, state: TagState, segments: list[list[ast.stmt]], loc: Loc) -> None:
    turn: list[ast.stmt] = []
    for index, body in enumerate(segments):
        if body and index < len(segments) - 1:
            at = code.compare(code.name(state.counter, loc), ast.LtE(), code.constant(index, loc), loc)
            turn.append(code.when(at, body, [], loc))
        else:
            turn.extend(body)
    turn.append(code.leave_loop(loc))
    em.assign(state.counter, code.constant(0, loc), loc)
    if state.token is not None:
        caught = em.temp("exit")
        mine = code.differs(_attribute(caught, "token", loc), state.token, loc)
        handler = [
            code.when(mine, [code.reraise(loc)], [], loc),
            code.assign(state.counter, _attribute(caught, "value", loc), loc),
        ]
        turn = [code.attempt(turn, loc, "rt.Exit", caught, handler)]
        em.assign(state.token, em.runtime("Token", [], loc), loc)
    loop: list[ast.stmt] = [*lower_flag(em, node, loc), code.loop(code.constant(True, loc), turn, loc)]
    if state.token is not None:
        retire = [code.expression(em.runtime("retire", [code.name(state.token, loc)], loc), loc)]
        loop = [code.attempt(loop, loc, cleanup=retire)]
    em.frame.body.extend(loop)


@statement(Go)
def go(em: Emitter, node: Go, dest: Dest) -> None:
    loc = em.loc(node.place)
    state: TagState = em.states[node.tagbody]
    segment = code.constant(node.segment, loc)
    call = code.name("tick", loc)
    state.ticks.append(call)
    em.add(code.expression(code.call(call, [], loc), loc))
    if state.frame is em.frame:
        state.jumps = True
        em.add(code.assign(state.counter, segment, loc))
        jump(em, node.tagbody, loc)
        return
    if state.token is None:
        state.token = em.temp("token", state.frame)
    name = code.constant("tagbody", loc)
    em.add(code.expression(em.runtime("leave", [code.name(state.token, loc), segment, name], loc), loc))
    _unreachable(em, dest, loc)


@statement(While)
def while_(em: Emitter, node: While, dest: Dest) -> None:
    loc = em.loc(node.place)
    level = enter(em, node)
    em.frame.repeats += 1
    with em.nested() as turn:
        before = em.frame.work
        test = em.test(node.test)
        test_work = em.frame.work - before
        plain = not turn
        if not plain:
            em.add(code.when(test, [code.leave_loop(loc)], [], loc))
        with em.ticking(loc):
            em.frame.work = test_work
            em.statement(node.body, IGNORE)
    em.frame.repeats -= 1
    checks = leave(em, level, loc)
    em.add(code.loop(code.negate(test, loc) if plain else code.constant(True, loc), turn, loc))
    em.frame.body.extend(checks)
    em.finish(code.name("NIL", loc), dest, loc)


@statement(ForEach)
def for_each(em: Emitter, node: ForEach, dest: Dest) -> None:
    loc = em.loc(node.place)
    of_loc = em.loc(node.of.place)  # an error of what is gone over is shown there
    items = em.runtime("elements" if node.kind == "list" else "counts", [em.expression(node.of)], of_loc)
    level = enter(em, node)
    em.frame.repeats += 1
    fresh = needs_fresh(em, [node.var])
    given = em.temp("each") if fresh else node.var.name
    own(em, node.var)
    with em.nested() as turn, em.ticking(loc):
        if fresh:
            _fresh_turn(em, node, given, loc)
        else:
            em.statement(node.body, IGNORE)
    em.frame.repeats -= 1
    checks = leave(em, level, loc)
    em.add(code.loop_over(given, items, turn, of_loc))
    em.frame.body.extend(checks)
    em.finish(code.name("NIL", loc), dest, loc)


def _fresh_turn(em: Emitter, node: ForEach, given: str, loc: Loc) -> None:
    """The body as a function of the variable, so that a closure over it keeps this turn's binding."""
    em.frame.names.discard(node.var.name)
    made = em.temp("turn")
    outer, em.frame = em.frame, Frame(em.frame)
    em.frame.names.add(node.var.name)
    em.statement(node.body, IGNORE)
    em.define(made, [node.var.name], [], None, outer, loc)
    em.add(code.expression(code.call(code.name(made, loc), [code.name(given, loc)], loc), loc))


@statement(Catch)
def catch(em: Emitter, node: Catch, dest: Dest) -> None:
    loc = em.loc(node.place)
    tag = em.temp("catch")
    em.assign(tag, em.runtime("enter_catch", [em.expression(node.tag)], loc), loc)
    caught = em.temp("thrown")
    with em.nested(2) as body:
        em.statement(node.body, dest)
    with em.captured() as handler:
        value = em.runtime("thrown", [code.name(caught, loc), code.name(tag, loc)], loc)
        em.finish_call(value, False, dest, loc)
    retire = [code.expression(em.runtime("leave_catch", [code.name(tag, loc)], loc), loc)]
    em.add(code.attempt(body, loc, "rt.Thrown", caught, handler, retire))


@statement(Protect)
def protect(em: Emitter, node: Protect, dest: Dest) -> None:
    loc = em.loc(node.place)
    guard = em.temp("guard")
    em.assign(guard, em.runtime("enter_catch", [code.name("UNSET", loc)], loc), loc)
    with em.nested() as body:
        em.statement(node.body, dest)
    with em.nested() as cleanup:
        em.add(code.expression(em.runtime("leave_catch", [code.name(guard, loc)], loc), loc))
        em.statement(node.cleanup, IGNORE)
    em.add(guarded(em, body, cleanup, loc))


def guarded(em: Emitter, body: list[ast.stmt], cleanup: list[ast.stmt], loc: Loc) -> ast.stmt:
    """`try` with a `finally`; the handlers in force see an error before the cleanup undoes anything."""
    fault = em.temp("fault")
    seen = code.expression(em.runtime("signal_fault", [code.name(fault, loc)], loc), loc)
    return code.attempt(body, loc, "Exception", fault, [seen, code.reraise(loc)], cleanup)


@statement(Handle)
def handle(em: Emitter, node: Handle, dest: Dest) -> None:
    loc = em.loc(node.place)
    types = em.value([specifier for specifier, _, _ in node.clauses], loc)
    frame = em.temp("handlers")
    em.assign(frame, em.runtime("enter_handlers", [types], loc), loc)
    caught, condition = em.temp("fault"), em.temp("condition")
    with em.nested(2) as body:
        em.statement(node.body, dest)
    with em.nested(2) as handler:
        index = em.temp("clause")
        em.add(code.expression(em.runtime("leave_handlers", [code.name(frame, loc)], loc), loc))
        found = em.runtime("handler_for", [code.name(caught, loc), types], loc)
        em.add(code.assign_all([condition, index], found, loc))
        em.frame.body.extend(_clauses(em, node, condition, index, dest, 0))
    retire = [code.expression(em.runtime("leave_handlers", [code.name(frame, loc)], loc), loc)]
    em.add(code.attempt(body, loc, "Exception", caught, handler, retire))


def _clauses(em: Emitter, node: Handle, condition: str, index: str, dest: Dest, at: int) -> list[ast.stmt]:
    loc = em.loc(node.place)
    _, var, body = node.clauses[at]
    with em.captured() as chosen:
        if var is not None:
            own(em, var)
            em.assign(var.name, code.name(condition, loc), loc)
        em.statement(body, dest)
    if at == len(node.clauses) - 1:
        return chosen
    is_it = code.compare(code.name(index, loc), ast.Eq(), code.constant(at, loc), loc)
    return [code.when(is_it, chosen, _clauses(em, node, condition, index, dest, at + 1), loc)]


@statement(Within)
def within(em: Emitter, node: Within, dest: Dest) -> None:
    loc = em.loc(node.place)
    context = em.runtime(node.name, em.operands(node.args), loc)
    with em.nested() as body:
        em.statement(node.body, dest)
    em.add(code.within(context, body, loc))
