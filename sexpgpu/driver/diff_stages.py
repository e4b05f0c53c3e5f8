"""What lies between two stages of a module, or between two modules at a stage: the operations of each graph and of
each kernel as text, line against line.

Values are numbered anew at every stage, so numbers are compared by what they stand for: an operation is unchanged where
it reads the values that correspond to those it read before, and one that reads another value is a difference. The
results of a line correspond to those of its partner even so: what only reads changed values is not listed for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from attrs import frozen

from sexpgpu.passes.base import functions
from sexpgpu.passes.gpu.plans import device_plans_of

_VALUE = re.compile(r"%\w+")
_BEGINNINGS = ("func.func", "gpu.func", "llvm.func", "^")
"""How lines begin that name the arguments of a function or a block."""
_ENTRY = re.compile(r"^\.visible \.entry (\w+)\(.*?^}$", re.MULTILINE | re.DOTALL)

CONTEXT = 2
"""Unchanged lines shown around a change."""


@frozen
class GraphText:
    """One function of a module at a stage: its lines, and how many operations it has.

    `assembly`: the lines are PTX, which is compared as it is.
    """

    lines: tuple[str, ...]
    operations: int
    assembly: bool = False


@frozen
class Change:
    """A graph at two stages: operations on each side, None where it is not there, and the lines that differ."""

    graph: str
    before: int | None
    after: int | None
    lines: tuple[str, ...]


def texts(module: Any) -> dict[str, GraphText]:
    """Every function by the name of its graph, or by its symbol; kernels for a GPU by `kernel` and theirs."""
    found = {}
    for func in functions(module):
        attributes = func.attributes
        name = attributes["sx.graph"].value if "sx.graph" in attributes else attributes["sym_name"].value
        found[name] = _text(func)
    for op in module.body.operations:
        if op.operation.name == "gpu.module":
            inside = [each for each in op.regions[0].blocks[0].operations if _has_body(each)]
            found |= {f"kernel {each.attributes['sym_name'].value}": _text(each) for each in inside}
        elif op.operation.name == "gpu.binary":
            for part in _ENTRY.finditer("".join(each.text for each in device_plans_of(module).modules)):
                lines = tuple(part[0].splitlines())
                found[f"kernel {part[1]}"] = GraphText(lines, sum(map(_is_instruction, lines)), assembly=True)
            break
    return found


def _text(func: Any) -> GraphText:
    lines = str(func.operation.get_asm(use_local_scope=True, enable_debug_info=False)).splitlines()
    return GraphText(tuple(lines), sum(len(block.operations) for block in func.regions[0].blocks))


def _has_body(op: Any) -> bool:
    return "sym_name" in op.attributes and len(op.regions) == 1 and len(op.regions[0].blocks) > 0


def _is_instruction(line: str) -> bool:
    """Of PTX: neither a directive nor a label nor a comment."""
    text = line.strip()
    return text.endswith(";") and not text.startswith((".", "//"))


def changes(a: dict[str, GraphText], b: dict[str, GraphText]) -> list[Change]:
    """The graphs that differ, in the order of `b`, then those that only `a` has."""
    found = []
    for name in [*b, *(name for name in a if name not in b)]:
        before, after = a.get(name), b.get(name)
        if before == after:
            continue
        exact = any(each is not None and each.assembly for each in (before, after))
        lines = tuple(_compared(before.lines if before else (), after.lines if after else (), exact))
        if lines:
            found.append(
                Change(name, before.operations if before else None, after.operations if after else None, lines)
            )
    return found


def text_of(a: str, b: str, found: list[Change]) -> str:
    """`identical`, or what was compared and every graph that differs with its operation counts and lines."""
    if not found:
        return "identical"
    lines = [f"a  {a}", f"b  {b}"]
    for change in found:
        counts = ["-" if n is None else f"{n} operations" for n in (change.before, change.after)]
        lines += ["", f"{change.graph}  {'  '.join(counts)}", *(f"  {line}" for line in change.lines)]
    return "\n".join(lines)


def _compared(a: tuple[str, ...], b: tuple[str, ...], exact: bool) -> Iterator[str]:
    """Lines with `-`, `+` or a blank before them; `...` where unchanged lines are left out."""
    marked = list(_as_they_are(a, b) if exact else _marked(a, b))
    near = {
        at
        for place, (mark, _) in enumerate(marked)
        if mark != " "
        for at in range(place - CONTEXT, place + CONTEXT + 1)
    }
    left_out = False
    for place, (mark, line) in enumerate(marked):
        if place in near:
            if left_out:
                yield "..."
            yield f"{mark} {line.strip()}"
        left_out = place not in near and bool(near)


def _as_they_are(a: tuple[str, ...], b: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for kind, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from ((" ", line) for line in b[b0:b1])
        else:
            yield from (("-", line) for line in a[a0:a1])
            yield from (("+", line) for line in b[b0:b1])


def _marked(a: tuple[str, ...], b: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    masked_a, masked_b = [_masked(line) for line in a], [_masked(line) for line in b]
    same: dict[str, str] = {}  # values of `b` by the values of `a` that they correspond to
    for kind, a0, a1, b0, b1 in SequenceMatcher(None, masked_a, masked_b, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from (("-", line) for line in a[a0:a1])
            yield from (("+", line) for line in b[b0:b1])
            continue
        for left, right in zip(a[a0:a1], b[b0:b1], strict=True):
            if _reads_the_same(left, right, same):
                yield " ", right
            else:
                yield "-", left
                yield "+", right
            same |= dict(zip(_made(left), _made(right), strict=True))


def _masked(line: str) -> str:
    return _VALUE.sub("%", line)


def _made(line: str) -> list[str]:
    """The values that a line names first: an operation's results, a function's arguments."""
    if line.lstrip().startswith(_BEGINNINGS):
        return _VALUE.findall(line)
    left, equals, _ = line.partition(" = ")
    return _VALUE.findall(left) if equals and left.lstrip().startswith("%") else []


def _reads_the_same(left: str, right: str, same: dict[str, str]) -> bool:
    ours, theirs = (_VALUE.findall(line)[len(_made(line)) :] for line in (left, right))
    # What a line makes for its own region is nowhere made before it is read: what is read first corresponds.
    return all(same.setdefault(x, y) == y for x, y in zip(ours, theirs, strict=True))
