"""What is proposed and what is not: a fix is an edit of the user's own text that the refusing function takes."""

from __future__ import annotations

from pathlib import Path

from sexpgpu.diag import Diagnostic, Span, apply_edits
from sexpgpu.lang.enclosing import list_around
from sexpgpu.lang.forms import Source
from sexpgpu.lang.limits import run_deep
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
