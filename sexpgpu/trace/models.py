"""Model instances: trees of parameters, buffers and children, named from where the experiment holds them.

An instance is made when its form is evaluated and has no name then. `name_tree` walks from the experiment's `model`
and gives every parameter the path under which it is first met; meeting it again makes an alias (a tied weight).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, field

from sexpgpu.diag import CallSite, Note, Span, SxError, error
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.functions import info_of_function
from sexpgpu.lang.modules import LIBRARY
from sexpgpu.lang.poison import Poison
from sexpgpu.tensortype import DType, TensorType
from sexpgpu.trace.graph import GraphTrace, current_graph
from sexpgpu.trace.tensor import Reference, Tensor


@define(eq=False)
class Parameter(Reference):
    """A trained tensor of a model. `dtype` is None until the run's float type is known (`settle`)."""

    name: str
    shape: tuple[int, ...]
    dtype: DType | None
    init: Callable[..., Any]
    frozen: bool = False
    span: Span | None = None
    shape_source: str = ""
    owner: str = ""  # the layer of a standard module that it belongs to, and where the file makes that
    made: Span | None = None
    path: str | None = None
    aliases: list[str] = field(factory=list)

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype or "f32")

    def resolve(self, graph: GraphTrace) -> Tensor:
        tensor = graph.input(
            "param",
            _named(self, self.path),
            self.type,
            frozen=self.frozen,
            span=self.span,
            source=f"parameter {self.path}, declared {self.shape_source}{self.owner}",
        )
        if graph.frozen:
            return graph.emit("stop_gradient", tensor)
        graph.thawed.add(self.path or self.name)
        return tensor

    def lisp_print(self) -> str:
        return f"#<parameter {self.path or self.name} {self.type}>"


@define(eq=False)
class Buffer(Reference):
    """A tensor that a model keeps and does not train; `set-buffer` proposes its next value."""

    name: str
    shape: tuple[int, ...]
    dtype: DType | None
    init: Callable[..., Any]
    per_microbatch: bool = False
    span: Span | None = None
    made: Span | None = None  # where another file makes the model
    path: str | None = None

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype or "f32")

    def resolve(self, graph: GraphTrace) -> Tensor:
        return graph.input("buffer", _named(self, self.path), self.type, span=self.span)

    def lisp_print(self) -> str:
        return f"#<buffer {self.path or self.name} {self.type}>"


def site_of(declared: Parameter | Buffer) -> Span | None:
    """Where an error about a parameter or buffer is shown: for a standard module's, the form that makes the layer."""
    made, own = declared.made, declared.span
    if made is None or own is None or not Path(own.file).is_relative_to(LIBRARY):
        return own
    return CallSite(made.file, made.line, made.col, made.end_line, made.end_col, own)


Child = Any
"""A Parameter, a Buffer, a Model, poison, or a (nested) list of models."""


@define(eq=False)
class Model(Foreign):
    """One instance of a `defmodel`: its declarations in order and its forward function."""

    kind: str
    children: dict[str, Child] = field(factory=dict)
    forward: Callable[..., Any] | None = None
    span: Span | None = None
    path: str | None = None
    whole: bool = True  # none of its declarations failed

    def declare(self, name: str, child: Child) -> Child:
        """Add a declaration; E-PARAM-002 when the instance has that name already."""
        if name in self.children:
            raise error("E-PARAM-002", f"model `{self.kind}` declares `{name}` twice", help="give one another name")
        self.children[name] = child
        return child

    def lisp_call(self, *args: Any) -> Any:
        assert self.forward is not None  # an instance leaves `defmodel` complete
        graph = current_graph(self.kind)
        with graph.inside(_named(self, self.path), self.span):
            try:
                return self.forward(*args)
            except TypeError as fault:
                if fault.__traceback__ is None or fault.__traceback__.tb_next is not None:
                    raise  # not this call
                raise self._wrong_count(len(args)) from None

    def _wrong_count(self, given: int) -> SxError:
        """E-ARG-001 of a call with too many inputs or too few."""
        info = info_of_function(self.forward)
        takes = info.parameters.takes().replace("argument", "input") if info is not None else "takes other inputs"
        notes = [Note(f"the {self.kind} is made here", self.span)] if self.span is not None else []
        return error("E-ARG-001", f"the model `{self.kind}` {takes}, got {given}", notes=notes)

    def lisp_print(self) -> str:
        return f"#<model {self.kind}{f' as {self.path}' if self.path else ''}>"


@define(eq=False)
class Frozen(Foreign):
    """A model whose parameters are constants to whoever differentiates a call of it; its inputs are not."""

    model: Model

    def lisp_call(self, *args: Any) -> Any:
        with current_graph(self.model.kind).freezing():
            return self.model.lisp_call(*args)

    def lisp_print(self) -> str:
        return f"#<frozen {self.model.lisp_print()[2:]}"


def _named(what: Parameter | Buffer | Model, path: str | None) -> str:
    if path is None:
        label = what.kind if isinstance(what, Model) else what.name
        raise error(
            "E-PARAM-003",
            f"`{label}` is used by a graph but is no part of the experiment's model",
            help="declare it with (defsub name ...) in the model that uses it",
            notes=[Note("made here", what.span)] if what.span else [],
        )
    return path


def name_tree(root: Model, name: str) -> None:
    """Give every instance, parameter and buffer under `root` its path, children in the order declared."""
    for path, node in _walk(root, name):
        if node.path is None:
            node.path = path
        elif isinstance(node, Parameter) and path != node.path and path not in node.aliases:
            node.aliases.append(path)


def _walk(node: Child, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Model):
        yield path, node
        for name, child in node.children.items():
            yield from _walk(child, f"{path}.{name}")
    elif isinstance(node, Parameter | Buffer):
        yield path, node
    elif not isinstance(node, Poison):
        for i, item in enumerate(node):
            yield from _walk(item, f"{path}.{i}")


def parameters_of(root: Model) -> list[Parameter]:
    """Every parameter under `root` once, in the order of `name_tree`."""
    found = {id(n): n for _, n in _walk(root, "") if isinstance(n, Parameter)}
    return list(found.values())


def buffers_of(root: Model) -> list[Buffer]:
    """Every buffer under `root` once."""
    found = {id(n): n for _, n in _walk(root, "") if isinstance(n, Buffer)}
    return list(found.values())


def is_whole(root: Model) -> bool:
    """Whether every declaration under `root` could be made."""
    return all(node.whole for _, node in _walk(root, "") if isinstance(node, Model))


def settle(root: Model, float_type: DType) -> None:
    """Give parameters and buffers that name no dtype the run's float type."""
    for _, node in _walk(root, ""):
        if isinstance(node, Parameter | Buffer) and node.dtype is None:
            node.dtype = float_type
