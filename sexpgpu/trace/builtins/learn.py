"""The compiler's side of `defmodel`, and the functions over models."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.diag import Culprit, Span, error
from sexpgpu.lang.active import active, as_function, spend_steps
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.faults import calling_span, current_span
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list
from sexpgpu.lang.poison import Poison
from sexpgpu.tensortype import DTYPES, DType
from sexpgpu.trace.arguments import dtype as dtype_argument
from sexpgpu.trace.arguments import flag, integer, items, name
from sexpgpu.trace.arguments import shape as shape_argument
from sexpgpu.trace.builtins.optimize import require_selector
from sexpgpu.trace.graph import current_graph
from sexpgpu.trace.models import Buffer, Frozen, Model, Parameter, parameters_of
from sexpgpu.trace.optimizers import selects
from sexpgpu.trace.tensor import as_tensor

library = Library("models")

DECLARING_WORK: Final = 500
"""Steps that an instance of a model takes, and a parameter: models may nest without end."""


@library.builtin("%defmodel", "(kind body)")
def model(kind: Any, body: Any) -> Model:
    """An instance of a model: `body` declares into it."""
    spend_steps(DECLARING_WORK)
    instance = Model(name("defmodel", kind), span=calling_span())
    recovery = active().recovery
    known = recovery.count
    with recovery.going_on():
        as_function(body)(instance)
    instance.whole = recovery.count == known
    if instance.forward is None and not instance.whole and recovery.last is not None:
        instance.forward = recovery.last.lisp_call
    if instance.forward is None:
        raise error(
            "E-PARAM-009", f"(defmodel {instance.kind} ...) has no forward", help="(forward (x) ...) as its last form"
        )
    return instance


def _made_at(owner: Model) -> Span | None:
    """Where the user's file makes a model that is defined in another."""
    place, made = current_span(), owner.span
    return made if made is not None and place is not None and made.file != place.file else None


def _dtype(what: str, value: Any) -> DType | None:
    if value is NIL or (isinstance(value, Symbol) and value.name == "float"):
        return None
    return dtype_argument(what, value, DTYPES[0])


@library.builtin("%defparam", "(model name shape shape-source &key init dtype frozen)")
def param(
    owner: Model, key: Any, shape: Any, source: Any, *, init: Any = NIL, dtype: Any = NIL, frozen: Any = NIL
) -> Parameter:
    """Declare a parameter; E-PARAM-001 without an `:init`."""
    if init is NIL:
        raise error(
            "E-PARAM-001",
            f"parameter `{name('defparam', key)}` has no initializer",
            help=":init (normal 0.02)",
        )
    spend_steps(DECLARING_WORK)
    place, made = current_span(), _made_at(owner)
    declared = Parameter(
        name("defparam", key),
        shape_argument("defparam", shape),
        _dtype("defparam", dtype),
        as_function(init),
        flag(frozen),
        place,
        show(source),
        "" if made is None else f" in the {owner.kind} made at {made.line}:{made.col}",
        made,
    )
    owner.declare(declared.name, declared)
    return declared


@library.builtin("%defbuffer", "(model name shape &key init dtype per-microbatch)")
def buffer(
    owner: Model, key: Any, shape: Any, *, init: Any = NIL, dtype: Any = NIL, per_microbatch: Any = NIL
) -> Buffer:
    """Declare a buffer; E-PARAM-001 without an `:init`."""
    if init is NIL:
        raise error("E-PARAM-001", f"buffer `{name('defbuffer', key)}` has no initializer", help=":init (zeros-init)")
    declared = Buffer(
        name("defbuffer", key),
        shape_argument("defbuffer", shape),
        _dtype("defbuffer", dtype),
        as_function(init),
        flag(per_microbatch),
        current_span(),
        _made_at(owner),
    )
    owner.declare(declared.name, declared)
    return declared


@library.builtin("%defsub", "(model name child)")
def sub(owner: Model, key: Any, child: Any) -> Any:
    """Declare a child: a model or a (nested) list of models (E-PARAM-004 for anything else)."""
    owner.declare(name("defsub", key), _children(name("defsub", key), child))
    return child


def _children(key: str, child: Any) -> Any:
    if isinstance(child, Model | Parameter | Poison):
        return child
    if isinstance(child, Cons | list) or child is NIL:
        return [_children(key, item) for item in items("defsub", child, "the children")]
    raise error("E-PARAM-004", f"(defsub {key} ...) needs a model or a list of models", actual=show(child))


OUTSIDE: Final = {"defmodel": ("E-PARAM-012", "model"), "defoptimizer": ("E-OPT-010", "optimizer")}
"""By the defining form, the error of a part that stands outside of it, and what the form defines."""


@library.builtin("%outside", "(part definition)")
def outside(given: Symbol, definition: Symbol) -> Any:
    """Refuse a part of a definition where it stands alone (E-PARAM-012, E-OPT-010)."""
    code, kind = OUTSIDE[definition.name]
    raise error(
        code,
        f"`{given.name}` outside of a `{definition.name}`",
        expected=f"a place in the body of the {kind} that it belongs to",
        help=f"does a parenthesis close the `{definition.name}` too early?",
    )


@library.builtin("%repeat-count", "(count)")
def repeat_count(count: Any) -> int:
    """How often `repeat` evaluates its form: E-ARG-010 for what is no integer, E-VALUE-012 for a negative one."""
    number = integer("repeat", count, "count")
    if number < 0:
        behind = Culprit(function="repeat", argument=1, value=True)
        message = "`repeat`: count is outside its domain"
        raise error("E-VALUE-012", message, expected="an integer: 0 <= count", actual=str(number), culprit=behind)
    return number


@library.builtin("%forward", "(model function)")
def forward(owner: Model, function: Any) -> Any:
    """Set what calling the instance does."""
    if owner.forward is not None:
        raise error("E-PARAM-002", f"model `{owner.kind}` has two forward forms", help="keep one")
    owner.forward = function
    return NIL


@library.builtin("%call", "(child arguments)", many=True)
def call(child: Any, arguments: Any) -> Any:
    """Call a child by its name in function position."""
    if isinstance(child, Poison):
        return child
    if not isinstance(child, Model):
        what = "a list of models" if isinstance(child, Cons) else show(child)
        raise error(
            "E-PARAM-006",
            f"this child is {what}, not one model",
            help="(dolist (b blocks) (setq x (funcall b x)))",
        )
    return child.lisp_call(*items("funcall", arguments, "the arguments"))


@library.builtin("parameters", "(model &optional selector)")
def parameters(root: Any, selector: Any = NIL) -> Any:
    """The parameters under a model once each, in order; a selector is a glob over paths, a predicate or a list.

    Errors: E-TYPE-013 no model; E-ARG-010 no selector.
    Source: docs: Models and parameters.
    """
    if not isinstance(root, Model):
        raise error("E-TYPE-013", "`parameters` needs a model", actual=show(root))
    if selector is not NIL:
        require_selector("parameters", selector)
    found = parameters_of(root)
    return lisp_list([p for p in found if selector is NIL or selects(selector, p)])


@library.builtin("part", "(model name)")
def part(root: Any, key: Any) -> Any:
    """A child of a model by name (E-PARAM-007 names those there are).

    Errors: E-PARAM-007 no such child; E-TYPE-013 no model.
    Source: docs: Models and parameters.
    """
    if not isinstance(root, Model):
        raise error("E-TYPE-013", "`part` needs a model", actual=show(root))
    wanted = name("part", key)
    if wanted not in root.children:
        raise error(
            "E-PARAM-007",
            f"model `{root.kind}` has no part `{wanted}`",
            expected="one of " + " ".join(root.children),
        )
    child = root.children[wanted]
    return lisp_list(child) if isinstance(child, list) else child


@library.builtin("frozen", "(model)")
def frozen(root: Any) -> Frozen:
    """The same instance under stop-gradient: calling it trains its inputs' makers, not its parameters (E-TYPE-013).

    Errors: E-TYPE-013 no model.
    Source: docs: Models and parameters.
    """
    if isinstance(root, Frozen):
        return root
    if not isinstance(root, Model):
        raise error("E-TYPE-013", "`frozen` needs a model", actual=show(root))
    return Frozen(root)


@library.builtin("parameter-path", "(parameter)")
def parameter_path(parameter: Any) -> str:
    """The path of a parameter, `model.blocks.0.attn.qkv.weight`.

    Errors: E-TYPE-013 no parameter.
    Source: docs: Models and parameters.
    """
    if not isinstance(parameter, Parameter):
        raise error("E-TYPE-013", "`parameter-path` needs a parameter", actual=show(parameter))
    return parameter.path or parameter.name


@library.builtin("set-buffer", "(buffer value)")
def set_buffer(target: Any, value: Any) -> Any:
    """Propose a buffer's next value; every microbatch reads the step's starting one (E-FLOW-005 outside training).

    Errors: E-FLOW-005 outside training; E-FLOW-004 inside scan or grad; E-SHAPE-024 another type; E-PARAM-010 twice.
    Source: docs: Models and parameters.
    """
    graph = current_graph("set-buffer")
    graph.must_be_open("set-buffer")
    if not isinstance(target, Buffer):
        raise error("E-TYPE-013", "`set-buffer` needs a buffer", actual=show(target))
    if not graph.training:
        raise error("E-FLOW-005", "`set-buffer` is for the train graph", help="(when (training-p) (set-buffer b x))")
    tensor = as_tensor(value, "set-buffer", like=target.type)
    if tensor.type != target.type:
        raise error(
            "E-SHAPE-024",
            f"`set-buffer`: the value does not fit buffer `{target.path}`",
            expected=str(target.type),
            actual=str(tensor.type),
            notes=tensor.provenance(),
        )
    path = target.path or target.name
    if path in graph.proposals:
        raise error("E-PARAM-010", f"buffer `{path}` is set twice in one step", help="set it once")
    graph.proposals[path] = tensor
    return value
