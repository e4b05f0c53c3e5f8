"""Whatever an argument of the library is given: taken, or refused with a code, by its name, at the user's form."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sexpgpu.diag import Diagnostic, Diagnostics, SxError
from sexpgpu.diag.catalogue import ENTRIES
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import new_session
from sexpgpu.experiment import RunConfig
from sexpgpu.lang.active import activated
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.session import Session
from sexpgpu.trace.declarations import Declarations, declaring
from sexpgpu.trace.graph import GraphTrace, current_graph
from sexpgpu.trace.graphs import trace_init
from sexpgpu.trace.models import Buffer, Parameter, buffers_of, name_tree, parameters_of, settle
from sexpgpu.trace.optimizers import AssignedGroup, Slot
from sexpgpu.trace.standins import stand_in_parameter
from sexpgpu.trace.tracer import Tracer
from sexpgpu.trace.updates import trace_state, trace_update, trace_view
from tests.trace.argument_cases import VALUES, Row, Varied, positional, rows, varied
from tests.trace.surface import module_documentation

ELSE: Final = re.compile(r"E-(SHAPE|FLOW|DTYPE|LIMIT|PARAM|NUM)|E-VALUE-(101|011)|E-LOAD-006|E-ARG-(003|012)")
"""Errors about tensors, data, a function that was called, a budget: where those come from is told."""

DOCUMENTED: Final = module_documentation()

LAMBDA: Final = ("(+ s v)", "(sum v)", "v")
"""What a function among the arguments does."""

uses = Library("uses")


@uses.builtin("%applied", "(model x)", many=True)
def applied(model: Any, x: Any) -> Any:
    """A layer as `model`, initialized and called."""
    graph = current_graph("applied")
    name_tree(model, "model")
    settle(model, graph.float_type)
    declared: list[Parameter | Buffer] = [*parameters_of(model), *buffers_of(model)]
    for each in declared:
        trace_init(graph.tracer, each)
    return model.lisp_call(x)


@uses.builtin("%updated", "(optimizer)")
def updated(optimizer: Any) -> Any:
    """Its update, states and view of a parameter traced."""
    tracer = current_graph("updated").tracer
    parameter = stand_in_parameter(tracer)
    group = AssignedGroup("group", "*", optimizer, [parameter])
    trace_update(tracer, group, parameter)
    for name, state in optimizer.states_of(Slot("param", "param", parameter.type)).items():
        if state.init is not None:
            trace_state(tracer, group, parameter, name, state)
    if optimizer.viewing() is not None:
        trace_view(tracer, group, parameter)
    return NIL


class Trial:
    """Evaluates forms, each as a file of its own, while a train graph is traced."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.number = 0

    def __call__(self, form: str) -> Diagnostic | None:
        self.number += 1
        known = len(self.session.diagnostics.errors)
        try:
            self.session.evaluate_text(form, self.file)
        except SxError as fault:
            return fault.diagnostic
        return next(iter(self.session.diagnostics.errors[known:]), None)

    @property
    def file(self) -> str:
        return f"form{self.number}.sx"


def outcomes_of() -> Iterator[dict[str, Any]]:
    """What comes of the rows, each tried in a process of its own, and from the case on that used the budget up."""
    session = new_session(Diagnostics())
    session.install(uses)
    with open_context() as context, declaring(Declarations(Path("form.sx"))), activated(session):
        session.evaluate_text('(require "sexpgpu/nn") (require "sexpgpu/optim") (def numbers (arange 10))', "pre.sx")
        run = RunConfig(steps=10, epochs=None, precision="f32", seed=1)
        graph = GraphTrace(Tracer(context, run, {}), "train", training=True, stream="train", rows=4, prefix="train")
        with graph.tracing(), session.recovery.suspended():
            session.evaluate_text(VALUES, "values.sx")
            assert session.diagnostics.errors == []
            for row in rows():
                found: dict[str, Any] = {"next": 0}
                while found.get("next") is not None:
                    found = _apart(lambda row=row, first=found["next"]: tried(row, Trial(session), first))  # type: ignore[misc]
                    yield found


def _apart(work: Callable[[], Any]) -> Any:
    """The value of `work()` in a fork of this process, as JSON has it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = json.dumps(work())
        except BaseException as fault:
            text = json.dumps({"fault": repr(fault)})
        with os.fdopen(write, "w") as pipe:
            pipe.write(text)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        found = json.load(pipe)
    os.waitpid(child, 0)
    return found


def tried(row: Row, trial: Trial, first: int) -> dict[str, Any]:
    """Of a row's cases from `first` on: what is wrong with the errors they are refused with, and what is taken.

    It ends with a case that uses up the session's steps; `next` is the one behind it.
    """
    begun = trial(row.form())
    if begun is not None:
        return {"wrong": [f"{row.call}: {begun.code} {begun.message}"]}
    wrong: list[str] = []
    taken: list[tuple[str, str]] = []
    parameters = positional(f"({DOCUMENTED[row.name].call[1:-1].partition(' ')[2]})")
    for number, case in enumerate(varied(row, parameters)):
        if number < first:
            continue
        form = row.use.replace("{}", case.call)
        found = trial(form)
        if found is None:
            taken.append((f"{row.call}: {case.argument}", case.kind))
        elif fault := faulty(found, trial.file, form, case, row.name):
            wrong.append(f"{form}: {case.argument}: {fault}: {found.code} {found.message}")
        if trial.session.exhausted is not None:
            return {"wrong": wrong, "taken": taken, "next": number + 1}
    return {"wrong": wrong, "taken": taken}


def faulty(found: Diagnostic, file: str, form: str, case: Varied, definition: str) -> str:
    """What is wrong with an error, nothing if it tells the argument by its name, or is shown at it."""
    if found.code not in ENTRIES:
        return "no code of the catalogue"
    span = found.span
    if span is None or span.file != file:
        return "no place in the file"
    shown = form[span.col - 1 : span.end_col - 1]
    if ELSE.match(found.code) or shown == case.value or shown in LAMBDA:
        return ""
    told = " ".join(filter(None, (found.message, found.expected, found.help, *(note.text for note in found.notes))))
    return "" if says(told, case.argument) and says(told, definition) else "not by its name"


def says(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


@pytest.fixture(scope="module")
def outcomes() -> list[dict[str, Any]]:
    return run_deep(lambda: list(outcomes_of()))


def test_what_is_refused_is_told_by_its_name_at_the_users_form(outcomes: list[dict[str, Any]]) -> None:
    assert [found for found in outcomes if "fault" in found] == []
    assert [told for found in outcomes for told in found["wrong"]] == []


def test_what_is_taken_is_listed(outcomes: list[dict[str, Any]], golden: Callable[[str], None]) -> None:
    taken: dict[str, list[str]] = {}
    for argument, kind in (pair for found in outcomes for pair in found["taken"]):
        taken.setdefault(argument, []).append(kind)
    golden("\n".join(f"{argument}: {' '.join(kinds)}" for argument, kinds in taken.items()))
