"""The analysed program: what the emitter turns into Python code.

Names are resolved, macros expanded. Every node knows its place; `single` says that it gives exactly one value.
"""

from __future__ import annotations

from typing import Any

from sexpgpu.lang.builtin import Builtin, Parameters
from sexpgpu.lang.forms import Symbol
from sexpgpu.lang.place import Place

Ref = list[Any]
"""A global cell: a list of one value, or of none while unbound."""


class LocalVar:
    """A lexical variable (or local function): its Python name is unique in the unit it is compiled in."""

    __slots__ = ("assigned", "captured", "name", "owner", "parameters", "place", "read", "single", "symbol")

    def __init__(self, symbol: Symbol, name: str, owner: FunctionIR, place: Place) -> None:
        self.symbol = symbol
        self.name = name
        self.owner = owner
        self.place = place
        self.captured = False
        self.assigned = False
        self.read = False
        self.single = False
        self.parameters: Parameters | None = None  # of a local function


class Node:
    """A form after analysis."""

    __slots__ = ("place",)
    single = True

    def __init__(self, place: Place) -> None:
        self.place = place


class Const(Node):
    """A value known now."""

    __slots__ = ("value",)

    def __init__(self, place: Place, value: Any) -> None:
        self.place = place
        self.value = value


class LocalRef(Node):
    __slots__ = ("var",)

    def __init__(self, place: Place, var: LocalVar) -> None:
        self.place = place
        self.var = var


class GlobalRef(Node):
    """The value in a cell; `key` names it in messages: `v:width`, `f:mlp`."""

    __slots__ = ("key", "ref")

    def __init__(self, place: Place, ref: Ref, key: str) -> None:
        self.place = place
        self.ref = ref
        self.key = key


class SetLocal(Node):
    __slots__ = ("value", "var")

    def __init__(self, place: Place, var: LocalVar, value: Node) -> None:
        self.place = place
        self.var = var
        self.value = value


class SetGlobal(Node):
    __slots__ = ("key", "ref", "value")

    def __init__(self, place: Place, ref: Ref, key: str, value: Node) -> None:
        self.place = place
        self.ref = ref
        self.key = key
        self.value = value


class If(Node):
    __slots__ = ("orelse", "single", "test", "then")

    def __init__(self, place: Place, test: Node, then: Node, orelse: Node) -> None:
        self.place = place
        self.test = test
        self.then = then
        self.orelse = orelse
        self.single = then.single and orelse.single


class Or(Node):
    """The value of the first part that is true."""

    __slots__ = ("parts", "single")

    def __init__(self, place: Place, parts: list[Node]) -> None:
        self.place = place
        self.parts = parts
        self.single = parts[-1].single


class Seq(Node):
    __slots__ = ("parts", "single")

    def __init__(self, place: Place, parts: list[Node]) -> None:
        self.place = place
        self.parts = parts
        self.single = parts[-1].single


class Let(Node):
    """Lexical bindings, each made in turn (names are unique, so `let` and `let*` are alike here)."""

    __slots__ = ("bindings", "body", "single")

    def __init__(self, place: Place, bindings: list[tuple[LocalVar, Node]], body: Node) -> None:
        self.place = place
        self.bindings = bindings
        self.body = body
        self.single = body.single


class DynamicLet(Node):
    """Special bindings around a body: cell, message key, value."""

    __slots__ = ("bindings", "body", "single")

    def __init__(self, place: Place, bindings: list[tuple[Ref, str, Node]], body: Node) -> None:
        self.place = place
        self.bindings = bindings
        self.body = body
        self.single = body.single


class CallBuiltin(Node):
    """A direct call of a library function; keywords are already Python's."""

    __slots__ = ("args", "builtin", "keywords", "single")

    def __init__(self, place: Place, builtin: Builtin, args: list[Node], keywords: list[tuple[str, Node]]) -> None:
        self.place = place
        self.builtin = builtin
        self.args = args
        self.keywords = keywords
        self.single = not builtin.many


class Call(Node):
    """A call of whatever function `function` gives."""

    __slots__ = ("args", "function", "single")

    def __init__(self, place: Place, function: Node, args: list[Node], single: bool = False) -> None:
        self.place = place
        self.function = function
        self.args = args
        self.single = single


class Spread(Node):
    """All values of the parts, given to a function (multiple-value-call)."""

    __slots__ = ("function", "parts")
    single = False

    def __init__(self, place: Place, function: Node, parts: list[Node]) -> None:
        self.place = place
        self.function = function
        self.parts = parts


class Values(Node):
    """`(values ...)` with other than one part."""

    __slots__ = ("parts",)
    single = False

    def __init__(self, place: Place, parts: list[Node]) -> None:
        self.place = place
        self.parts = parts


class Keep(Node):
    """The values of `first` after the rest has run: prog1 (one value), multiple-value-prog1 (all)."""

    __slots__ = ("first", "rest", "single")

    def __init__(self, place: Place, first: Node, rest: list[Node], single: bool) -> None:
        self.place = place
        self.first = first
        self.rest = rest
        self.single = single


class Single(Node):
    """One value of a part that may give several."""

    __slots__ = ("part",)

    def __init__(self, place: Place, part: Node) -> None:
        self.place = place
        self.part = part


class Operation(Node):
    """A Python function of the runtime applied to nodes (no Lisp call, exactly one value)."""

    __slots__ = ("args", "name")

    def __init__(self, place: Place, name: str, args: list[Node]) -> None:
        self.place = place
        self.name = name
        self.args = args


class Optional:
    """An &optional or &key parameter: `var`, its default, the variable that says whether it was given."""

    __slots__ = ("default", "key", "supplied", "var")

    def __init__(self, var: LocalVar, default: Node, supplied: LocalVar | None, key: Symbol | None) -> None:
        self.var = var
        self.default = default
        self.supplied = supplied
        self.key = key


class FunctionIR:
    """A lambda: its parameters in their sections and its body, which also makes &aux and special bindings."""

    __slots__ = ("body", "info", "keys", "optional", "other_keys", "outer", "required", "rest")

    def __init__(self, info: Any, outer: FunctionIR | None) -> None:
        self.info = info
        self.outer = outer
        self.required: list[LocalVar] = []
        self.optional: list[Optional] = []
        self.rest: LocalVar | None = None
        self.keys: list[Optional] | None = None
        self.other_keys = False
        self.body: Node


class Lambda(Node):
    __slots__ = ("function",)

    def __init__(self, place: Place, function: FunctionIR) -> None:
        self.place = place
        self.function = function


class LocalFunctions(Node):
    """flet and labels: the scoping was settled by the analysis."""

    __slots__ = ("body", "functions", "single")

    def __init__(self, place: Place, functions: list[tuple[LocalVar, FunctionIR]], body: Node) -> None:
        self.place = place
        self.functions = functions
        self.body = body
        self.single = body.single


class Block(Node):
    __slots__ = ("body", "name", "single", "used")

    def __init__(self, place: Place, name: Symbol) -> None:
        self.place = place
        self.name = name
        self.used = False
        self.single = False
        self.body: Node


class ReturnFrom(Node):
    __slots__ = ("block", "value")

    def __init__(self, place: Place, block: Block, value: Node) -> None:
        self.place = place
        self.block = block
        self.value = value


class Tagbody(Node):
    """Segments of statements; `tags` maps a tag to the segment it stands before."""

    __slots__ = ("segments", "tags")

    def __init__(self, place: Place, tags: dict[Any, int]) -> None:
        self.place = place
        self.tags = tags
        self.segments: list[list[Node]] = []


class Go(Node):
    __slots__ = ("segment", "tagbody")

    def __init__(self, place: Place, tagbody: Tagbody, segment: int) -> None:
        self.place = place
        self.tagbody = tagbody
        self.segment = segment


class While(Node):
    """`setup` each turn, leave when `test` is true, then `body`; gives nil."""

    __slots__ = ("body", "test")

    def __init__(self, place: Place, test: Node, body: Node) -> None:
        self.place = place
        self.test = test
        self.body = body


class ForEach(Node):
    """`body` for each element of a list or each count below a number; `var` is fresh every turn."""

    __slots__ = ("body", "kind", "of", "var")

    def __init__(self, place: Place, kind: str, var: LocalVar, of: Node, body: Node) -> None:
        self.place = place
        self.kind = kind  # "list" or "count"
        self.var = var
        self.of = of
        self.body = body


class Catch(Node):
    __slots__ = ("body", "tag")
    single = False

    def __init__(self, place: Place, tag: Node, body: Node) -> None:
        self.place = place
        self.tag = tag
        self.body = body


class Protect(Node):
    __slots__ = ("body", "cleanup", "single")

    def __init__(self, place: Place, body: Node, cleanup: Node) -> None:
        self.place = place
        self.body = body
        self.cleanup = cleanup
        self.single = body.single


class Handle(Node):
    """handler-case: clauses of (condition type specifier, variable or None, body)."""

    __slots__ = ("body", "clauses")
    single = False

    def __init__(self, place: Place, body: Node, clauses: list[tuple[Any, LocalVar | None, Node]]) -> None:
        self.place = place
        self.body = body
        self.clauses = clauses


class Within(Node):
    """A body run inside a Python context manager of the runtime: handler-bind, progv, restarts of state."""

    __slots__ = ("args", "body", "name", "single")

    def __init__(self, place: Place, name: str, args: list[Node], body: Node) -> None:
        self.place = place
        self.name = name
        self.args = args
        self.body = body
        self.single = body.single


class MultipleBind(Node):
    """Variables bound to the values of one form, nil where it gives too few."""

    __slots__ = ("body", "single", "value", "vars")

    def __init__(self, place: Place, vars: list[LocalVar], value: Node, body: Node) -> None:
        self.place = place
        self.vars = vars
        self.value = value
        self.body = body
        self.single = body.single
