"""The names an experiment file must leave behind, looked up after its last form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from sexpgpu.diag import Diagnostic, Diagnostics, Edit, Note, Span, SxError, nearest
from sexpgpu.lang.active import as_function
from sexpgpu.lang.builtin import show
from sexpgpu.lang.culprit import span_of_word
from sexpgpu.lang.forms import symbol
from sexpgpu.lang.poison import Poison
from sexpgpu.lang.session import Session
from sexpgpu.trace.declarations import Declarations, LoaderValue
from sexpgpu.trace.models import Model
from sexpgpu.trace.optimizers import Optimizer, OptimizerGroups


@frozen
class Contract:
    """What the contract names hold, poison where that is missing or failed; `evaluate` is None where not needed.

    `whole` says that nothing is missing: the experiment can be run if its graphs can be traced.
    """

    whole: bool
    train_loader: LoaderValue | Poison
    prepare: Callable[..., Any]
    eval_prepare: Callable[..., Any]
    model: Model | Poison
    objective: Callable[..., Any]
    evaluate: Callable[..., Any] | None
    optimizer: Optimizer | OptimizerGroups | None
    curriculum: Callable[..., Any] | None
    spans: dict[str, Span | None]  # where the contract's functions are defined
    explain: Callable[[Exception], SxError]  # the coded error that an exception out of a Lisp call amounts to


_FORMS = {
    "train-loader": (
        "E-RUN-001",
        "a loader",
        "(defloader train-loader (:batch 32 :order :shuffle) (x SOURCE))",
    ),
    "prepare": (
        "E-RUN-002",
        "a function",
        "(defun prepare (batch) (values (field batch 'x) (field batch 'y)))",
    ),
    "model": ("E-RUN-003", "a model", "(def model (net))"),
    "objective": ("E-RUN-004", "a function", "(defun objective (output label) (cross-entropy output label))"),
    "evaluate": (
        "E-RUN-005",
        "a function",
        "(defun evaluate (output label) (metric 'loss (cross-entropy output label)))",
    ),
    "optimizer": ("E-RUN-006", "an optimizer", "(def optimizer (adamw :lr 1e-3))"),
    "defrun": ("E-RUN-007", "one defrun", "(defrun :steps 1000 :seed 1)"),
}

_FUNCTIONS = ("prepare", "eval-prepare", "objective")


def look_up(session: Session, declared: Declarations, diagnostics: Diagnostics) -> Contract | None:
    """The contract of the file just evaluated, after reporting what is missing or of the wrong kind.

    A name whose definition failed is missing silently: its own error has been reported. So is every name of a file
    that could not be read whole, whose contract is None, and of one where a limit ended a form or a module is missing:
    what was not reached may define it.
    """
    if any(d.code.startswith("E-READ") for d in diagnostics):
        return None
    reached = not any(d.code.startswith(("E-LIMIT", "E-MOD-001", "E-MOD-002", "E-IO")) for d in diagnostics)

    def lacks(failure: Diagnostic) -> Diagnostic:
        if reached:
            diagnostics.report(failure)
        return failure

    values: dict[str, Any] = {}
    kinds = {"train-loader": LoaderValue, "model": Model, "optimizer": Optimizer | OptimizerGroups}
    for name in ("train-loader", "prepare", "model", "objective", "optimizer"):
        found = session.variable(name) if name in kinds else session.function(name)
        wrong = found is not None and name in kinds and not isinstance(found, kinds[name])
        failure = session.module.poisoned.get(symbol(name))
        if (found is None or wrong) and failure is None:
            failure = lacks(_missing(session, declared, name, found))
        values[name] = found if failure is None else Poison(failure)
    evaluate = session.function("evaluate")
    failed = session.module.poisoned.get(symbol("evaluate"))
    if evaluate is None and failed is not None:
        evaluate = Poison(failed).lisp_call
    elif evaluate is None:
        without = [e for e in declared.evaluations if e.evaluate is None]
        if without:
            lacks(_missing(session, declared, "evaluate", None, without[0].span))
    if declared.run is None and not session.failed("defrun"):
        lacks(_missing(session, declared, "defrun", None))
    optimizer = values.pop("optimizer")
    prepare = as_function(values["prepare"])
    return Contract(
        declared.run is not None and not any(isinstance(value, Poison) for value in values.values()),
        values["train-loader"],
        prepare,
        session.function("eval-prepare") or prepare,
        values["model"],
        as_function(values["objective"]),
        evaluate,
        None if isinstance(optimizer, Poison) else optimizer,
        session.function("curriculum"),
        {name: session.span_of(name) for name in (*_FUNCTIONS, "model", "evaluate", "curriculum")},
        session.explained,
    )


def _missing(
    session: Session, declared: Declarations, name: str, found: Any, needed_at: Span | None = None
) -> Diagnostic:
    """What is wrong with a contract name, at its definition, where it is needed, or at the end of the file."""
    code, wanted, form = _FORMS[name]
    needs = '(require "sexpgpu/optim")\n' if name == "optimizer" and session.function("adamw") is None else ""
    if found is None:
        found = session.variable(name)  # a variable where a function is wanted
    what = f"the file has no `{name}`" if found is None else f"`{name}` is not {wanted}"
    actual = None if found is None else show(found)
    span = session.span_of(name) or needed_at or _end(session, str(declared.entry))
    near = nearest(name, session.module.own_names()) if found is None else None
    meant = session.span_of(near) if near else None
    notes = (Note(f"did you mean `{near}`?", meant),) if near else ()
    fix = _renamed(session, meant, near, name) if near and meant else _added(span, name, needs + form, found)
    return Diagnostic(code, what, span, expected=wanted, actual=actual, help=form, fix=fix, notes=notes)


def _renamed(session: Session, definition: Span, old: str, new: str) -> tuple[Edit, ...]:
    """The definition of `old` under the name `new`."""
    at = span_of_word(definition, session.sources.get(definition.file, ""), old)
    return (Edit(at, new),) if at is not None else ()


def _added(end: Span, name: str, form: str, found: Any) -> tuple[Edit, ...]:
    """The form at the end of the file, where it serves any file."""
    if found is not None or name not in ("defrun", "optimizer", "evaluate"):
        return ()
    behind = Span(end.file, end.end_line, end.end_col, end.end_line, end.end_col)
    return (Edit(behind, f"\n{form}"),)


def _end(session: Session, file: str) -> Span:
    """The last line of a file: where a missing form would go."""
    lines = session.sources.get(file, "").rstrip().split("\n")
    return Span(file, len(lines), 1, len(lines), len(lines[-1]) + 1)
