"""Parameters that get no gradient: told once a layer, at the user's form, with what keeps the gradient away."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostic
from sexpgpu.lang.limits import run_deep
from tests.trace.experiments import compiled, write


def warnings(file: Path) -> list[Diagnostic]:
    def look() -> list[Diagnostic]:
        with compiled(file) as done:
            assert done.diagnostics.errors == []
            return [d for d in done.diagnostics.warnings if d.code == "W-PARAM-001"]

    return run_deep(look)


def model(forward: str) -> str:
    return f"(defmodel net () (defsub l (linear width 2)) (defsub m (linear width 2)) (forward (x) {forward}))"


@pytest.mark.parametrize(
    ("forward", "note", "at"),
    [
        ("(+ (m x) (floor (l x)))", "no gradient passes `floor`", "(floor (l x))"),
        ("(+ (m x) (stop-gradient (tanh (l x))))", "no gradient passes `stop-gradient`", "(stop-gradient"),
        ("(* (m x) (unsqueeze (cast (argmax (l x)) :float) 1))", "no gradient passes `argmax`", "(argmax (l x))"),
    ],
)
def test_what_stops_the_gradient_is_shown(forward: str, note: str, at: str, tmp_path: Path) -> None:
    file = write(tmp_path, model=model(forward))
    (warning,) = warnings(file)
    names = "`model.l.weight` and `model.l.bias`"
    assert warning.message == f"parameters {names} do not get a gradient from the objective: they will not be trained"
    rows = file.read_text("utf-8").split("\n")
    (found,) = warning.notes
    assert found.text == note
    for span, text in ((warning.span, "(linear width 2)) (defsub m"), (found.span, at)):
        assert span is not None
        assert span.file == str(file)
        assert rows[span.line - 1][span.col - 1 :].startswith(text)


def test_a_layer_that_nothing_calls_does_not_reach_the_objective(tmp_path: Path) -> None:
    (warning,) = warnings(write(tmp_path, model=model("(m x)")))
    assert warning.message.endswith("do not reach the objective: they will not be trained")
    assert warning.notes == ()


def test_two_layers_are_told_apart(tmp_path: Path) -> None:
    sub = "(defmodel net () (defsub ls (repeat 3 (linear width 2))) (defsub m (linear width 2)) (forward (x) (m x)))"
    told = warnings(write(tmp_path, model=sub))
    (warning,) = told
    names = "`model.ls.0.weight`, `model.ls.0.bias`, `model.ls.1.weight` and 3 more"
    assert warning.message.startswith(f"parameters {names} do not reach")
    own = model("(m x)").replace(
        "(defsub l (linear width 2))", "(defparam a (3) :init (zeros-init)) (defparam b (2) :init (zeros-init))"
    )
    assert [d.message.split("`")[1] for d in warnings(write(tmp_path, model=own))] == ["model.a", "model.b"]


def test_what_only_frozen_reads_is_meant_to_stay(tmp_path: Path) -> None:
    parts = "(defsub l (linear width 3)) (defsub m (linear 3 2))"
    both = "(+ (funcall (frozen m) (l x)) (stop-gradient (m x)))"
    for call, told in (("(funcall (frozen m) (l x))", []), (both, ["model.m.weight", "model.m.bias"])):
        found = warnings(write(tmp_path, model=f"(defmodel net () {parts} (forward (x) {call}))"))
        assert [d.message.split("`")[1] for d in found] == told
