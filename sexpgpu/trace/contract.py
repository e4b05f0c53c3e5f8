"""The names an experiment file must leave behind, looked up after its last form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from sexpgpu.diag import Diagnostic, Diagnostics, Note, Span, SxError, nearest
from sexpgpu.lang.builtin import show
from sexpgpu.lang.session import Session
from sexpgpu.trace.declarations import Declarations, LoaderValue
from sexpgpu.trace.models import Model
from sexpgpu.trace.optimizers import Optimizer, OptimizerGroups


@frozen
class Contract:
    """What the contract names hold; `evaluate` and `optimizer` are None where they are not needed or failed."""

    train_loader: LoaderValue
    prepare: Callable[..., Any]
    eval_prepare: Callable[..., Any]
    model: Model
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

    None when the train graph cannot be traced without it. A name whose definition failed is missing silently: its own
    error has been reported. So is every name of a file that could not be read whole.
    """
    if any(d.code.startswith("E-READ") for d in diagnostics):
        return None
    values: dict[str, Any] = {}
    kinds = {"train-loader": LoaderValue, "model": Model, "optimizer": Optimizer | OptimizerGroups}
    for name in ("train-loader", "prepare", "model", "objective", "optimizer"):
        found = session.variable(name) if name in kinds else session.function(name)
        wrong = found is not None and name in kinds and not isinstance(found, kinds[name])
        if (found is None or wrong) and not session.poisoned(name):
            diagnostics.report(_missing(session, declared, name, found))
        values[name] = None if wrong else found
    evaluate = session.function("evaluate")
    if evaluate is None and not session.poisoned("evaluate"):
        without = [e for e in declared.evaluations if e.evaluate is None]
        if without:
            diagnostics.report(_missing(session, declared, "evaluate", None, without[0].span))
    if declared.run is None:
        if not session.failed("defrun"):
            diagnostics.report(_missing(session, declared, "defrun", None))
        return None
    if any(values[name] is None for name in ("train-loader", "prepare", "model", "objective")):
        return None
    prepare = values["prepare"]
    return Contract(
        values["train-loader"],
        prepare,
        session.function("eval-prepare") or prepare,
        values["model"],
        values["objective"],
        evaluate,
        values["optimizer"],
        session.function("curriculum"),
        {name: session.span_of(name) for name in (*_FUNCTIONS, "evaluate", "curriculum")},
        session.explained,
    )


def _missing(
    session: Session, declared: Declarations, name: str, found: Any, needed_at: Span | None = None
) -> Diagnostic:
    """What is wrong with a contract name, at its definition, where it is needed, or at the end of the file."""
    code, wanted, form = _FORMS[name]
    if found is None:
        found = session.variable(name)  # a variable where a function is wanted
    what = f"the file has no `{name}`" if found is None else f"`{name}` is not {wanted}"
    actual = None if found is None else show(found)
    span = session.span_of(name) or needed_at or _end(session, str(declared.entry))
    near = nearest(name, session.module.own_names()) if found is None else None
    notes = (Note(f"did you mean `{near}`?", session.span_of(near)),) if near else ()
    return Diagnostic(code, what, span, expected=wanted, actual=actual, help=form, notes=notes)


def _end(session: Session, file: str) -> Span:
    """The last line of a file: where a missing form would go."""
    lines = session.sources.get(file, "").rstrip().splitlines() or [""]
    return Span(file, len(lines), 1, len(lines), len(lines[-1]) + 1)
