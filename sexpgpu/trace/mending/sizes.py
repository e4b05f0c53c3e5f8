"""Mending a size where it is declared: in a `defparam`, in the call that made a layer, in a knob."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

from sexpgpu.diag import Span
from sexpgpu.lang.enclosing import ListText, symbols_in
from sexpgpu.lang.forms import Symbol
from sexpgpu.lang.modules import written_by_user
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.graph import active_graph
from sexpgpu.trace.mending.scene import Change, Proposal, Scene
from sexpgpu.trace.models import Model, Parameter, name_tree, settle
from sexpgpu.trace.tensor import TensorLike

FARTHEST = 64
"""How far from a size that does not fit another is looked for."""


def declared_sizes(scene: Scene) -> Iterator[Proposal]:
    """Another size for a parameter that the call reads, or for the layer that it calls: those of the other tensors."""
    call, graph = scene.call, active_graph()
    if call is None or graph is None:
        return
    tensors = [value.type for value in call.values if isinstance(value, TensorLike)]
    # The records are counted by the loader, not by a declaration.
    sizes = dict.fromkeys(size for kind in tensors for size in reversed(kind.shape[1:] or kind.shape))
    for name, parameter in scene.variables.items():
        if isinstance(parameter, Parameter):
            yield from _parameter(scene, name, parameter, list(sizes))
    layer = _layer(scene)
    if layer is not None:
        yield from _layer_sizes(scene, layer, list(sizes))


def _parameter(scene: Scene, name: str, parameter: Parameter, sizes: list[int]) -> Iterator[Proposal]:
    """Another size in the shape of a parameter that an argument of the call names."""
    call, graph = scene.call, active_graph()
    assert call is not None
    assert graph is not None
    using = [i for i in range(len(call.values)) if name in symbols_in(call.form.element(i + 1))]
    declared = scene.text_at(parameter.span)
    shape = declared.inner(2) if declared is not None and declared.head == "defparam" and len(declared) > 2 else None
    if not using or shape is None or len(shape) != len(parameter.shape):
        return
    bindings = {k: v for k, v in scene.variables.items() if k != name}
    for at, size in product(range(len(parameter.shape)), sizes):
        if size == parameter.shape[at]:
            continue
        changed = (*parameter.shape[:at], size, *parameter.shape[at + 1 :])
        stand_in = graph.constant(0, TensorType(changed, parameter.type.dtype))

        changes = {i: _read_again(scene, i, {**bindings, name: stand_in}) for i in using}
        if scene.attempt(changes) is not None:
            text = size_text(scene, size, shape)
            yield Proposal(f"declare `{name}` with the size {text}", shape.replaced(at, text))


def _read_again(scene: Scene, index: int, bindings: dict[str, Any]) -> Change:
    """An argument as it is written, evaluated with other values of the variables."""
    return Change("_", lambda _: scene.evaluate(scene.form.text(index + 1), None, bindings))


def _layer(scene: Scene) -> Model | None:
    """The layer that the call is of: the outermost model that ran under it."""
    traceback = scene.fault.__traceback__
    below = False
    while traceback is not None:
        frame = traceback.tb_frame
        model = frame.f_locals.get("self")
        if below and isinstance(model, Model):
            return model
        below = below or frame is scene.frame
        traceback = traceback.tb_next
    return None


def _layer_sizes(scene: Scene, layer: Model, sizes: list[int]) -> Iterator[Proposal]:
    """Another size among the arguments of the call that made a layer."""
    call, graph = scene.call, active_graph()
    made = scene.text_at(layer.span)
    if call is None or graph is None or made is None or scene.session.function(made.head) is None:
        return
    inputs = [value for value in call.values if isinstance(value, TensorLike)]
    for at, size in product(range(1, len(made)), sizes):
        old = scene.tried(partial(scene.evaluate, made.text(at)))
        if type(old) is not int or old == size:
            continue
        words = [str(size) if i == at else made.text(i) for i in range(1, len(made))]

        def works(words: list[str] = words) -> Any:
            other = scene.evaluate(f"({made.head} {' '.join(words)})")
            name_tree(other, "mended")
            settle(other, graph.float_type)
            return other.lisp_call(*inputs)

        if scene.tried(works) is not None:
            text = size_text(scene, size, made)
            yield Proposal(f"make the layer with the size {text}, not {made.text(at)}", made.replaced(at, text))


def size_text(scene: Scene, size: int, place: ListText) -> str:
    """A size as the file would write it: the one knob that has it, where its name means the knob there."""
    knobs = [knob.name for knob in scene.session.selected.knobs if knob.value == str(size)]
    if len(knobs) != 1:
        return str(size)
    top = place
    while top.outer is not None:
        top = top.outer
    hidden = len(top) > 2 and top.head.startswith("def") and knobs[0] in symbols_in(top.element(2))
    return str(size) if hidden else knobs[0]


def divisors(scene: Scene) -> Iterator[Proposal]:
    """A layer whose maker refuses two sizes together: the nearest size that it takes, written in the knob or call."""
    call = scene.call
    if call is None or scene.fault.__traceback__ is None or not _refused_by_product(scene):
        return
    for i, value in sorted(enumerate(call.values), key=lambda pair: pair[1] if type(pair[1]) is int else 0):
        if type(value) is not int or value < 2:
            continue
        near_by = range(max(1, value - FARTHEST), value + FARTHEST)
        for near in sorted(near_by, key=lambda n: (abs(n - value), n)):
            if near != value and scene.attempt({i: Change(str(near))}) is not None:
                yield from _written_size(scene, i, value, near)
                break


def _refused_by_product(scene: Scene) -> bool:
    """Whether a layer of the product's own refused the call: a file's own functions are not called again."""
    return scene.callee is not None and not written_by_user(Span(scene.callee.f_code.co_filename, 1, 1, 1, 1))


def _written_size(scene: Scene, index: int, old: int, new: int) -> Iterator[Proposal]:
    form = scene.form
    written = form.element(index + 1)
    if type(written) is int:
        yield Proposal(f"{new}, not {old}", form.replaced(index + 1, str(new)))
    elif isinstance(written, Symbol):
        entry = knob_entry(scene, written.name)
        if entry is not None and entry.element(1) == old:
            yield Proposal(f"{new}, not {old}, for the knob `{written.name}`", entry.replaced(1, str(new)))


def knob_entry(scene: Scene, name: str) -> ListText | None:
    """The entry `(name default ...)` of a knob that has its default value."""
    given = next((knob for knob in scene.session.selected.knobs if knob.name == name), None)
    return scene.text_at(scene.session.span_of(name)) if given is not None and given.source == "default" else None
