"""The standard modules, read as a user's own file: everything in them is analysed, called or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostics
from sexpgpu.driver.compile import LIBRARY, new_session
from sexpgpu.lang.limits import run_deep
from tests.trace.experiments import compiled, write

MODULES = sorted(
    [*LIBRARY.glob("nn.sx"), *LIBRARY.glob("optim*.sx"), *LIBRARY.glob("nn/*.sx"), *LIBRARY.glob("optim/*.sx")]
)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(LIBRARY).with_suffix("").as_posix())
def test_a_standard_module_has_no_mistake(path: Path) -> None:
    diagnostics = Diagnostics()
    copy = str(path.with_name(f"copy of {path.name}"))  # beside it, where what it requires is
    run_deep(lambda: new_session(diagnostics).evaluate_text(path.read_text("utf-8"), copy))
    assert list(diagnostics) == []


@pytest.mark.parametrize(("run", "test"), [(":steps 4", "(= steps 4)"), (":epochs 2", "(equal (shape steps) nil)")])
def test_a_schedule_knows_the_steps_of_the_run(run: str, test: str, tmp_path: Path) -> None:
    schedule = f"(lambda (step) (let ((steps (run-steps))) (assert {test}) (* 0.1 (/ step steps))))"
    file = write(tmp_path, optimizer=f"(def optimizer (sgd :lr {schedule}))", run=f"(defrun {run})")
    with compiled(file) as done:
        assert done.diagnostics.errors == []


@pytest.mark.parametrize(("precision", "dtype", "rounded"), [(":f32", ":bf16", True), (":bf16", ":f32", False)])
def test_a_product_is_computed_as_the_form_around_it_says(
    precision: str, dtype: str, rounded: bool, tmp_path: Path
) -> None:
    model = (
        "(defmodel net () (defparam w (3 2) :init (normal 0.1))"
        f" (forward (x) (with-numerics (:dtype {dtype}) (matmul x w))))"
    )
    file = write(tmp_path, model=model, run=f"(defrun :steps 2 :precision {precision})")
    with compiled(file) as done:
        assert done.diagnostics.errors == []
        assert ("xbf16>" in str(done.module)) == rounded
