"""Loops and derivatives inside graphs: `scan`, `grad`, `checkpoint`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir import ir

from sexpgpu.diag import Note, error
from sexpgpu.dialects.builder import Val
from sexpgpu.dialects.loops import Loop, call_loop, module_of, without
from sexpgpu.dialects.reverse import cotangents
from sexpgpu.lang.active import as_function
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL, Cons, all_values, lisp_list, one, values
from sexpgpu.trace import arguments
from sexpgpu.trace.body import BodyTrace
from sexpgpu.trace.graph import GraphTrace, current_graph
from sexpgpu.trace.prefixes import note_prefixes
from sexpgpu.trace.tensor import Tensor, as_tensor, float_tensor

library = Library("control")


def leaves(value: Any, make: Callable[[Any], Tensor]) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
    """The tensors of a tensor or (nested) list of them, and a function that puts others in their places."""
    if value is not NIL and not isinstance(value, Cons | list):
        return [make(value)], lambda given: given[0]
    parts = [leaves(item, make) for item in arguments.items("scan", value, "a list of tensors")]

    def rebuild(given: list[Tensor]) -> Any:
        rest = list(given)
        made = []
        for found, part in parts:
            made.append(part(rest[: len(found)]))
            del rest[: len(found)]
        return lisp_list(made)

    return [tensor for found, _ in parts for tensor in found], rebuild


@library.builtin("scan", "(function init xs &key axis reverse)", many=True)
def scan(function: Any, init: Any, xs: Any, *, axis: Any = 0, reverse: Any = NIL) -> Any:
    """Run (FUNCTION state x) for each slice x of XS along `:axis`, from the last one back with `:reverse`.

    FUNCTION gives (values next-state y). State, x and y are tensors or lists of tensors; every y is stacked on
    `:axis`, where its x lay. The values are the final state and the ys. Differentiable in all it reads.
    E-SHAPE-030 where xs have no common length, E-FLOW-007 where a state changes its type, E-FLOW-008 where FUNCTION
    does not give two values.

    Shapes: xs [..., n, ...] -> the final state, and ys with n on `:axis`.
    Dtypes: any.
    Errors: E-SHAPE-030, E-FLOW-004, E-FLOW-007, E-FLOW-008; E-ARG-012 nothing to go along.
    Source: JAX `lax.scan`.
    """
    graph = current_graph("scan")
    states, state_of = leaves(init, lambda v: as_tensor(v, "scan"))
    items, item_of = leaves(xs, lambda v: as_tensor(v, "scan"))
    if not items:
        raise error("E-ARG-012", "`scan` needs a tensor to go along", actual=show(xs))
    axes = tuple(arguments.axis("scan", axis, x.type.rank) for x in items)
    turns = _common_length(items, axes)
    body = BodyTrace(graph, turns)
    taken = [body.argument(s.type, s.span, "the state of the loop") for s in states]
    slices = [
        body.argument(without(x.type, a), x.span, f"a slice of {x.source}") for x, a in zip(items, axes, strict=True)
    ]
    body.turn_argument()
    with body.tracing():
        given = all_values(as_function(function)(state_of(taken), item_of(slices)))
        if len(given) != 2:
            raise error(
                "E-FLOW-008",
                "the function of `scan` gives (values next-state y)",
                expected="two values",
                actual=f"{len(given)}",
                help="(values state nil) where there is nothing to collect",
            )
        following, _ = leaves(given[0], lambda v: as_tensor(v, "scan"))
        ys, out_of = leaves(given[1], lambda v: as_tensor(v, "scan"))
    _same_types(states, following)
    counted = body.close([*following, *ys])
    outs = tuple(arguments.axis("scan", axis, y.type.rank + 1) for y in ys)
    operands = [*states, *items]
    if counted:
        operands.append(graph.emit("iota", shape=(turns,), axis=0, dtype="i32"))
        axes = (*axes, 0)
    operands += body.reached
    loop = Loop(body.symbol, len(states), axes, outs, arguments.flag(reverse))
    results = _call(graph, loop, f"{graph.name} scan", operands)
    return values(state_of(results[: len(states)]), out_of(results[len(states) :]))


def _call(graph: GraphTrace, loop: Loop, name: str, operands: list[Tensor]) -> list[Tensor]:
    span = graph.locate()
    builder = graph.builder
    module = module_of(graph.func)
    made = call_loop(builder, module, loop, name.replace(" ", "_"), [t.val for t in operands])
    return [Tensor(graph, value, span, "the result of scan") for value in made]


def _common_length(items: list[Tensor], axes: tuple[int, ...]) -> int:
    lengths = [x.type.shape[a] for x, a in zip(items, axes, strict=True)]
    if len(set(lengths)) > 1:
        raise error(
            "E-SHAPE-030",
            "`scan` goes along tensors of different lengths",
            expected=f"{lengths[0]} on the axis, as the first has",
            actual=" and ".join(str(x.type) for x in items),
            notes=[note for x in items for note in x.provenance()],
        )
    return lengths[0]


def _same_types(before: list[Tensor], after: list[Tensor]) -> None:
    first = [s.type for s in before]
    then = [s.type for s in after]
    if first == then:
        return
    changed = next((i for i, (a, b) in enumerate(zip(first, then, strict=False)) if a != b), None)
    notes: list[Note] = [] if changed is None else [*before[changed].provenance(), *after[changed].provenance()]
    raise error(
        "E-FLOW-007",
        "the state of `scan` changes its type from one turn to the next",
        expected=", ".join(map(str, first)) or "no state",
        actual=", ".join(map(str, then)) or "no state",
        help="start from what the function returns: (zeros (shape ...)), or (cast state ...)",
        notes=notes,
    )


@library.builtin("%note-prefixes", "(starts prefixes combined axis)")
def note(starts: Any, prefixes: Any, combined: Any, axis: Any) -> Any:
    """nil; what an associative scan has computed is noted for the pass `prefixes`."""
    scan = "associative-scan"

    def tensors(value: Any) -> list[Tensor]:
        return [as_tensor(v, scan) for v in arguments.items(scan, value, "a list of tensors")]

    left, right, made = (tensors(each) for each in combined)
    axes = [arguments.axis(scan, axis, x.type.rank) for x in left]
    note_prefixes(current_graph(scan), tensors(starts), tensors(prefixes), (left, right, made), axes)
    return NIL


@library.builtin("grad", "(function x)")
def grad(function: Any, x: Any) -> Any:
    """The gradient of (FUNCTION x), a float scalar, with respect to X: a tensor, or a list as X is one.

    Only what FUNCTION does with its argument counts: a tensor it closes over is a constant here. The gradient is an
    ordinary value of the graph and is differentiated like any other. E-SHAPE-020 for no scalar.

    Shapes: f of x -> []; the result has the shape of x, a list that of the list.
    Dtypes: floats.
    Errors: E-SHAPE-020 f is not a scalar; E-DTYPE-001.
    Source: Griewank & Walther, "Evaluating derivatives" (2008), chapter 3.
    """
    graph = current_graph("grad")
    given, rebuild = leaves(x, lambda v: float_tensor("grad", v))
    before = len(graph.block.operations)
    inputs = [graph.emit("reshape", t, shape=t.type.shape) for t in given]  # values of their own, whatever else is read
    with graph.enclosed("grad"):
        result = as_tensor(one(as_function(function)(rebuild(inputs))), "grad")
    if result.type.shape or not result.type.is_float:
        raise error(
            "E-SHAPE-020",
            "`grad` differentiates a scalar",
            expected=f"{graph.float_type}[]",
            actual=str(result.type),
            help="(sum y) or (mean y) as the last form of the function",
            notes=result.provenance(),
        )
    span = graph.locate()
    builder = graph.builder
    ops = [op.operation for op in graph.block.operations][before:]
    found = cotangents(
        builder, ops, {result.val.value: builder.constant(1, result.type)}, [t.val.value for t in inputs]
    )
    graph.locate()

    def gradient(t: Tensor) -> Tensor:
        value: Val = found.get(t.val.value) or builder.constant(0, t.type)
        return Tensor(graph, value, span, "a gradient")

    return rebuild([gradient(t) for t in inputs])


@library.builtin("%with-numerics", "(options thunk)", many=True)
def with_numerics(options: Any, thunk: Any) -> Any:
    """Mark what the thunk computes with a precision policy of its own: `:dtype` :f32 or :bf16 (pass `precision`)."""
    graph = current_graph("with-numerics")
    given = arguments.options("with-numerics", options, ("dtype",)).get("dtype", NIL)
    policy = arguments.choice("with-numerics", given, ":dtype", ("f32", "bf16"))
    before = len(graph.block.operations)
    result = thunk()
    _mark(graph, before, "sx.numerics", ir.StringAttr.get(policy, context=graph.context.mlir))
    return result


def _mark(graph: GraphTrace, before: int, name: str, value: Any) -> None:
    """Set an attribute of the operations traced since there were `before`, where no form inside has set it."""
    for op in list(graph.block.operations)[before:]:
        if name not in op.attributes:
            op.attributes[name] = value


@library.builtin("%checkpoint", "(thunk)", many=True)
def checkpoint(thunk: Any) -> Any:
    """Mark what the thunk computes: the backward pass computes it again instead of keeping it (pass `recompute`)."""
    graph = current_graph("checkpoint")
    before = len(graph.block.operations)
    result = thunk()
    i64 = ir.IntegerType.get_signless(64, context=graph.context.mlir)
    _mark(graph, before, "sx.checkpoint", ir.IntegerAttr.get(i64, graph.tracer.next_checkpoint()))
    return result
