"""Parameters that training would not change: which layer of the file's they are of, and what keeps a gradient away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from sexpgpu.diag import Diagnostic, Note, Span
from sexpgpu.dialects.locations import span_of
from sexpgpu.dialects.read import op_name
from sexpgpu.dialects.reverse import differentiated
from sexpgpu.dialects.signature import type_of
from sexpgpu.lang.modules import written_by_user
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.models import Model, Parameter

NAMED: Final = 3
"""How many parameters of a layer are named."""


def untrained(graph: GraphTrace, root: Model, dead: Sequence[Parameter]) -> list[Diagnostic]:
    """W-PARAM-001 for the parameters without a gradient: one for those of one layer, at the form that makes it.

    What is read inside of `frozen` only is meant to stay as it is.
    """
    read = {given.name for given in graph.inputs if given.role == "param"}
    dead = [parameter for parameter in dead if parameter.path not in read - graph.thawed]
    if not dead:
        return []
    flow = _flow(graph)
    made = {id(parameter): layer for layer, parameter in _made(root, None)}
    groups: dict[Any, list[Parameter]] = {}
    for parameter in dead:
        own = parameter.span is None or written_by_user(parameter.span)
        place = parameter.span if own else made.get(id(parameter), parameter.span)
        stops = flow.stop(parameter)
        groups.setdefault((place, stops, id(parameter) if own else 0), []).append(parameter)
    return [_told(place, stops, members) for (place, stops, _), members in groups.items()]


def _told(place: Span | None, stops: tuple[str, Span | None] | None, members: list[Parameter]) -> Diagnostic:
    shown = [f"`{parameter.path}`" for parameter in members[: NAMED if len(members) > NAMED + 1 else None]]
    rest = f"{len(members) - len(shown)} more" if len(shown) < len(members) else shown.pop()
    names = f"{', '.join(shown)} and {rest}" if shown else rest
    noun, verb = ("parameter", "does") if len(members) == 1 else ("parameters", "do")
    it = "it" if len(members) == 1 else "they"
    if stops is None:
        message = f"{noun} {names} {verb} not reach the objective: {it} will not be trained"
    else:
        message = f"{noun} {names} {verb} not get a gradient from the objective: {it} will not be trained"
    found = Diagnostic("W-PARAM-001", message, place, severity="warning")
    if stops is not None:
        name, span = stops
        found = evolve(found, notes=(Note(f"no gradient passes `{name}`", span),))
    return found


def _made(node: Any, place: Span | None) -> Iterator[tuple[Span | None, Parameter]]:
    """Each parameter with the innermost form of the user's that makes the layer it is of."""
    if isinstance(node, Model):
        if node.span is not None and written_by_user(node.span):
            place = node.span
        for child in node.children.values():
            yield from _made(child, place)
    elif isinstance(node, Parameter):
        yield place, node
    elif isinstance(node, list | tuple):
        for child in node:
            yield from _made(child, place)


@frozen
class Flow:
    """The operations of a graph in order, the values that get a cotangent from its loss, and those it depends on."""

    graph: GraphTrace
    ops: list[tuple[Any, list[Any], list[Any]]]
    needed: set[Any]
    feeding: set[Any]

    def stop(self, parameter: Parameter) -> tuple[str, Span | None] | None:
        """The first operation through which the loss depends on the parameter but no gradient passes."""
        arguments = zip(self.graph.inputs, self.graph.block.arguments, strict=True)
        reached = {value for given, value in arguments if given.role == "param" and given.name == parameter.path}
        for op, operands, results in self.ops:
            if reached.isdisjoint(operands):
                continue
            reached.update(results)
            ends = any(result in self.needed or not type_of(result).is_float for result in results)
            if ends and not self.feeding.isdisjoint(results):
                return op_name(op).replace("_", "-"), span_of(op.location)
        return None


def _flow(graph: GraphTrace) -> Flow:
    ops = [op.operation for op in graph.block.operations][:-1]
    losses = [val.value for output, val in graph.outputs if output.role == "loss"]
    known = [(op, list(op.operands), list(op.results)) for op in ops]
    feeding = set(losses)
    for _, operands, results in reversed(known):
        if not feeding.isdisjoint(results):
            feeding.update(operands)
    return Flow(graph, known, differentiated(ops, losses), feeding)
