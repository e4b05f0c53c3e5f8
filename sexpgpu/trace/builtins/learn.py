"""The compiler's side of `defmodel` and `defoptimizer`, and the functions over models and optimizers."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.active import active, as_function
from sexpgpu.lang.builtin import Library, python_name, show
from sexpgpu.lang.conditions import CallFault
from sexpgpu.lang.faults import calling_span, current_span
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list, one
from sexpgpu.lang.poison import Poison
from sexpgpu.tensortype import DTYPES, DType
from sexpgpu.trace.arguments import dtype as dtype_argument
from sexpgpu.trace.arguments import flag, items, name
from sexpgpu.trace.arguments import shape as shape_argument
from sexpgpu.trace.graph import current_graph
from sexpgpu.trace.models import Buffer, Model, Parameter, parameters_of
from sexpgpu.trace.optimizers import (
    GroupDeclaration,
    Optimizer,
    OptimizerGroups,
    StateDeclaration,
    UpdateTrace,
    selects,
)
from sexpgpu.trace.tensor import Tensor, TensorLike, as_tensor, broadcast_to

library = Library("models and optimizers")

current_update: ContextVar[UpdateTrace | None] = ContextVar("current update", default=None)


@library.builtin("%defmodel", "(kind body)")
def model(kind: Any, body: Any) -> Model:
    """An instance of a model: `body` declares into it."""
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
    place, made = current_span(), owner.span
    elsewhere = made is not None and place is not None and made.file != place.file
    declared = Parameter(
        name("defparam", key),
        shape_argument("defparam", shape),
        _dtype("defparam", dtype),
        as_function(init),
        flag(frozen),
        place,
        show(source),
        f" in the {owner.kind} made at {made.line}:{made.col}" if elsewhere and made is not None else "",
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
    """The parameters under a model once each, in order; a selector is a glob over paths, a predicate or a list."""
    if not isinstance(root, Model):
        raise error("E-TYPE-013", "`parameters` needs a model", actual=show(root))
    found = parameters_of(root)
    return lisp_list([p for p in found if selector is NIL or selects(selector, p)])


@library.builtin("part", "(model name)")
def part(root: Any, key: Any) -> Any:
    """A child of a model by name (E-PARAM-007 names those there are)."""
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


@library.builtin("parameter-path", "(parameter)")
def parameter_path(parameter: Any) -> str:
    """The path of a parameter, `model.blocks.0.attn.qkv.weight`."""
    if not isinstance(parameter, Parameter):
        raise error("E-TYPE-013", "`parameter-path` needs a parameter", actual=show(parameter))
    return parameter.path or parameter.name


@library.builtin("set-buffer", "(buffer value)")
def set_buffer(target: Any, value: Any) -> Any:
    """Propose a buffer's next value; every microbatch reads the step's starting one (E-FLOW-005 outside training)."""
    graph = current_graph("set-buffer")
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


@library.builtin("%defoptimizer", "(name again arguments parts)")
def optimizer(key: Any, again: Any, arguments: Any, parts: Any) -> Optimizer:
    """What calling a `defoptimizer` gives: `parts` of the arguments is its states, its update and its view."""
    try:
        found = one(as_function(parts)(*items("defoptimizer", arguments, "the arguments")))
    except CallFault as fault:
        # Arguments that do not fit are the caller's fault, two frames up: start the traceback anew.
        raise CallFault(fault.diagnostic) from None
    states, update, view = items("defoptimizer", found, "the parts")
    declared = []
    for state in items("defoptimizer", states, "the states"):
        label, *options = items("defstate", state, "a state")
        pairs = {python_name(k.name): f for k, f in zip(options[::2], options[1::2], strict=True)}
        unknown = [k for k in pairs if k not in ("like", "init", "shape", "when")]
        if unknown:
            raise error("E-ARG-002", f"`defstate` has no keyword :{unknown[0]}; it has :like :init :shape :when")
        if "when" in pairs and pairs.pop("when")(NIL) is NIL:
            continue
        declared.append(StateDeclaration(name("defstate", label), pairs))
    return Optimizer(
        name("defoptimizer", key),
        as_function(again),
        tuple(items("defoptimizer", arguments, "the arguments")),
        tuple(declared),
        update,
        None if view is NIL else view,
        calling_span(),
    )


@library.builtin("optimizer-groups", "(default &rest groups)")
def optimizer_groups(default: Any, *groups: Any) -> OptimizerGroups:
    """An optimizer with groups of parameters that differ."""
    if not isinstance(default, Optimizer):
        raise error("E-OPT-001", "`optimizer-groups` needs an optimizer first", actual=show(default))
    for given in groups:
        if not isinstance(given, GroupDeclaration):
            raise error("E-OPT-001", "`optimizer-groups` takes (group ...) forms after it", actual=show(given))
    return OptimizerGroups(default, groups)


@library.builtin("group", "(selector &rest overrides)")
def group(selector: Any, *overrides: Any) -> GroupDeclaration:
    """Parameters that a selector picks, with other hyperparameters or another optimizer."""
    return GroupDeclaration(selector, overrides, current_span())


def _update(what: str) -> UpdateTrace:
    update = current_update.get()
    if update is None:
        raise error("E-OPT-004", f"`{what}` is only for optimizer-update and optimizer-view")
    return update


@library.builtin("%hyper", "(name value)")
def hyper(key: Any, value: Any) -> Any:
    """A hyperparameter inside an update: a schedule is traced at the step, the learning rate is also reported."""
    update = _update("a hyperparameter")
    if callable(value):
        value = as_function(value)(step_tensor())
    if isinstance(key, Symbol) and key.name == "lr" and value is not NIL:
        rate = as_tensor(value, "lr")
        if rate.type.shape == () and not any(o.role == "value" for o, _ in update.graph.outputs):
            update.graph.output("value", "lr", update.graph.cast_float(rate))
    return value


def step_tensor() -> Tensor:
    """The optimizer step as a scalar of the run's float type."""
    graph = current_graph("a schedule")
    return graph.cast_float(graph.context_value("step"))


@library.builtin("run-steps", "()")
def run_steps() -> Any:
    """Planned steps of the run: an integer when `defrun` says it, else a scalar the loop feeds."""
    graph = current_graph("run-steps")
    return graph.steps if graph.steps is not None else graph.cast_float(graph.context_value("steps"))


@library.builtin("%state", "(name)")
def state(key: Any) -> Any:
    """The value of an optimizer state, the new one once it is set."""
    update = _update("a state")
    label = name("a state", key)
    return update.set.get(label, update.states[label])


@library.builtin("%set-state", "(name value)")
def set_state(key: Any, value: Any) -> Any:
    """Set an optimizer state; E-OPT-005 when the value does not fit it."""
    update = _update("set-state")
    label = name("set-state", key)
    if label not in update.states:
        raise error(
            "E-OPT-006",
            f"there is no state `{label}`",
            expected="one of " + (" ".join(update.states) or "none"),
        )
    wanted = update.states[label].type
    tensor = as_tensor(value, "set-state", like=wanted)
    if not isinstance(value, TensorLike) and wanted.shape:
        tensor = broadcast_to(tensor, wanted.shape)
    if tensor.type != wanted:
        raise error(
            "E-OPT-005",
            f"`set-state`: the value does not fit state `{label}`",
            expected=str(wanted),
            actual=str(tensor.type),
            notes=tensor.provenance(),
        )
    update.set[label] = tensor
    return tensor
