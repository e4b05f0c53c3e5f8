"""What is proposed and what is not: a fix is an edit of the user's own text that the refusing function takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sexpgpu.diag import Diagnostic, Span, apply_edits
from sexpgpu.lang.enclosing import list_around
from sexpgpu.lang.forms import Source
from sexpgpu.lang.limits import run_deep
from sexpgpu.trace.mending import ATTEMPTS
from sexpgpu.trace.mending.scene import Scene
from tests.trace.experiments import compiled, write


def errors(file: Path) -> list[Diagnostic]:
    def look() -> list[Diagnostic]:
        with compiled(file) as done:
            return done.diagnostics.errors

    return run_deep(look)


def objective(form: str) -> str:
    return f"(defun objective (logits labels) {form})"


def mended(file: Path, error: Diagnostic) -> str:
    return apply_edits(file.read_text(), error.fix)


def test_nothing_is_proposed_where_nothing_is_taken(tmp_path: Path) -> None:
    (error,) = errors(write(tmp_path, objective=objective("(mean (matmul logits (zeros '(7 5))))")))
    assert (error.code, error.fix) == ("E-SHAPE-013", ())


def test_a_name_that_a_macro_made_up_is_not_told(tmp_path: Path) -> None:
    (error,) = errors(write(tmp_path, optimizer="(def optimizer (sgd :rl 0.1))"))
    assert (error.code, error.help, error.notes) == ("E-ARG-002", "did you mean :lr?", ())


def test_a_form_of_a_model_is_shown_with_its_head(tmp_path: Path) -> None:
    found = errors(write(tmp_path, model="(defmodel net () (defparam) (defforward (x) x))"))
    assert [error.expected for error in found if error.code == "E-MACRO-002"] == ["(defparam name shape &rest options)"]


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ("(defun f (x) (+ 1 (f x))) (f 1)", "E-LIMIT-002"),
        ("(make-array 99999999999)", "E-LIMIT-003"),
        ('(require "./experiment.sx")', "E-MOD-002"),
        ('(require "./gone.sx")', "E-MOD-001"),
        ('(require "./folder.sx")', "E-IO-102"),
        ('(require "./binary.sx")', "E-IO-103"),
    ],
)
def test_what_was_not_reached_is_not_missing(form: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "folder.sx").mkdir()
    (tmp_path / "binary.sx").write_bytes(b"\xff\xfe")
    file = tmp_path / "experiment.sx"
    file.write_text(form, "utf-8")
    assert [error.code for error in errors(file)] == [code]


def test_a_form_that_was_meant_as_the_model_of_its_name_is_not_told_too(tmp_path: Path) -> None:
    models = """(defmodel block (in out) (defsub l (linear in out)) (forward (x) (l x)))
(defmodel net () (defsub out (block 3 2)) (forward (x) (out x)))"""
    (error,) = errors(write(tmp_path, model=models))
    assert (error.code, error.help) == ("E-NAME-004", "name it otherwise")


def test_a_size_that_is_none_limits_the_memory_all_the_same(tmp_path: Path) -> None:
    (error,) = errors(write(tmp_path, run='(defrun :steps 4 :seed 1 :recompute :auto :memory "280kb")'))
    assert error.code == "E-ARG-010"


def test_classes_are_not_taken_from_what_has_no_rows(tmp_path: Path) -> None:
    """One score a record against one float a record: a class number of all of them trains on nothing."""
    side = "(mean (tanh logits) :axis 1)"
    for label, code in ((side, "E-DTYPE-007"), (f"(cast {side} :i32)", "E-SHAPE-026")):
        form = f"(let ((score (mean logits :axis 1)) (side {label})) (cross-entropy score side))"
        (error,) = errors(write(tmp_path, objective=objective(form)))
        assert (error.code, error.fix) == (code, ())


def test_elements_of_a_list_are_named_as_they_are_written(tmp_path: Path) -> None:
    """A function's own `x` and `y` would be taken for the user's."""
    form = "(let ((x (tanh logits))) (mean (concat (list (mean x :axis 1) x) 0)))"
    (error,) = errors(write(tmp_path, objective=objective(form)))
    assert error.code == "E-SHAPE-010"
    assert error.message.startswith("`concat`: `(mean x :axis 1)` and `x` of the list differ in another axis than")
    assert (error.expected, error.actual) == ("`(mean x :axis 1)`: f32[4]", "`x`: f32[4, 2]")
    form = "(let ((x (tanh logits)) (all (list logits (slice logits 0 1 3)))) (mean (stack all)))"
    (error,) = errors(write(tmp_path, objective=objective(form)))
    assert (error.expected, error.actual) == ("element 1: f32[*4*, 2]", "element 2: f32[*2*, 2]")


def test_a_form_that_a_macro_wrote_is_left_alone(tmp_path: Path) -> None:
    macro = '(require "sexpgpu/nn") (require "sexpgpu/optim") (defmacro mean-over (x axis) `(mean ,x :axis ,axis))'
    (error,) = errors(write(tmp_path, require=macro, objective=objective("(mean (mean-over logits 2))")))
    assert (error.code, error.fix) == ("E-SHAPE-002", ())
    assert [note.text for note in error.trail] == ["in the expansion of (mean-over ...)"]


def test_a_fault_inside_a_standard_module_is_mended_in_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, model="(defmodel net () (defsub out (linear 5 2)) (forward (x) (out x)))")
    (error,) = errors(file)
    assert {edit.span.file for edit in error.fix} == {str(file)}
    assert "(linear width 2)" in mended(file, error)


def test_a_file_that_is_required_is_mended_there(tmp_path: Path) -> None:
    (tmp_path / "loss.sx").write_text("(defun loss (logits labels) (mean (sum logits :axis 2)))\n")
    require = '(require "sexpgpu/nn") (require "sexpgpu/optim") (require "./loss.sx")'
    (error,) = errors(write(tmp_path, require=require, objective=objective("(loss logits labels)")))
    assert "(sum logits :axis -1)" in mended(tmp_path / "loss.sx", error)


def test_a_knob_whose_name_is_hidden_is_not_named(tmp_path: Path) -> None:
    model = (
        "(defmodel part (width) (defparam w (5 width) :init (zeros-init)) (forward (x) (matmul x w)))"
        " (defmodel net () (defsub out (part 2)) (forward (x) (out x)))"
    )
    file = write(tmp_path, model=model)
    (error,) = errors(file)
    assert "(defparam w (3 width) " in mended(file, error)


def test_a_name_with_an_underscore_is_written_whole(tmp_path: Path) -> None:
    model = "(defmodel net () (defparam w (5 2) :init (zeros-init)) (forward (x) (matmul x w)))"
    file = write(tmp_path, knobs="(defknobs (in_width 3))", model=model)
    (error,) = errors(file)
    assert "(defparam w (in_width 2) " in mended(file, error)


def test_a_guess_that_reports_leaves_no_trace(tmp_path: Path) -> None:
    form = "(progn (metric 'm logits) (mean logits))"
    file = write(tmp_path, objective=objective(form))
    (error,) = errors(file)
    assert error.code == "E-SHAPE-020"
    file.write_text(mended(file, error))
    assert errors(file) == []


@pytest.mark.parametrize(
    ("function", "after"),
    [
        ("(lambda (x) (tanh x))", "(lambda (x) (mean (tanh x)))"),
        ("(lambda (x) (let ((y (tanh x))) (* y y)))", "(lambda (x) (let ((y (tanh x))) (mean (* y y))))"),
        ("#'tanh", "(lambda (x) (mean (tanh x)))"),
    ],
)
def test_what_grad_differentiates_is_averaged_not_the_point(tmp_path: Path, function: str, after: str) -> None:
    file = write(tmp_path, objective=objective(f"(mean (grad {function} logits))"))
    (error,) = errors(file)
    assert mended(file, error) == file.read_text().replace(function, after)


@pytest.mark.parametrize("function", ["bend", "(lambda (x) (values (tanh x) x))", "(lambda (x) (shape x))"])
def test_a_function_out_of_reach_of_grad_is_left_alone(tmp_path: Path, function: str) -> None:
    form = f"(let ((bend #'tanh)) (mean (grad {function} logits)))"
    found = [d for d in errors(write(tmp_path, objective=objective(form))) if not d.code.startswith("E-NAME")]
    assert [d.fix for d in found] == [()]


def choosing(choice: str) -> str:
    return f"(defmodel net () (defsub out (linear width 2)) (forward (x) {choice}))"


@pytest.mark.parametrize(
    "choice",
    [
        "(out (multiple-value-bind (s h) (if (> (sum x) 0) (values x (tanh x)) (values (tanh x) x)) (+ s h)))",
        "(if (> x 0.0) (out x) (out (tanh x)))",  # bool[4, 3] and f32[4, 2]
        "(out (if (> (unsqueeze x 0) 0) x (tanh x)))",  # a value of another rank
        "(out (cond ((> (unsqueeze x 0) 0) x) (t (tanh x))))",
        "(out (scan (lambda (s r) (if (> (sum r) 0) (values s r) (values r s))) (zeros '(3)) x))",
    ],
)
def test_where_is_not_proposed_where_it_gives_something_else(tmp_path: Path, choice: str) -> None:
    (error,) = errors(write(tmp_path, model=choosing(choice)))
    assert (error.code, error.fix) == ("E-FLOW-001", ())


def test_where_picks_among_what_layers_give(tmp_path: Path) -> None:
    file = write(tmp_path, model=choosing("(if (> (sum x) 0) (out x) (out (tanh x)))"))
    (error,) = errors(file)
    file.write_text(mended(file, error))
    assert errors(file) == []


def test_floats_stay_floats_beside_integers(tmp_path: Path) -> None:
    file = write(tmp_path, objective=objective("(mean (* (argmax (transpose logits)) logits))"))
    (error,) = errors(file)
    assert "(cast (argmax (transpose logits)) :float)" in mended(file, error)
    other = objective("(mean (* (mean logits :axis 0) (argmax logits)))")  # f32[2] and i32[4]
    (error,) = errors(write(tmp_path, objective=other))
    assert (error.code, error.help, error.fix) == ("E-DTYPE-002", "(cast x :f32)", ())


def test_an_objective_of_integers_is_not_averaged(tmp_path: Path) -> None:
    (error,) = errors(write(tmp_path, objective=objective("(sum (argmax logits))")))
    assert (error.code, error.fix) == ("E-SHAPE-020", ())
    assert error.help is not None
    assert "gradient" in error.help


def test_a_form_around_what_failed_is_not_at_fault_too(tmp_path: Path) -> None:
    found = errors(write(tmp_path, objective=objective("(mean (stack (loop for r in logits collect (mean r))))")))
    assert [error.code for error in found] == ["E-FLOW-001"]


@pytest.mark.parametrize(
    ("rate", "shown"), [('"0.1"', '"0.1"'), ('"fast"', '"fast"'), ("(lambda () 0.1)", "(lambda"), ("#'list*", "")]
)
def test_a_hyperparameter_is_refused_at_the_argument(rate: str, shown: str, tmp_path: Path) -> None:
    file = write(tmp_path, optimizer=f"(def optimizer (sgd :lr {rate}))")
    found = errors(file)
    assert [error.code for error in found] == (["E-TYPE-001"] if shown else [])
    for error in found:
        assert error.span is not None
        assert file.read_text().split("\n")[error.span.line - 1][error.span.col - 1 :].startswith(shown)
        assert [note.text for note in error.notes if note.text.startswith("inside")] == [
            "inside `sgd` of sexpgpu/optim"
        ]
        assert (error.fix == ()) == (shown != '"0.1"')


def test_the_list_around_a_place() -> None:
    source = Source("a.sx", "(f 1)\n(g (list a '(1 2)) b)\n")
    inside = list_around(source, Span("a.sx", 2, 10, 2, 11))
    assert inside is not None
    assert (inside.head, inside.text(1), inside.index_at(Span("a.sx", 2, 10, 2, 11))) == ("list", "a", 1)
    quoted = inside.inner(2)
    assert quoted is not None
    assert [quoted.text(i) for i in range(len(quoted))] == ["1", "2"]
    assert inside.outer is not None
    assert inside.outer.head == "g"
    changed = (*inside.replaced(1, "(h _)"), *quoted.dropped(1), *inside.outer.appended("c"))
    assert apply_edits(source.text, changed) == "(f 1)\n(g (list (h a) '(1)) b c)\n"
    assert list_around(source, Span("a.sx", 3, 1, 3, 1)) is None


def test_guesses_stay_near_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number divides 10^80 parts more or less well: the search for one that fits ends soon."""
    tried: list[int] = []
    original = Scene.attempt

    def attempt(self: Scene, changes: Any) -> Any:
        tried.append(1)
        return original(self, changes)

    monkeypatch.setattr(Scene, "attempt", attempt)
    (error,) = errors(write(tmp_path, objective=objective(f"(mean (first (split logits {10**80} 1)))")))
    assert error.code == "E-SHAPE-023"
    assert 0 < len(tried) <= 2 * ATTEMPTS
