"""What optimizers are made of: states, contexts, optimizers within optimizers, views, groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.explain import explain
from sexpgpu.experiment import Experiment
from sexpgpu.lang.limits import run_deep
from tests.optim.following import NAMES, STEPS, Array, experiment, followed, steps_of
from tests.trace.experiments import compiled, prepared

RUN = ":steps 4 :seed 11"


def compiled_experiment(folder: Path, optimizer: str) -> Experiment:
    def work() -> Experiment:
        with prepared(experiment(folder, optimizer, RUN)) as done:
            assert done.diagnostics.errors == []
            return CpuEngine(done).experiment

    return run_deep(work)


def reported(folder: Path, optimizer: str) -> list[tuple[str, str]]:
    """Codes and messages about an experiment with that optimizer."""

    def work() -> list[tuple[str, str]]:
        with compiled(experiment(folder, optimizer, RUN)) as done:
            return [(d.code, d.message) for d in done.diagnostics]

    return run_deep(work)


def last(folder: Path, optimizer: str, name: str = "tall") -> tuple[Array, Array]:
    """A parameter after the last step, and what evaluation sees of it."""
    trained, seen, _ = followed(folder, optimizer, RUN)[-1]
    return trained[f"model.{name}"], seen[f"model.{name}"]


def defined(body: str, optimizer: str) -> str:
    """`optimizer`, behind a definition."""
    return f"(progn {body} {optimizer})"


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (":like param", lambda p: 0 * p),
        (":like param :init param", lambda p: p),
        (":like param :init (* 2 param)", lambda p: 2 * p),
        (":like param :init 0.5", lambda p: 0 * p + 0.5),
        (":shape '() :init (mean param)", np.mean),
        (":shape (last (shape param)) :init (ones (last (shape param)))", lambda p: np.ones(p.shape[-1:])),
        (":shape '() :dtype :i32 :init 3", lambda p: 3),
        (":like param :init 1/4", lambda p: 0 * p + 0.25),
    ],
)
def test_a_state_has_the_shape_and_the_first_value_that_it_says(options: str, first: object, tmp_path: Path) -> None:
    assert callable(first)
    optimizer = defined(
        f"(defoptimizer mine () (defstate s {options}) (optimizer-update (param grad ctx)"
        " (prog1 (+ param (cast s :float)) (set-state s (* 0 s)))))",
        '(optimizer-groups (sgd :lr 0.0) (group \'("*.tall" "*.wide") (mine)))',
    )
    for name in ("tall", "wide"):
        start = STEPS[f"init {name}"]
        np.testing.assert_array_equal(last(tmp_path, optimizer, name)[0], start + first(start))


def test_a_state_may_depend_on_the_rank_and_its_name_means_the_new_value(tmp_path: Path) -> None:
    optimizer = defined(
        "(defoptimizer mine () (defstate s :like param :when (> (rank param) 1)) (optimizer-update (param grad ctx)"
        " (if (> (rank param) 1) (progn (set-state s (+ s 1)) (+ param s)) param)))",
        "(mine)",
    )
    made = compiled_experiment(tmp_path, optimizer)
    assert {state.param for state in made.states} == {"model.tall", "model.wide", "model.kernel"}
    np.testing.assert_allclose(last(tmp_path, optimizer)[0], STEPS["init tall"] + 1 + 2 + 3 + 4)
    np.testing.assert_array_equal(last(tmp_path, optimizer, "vector")[0], STEPS["init vector"])


def test_what_the_context_tells(tmp_path: Path) -> None:
    series = {
        "(getf ctx :step)": [0, 1, 2, 3],
        "(getf ctx :steps)": [4, 4, 4, 4],
        "(getf ctx :progress)": [0, 0.25, 0.5, 0.75],
        "(getf ctx :seed)": [11, 11, 11, 11],
        "(getf ctx :epoch)": [0, 0, 0, 0],
        "(getf ctx :stage)": [0, 0, 0, 0],
    }
    for form, wanted in series.items():
        body = f"(defoptimizer mine () (optimizer-update (param grad ctx) (+ (* 0.0 param) (cast {form} :float))))"
        found = [step[0]["model.scalar"] for step in followed(tmp_path, defined(body, "(mine)"), RUN)]
        assert found == wanted, form
    for name, metric in (("grad-norm", "optim/grad_norm"), ("loss", "train/loss")):
        body = f"(defoptimizer mine () (optimizer-update (param grad ctx) (+ (* 0.0 param) (getf ctx :{name}))))"
        for params, _, metrics in followed(tmp_path, defined(body, "(mine)"), RUN):
            assert params["model.scalar"] == metrics[metric]


def test_a_parameter_of_another_precision_is_updated_in_its_own(tmp_path: Path) -> None:
    """f32 among f64: the step sizes, schedules and corrections of its update are f32 too."""
    optimizer = "(ema 0.9 (adamw :lr (cosine-schedule 0.1 :warmup 2)))"
    wanted = last(tmp_path, optimizer)
    file = experiment(tmp_path, optimizer, RUN)
    text = file.read_text("utf-8").replace("(defparam tall (4 3)", "(defparam tall (4 3) :dtype :f32")
    file.write_text(text.replace("(sum (* tall g-tall))", "(sum (* (cast tall :f64) g-tall))"), "utf-8")
    trained, seen, _ = steps_of(file)[-1]
    for found, exact in zip((trained["model.tall"], seen["model.tall"]), wanted, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, exact, rtol=1e-5)
    assert trained["model.wide"].dtype == np.float64


def test_a_file_may_define_an_optimizer_of_a_librarys_name(tmp_path: Path) -> None:
    """The `ema` of the DDPM program, as it stands there, does what the library's does."""
    own = """(defoptimizer ema (decay inner)
  (defstate shadow :like param :init param)
  (optimizer-update (param grad ctx)
    (let ((next (inner-update inner param grad ctx)))
      (set-state shadow (lerp shadow next (- 1 decay)))
      next))
  (optimizer-view (param ctx) shadow))"""
    use = "(ema 0.9 (adam :lr (constant-schedule 0.1 :warmup 500)))"
    text = defined(own, use)
    assert reported(tmp_path, text) == [("W-NAME-001", "`ema` shadows that of sexpgpu/optim")]
    made = compiled_experiment(tmp_path, text)
    names = {state.name for state in made.states if state.param == "model.tall"}
    assert names == {f"model.tall/{name}" for name in ("shadow", "inner.m", "inner.v")}
    mine, librarys = last(tmp_path, text), last(tmp_path, use)
    assert np.array_equal(mine[0], librarys[0])
    assert np.array_equal(mine[1], librarys[1])
    assert not np.array_equal(*mine)


def test_optimizers_nest(tmp_path: Path) -> None:
    optimizer = "(ema 0.5 (ema 0.9 (schedule-free-adamw :lr 0.1)))"
    made = compiled_experiment(tmp_path, optimizer)
    names = [state.name for state in made.states if state.param == "model.vector"]
    wanted = ["shadow", "inner.shadow", "inner.inner.z", "inner.inner.v", "inner.inner.weight"]
    assert names == [f"model.vector/{name}" for name in wanted]
    assert made.groups[0].optimizer == "ema of ema of schedule-free-adamw"
    assert np.array_equal(last(tmp_path, optimizer)[0], last(tmp_path, "(schedule-free-adamw :lr 0.1)")[0])
    assert np.array_equal(last(tmp_path, optimizer)[1], last(tmp_path, "(ema 0.5 (schedule-free-adamw :lr 0.1))")[1])


SCALED = """(defoptimizer scaled (inner &key (by 1.0))
  (optimizer-update (param grad ctx) (inner-update inner param (* by grad) ctx)))"""


def test_a_wrapper_without_a_view_shows_that_of_what_it_wraps(tmp_path: Path) -> None:
    wrapped = last(tmp_path, defined(SCALED, "(scaled (ema 0.9 (sgd)) :by 1.0)"))
    plain = last(tmp_path, "(ema 0.9 (sgd))")
    assert np.array_equal(wrapped[0], plain[0])
    assert np.array_equal(wrapped[1], plain[1])
    assert not np.array_equal(wrapped[0], wrapped[1])


def test_one_optimizer_given_twice_keeps_two_sets_of_states(tmp_path: Path) -> None:
    both = """(defoptimizer halves (left right)
  (optimizer-update (param grad ctx)
    (* 0.5 (+ (inner-update left param grad ctx) (inner-update right param grad ctx)))))"""
    optimizer = defined(both, "(let ((one (sgd :momentum 0.9))) (halves one one))")
    assert compiled_experiment(tmp_path, optimizer).groups[0].states == ("left.velocity", "right.velocity")
    np.testing.assert_allclose(last(tmp_path, optimizer)[0], last(tmp_path, "(sgd :momentum 0.9)")[0], rtol=1e-12)


def test_an_override_that_a_wrapper_does_not_know_is_for_what_it_wraps(tmp_path: Path) -> None:
    text = '(optimizer-groups (ema 0.5 (sgd :lr 0.2) :every 3) (group "*.tall" :lr 0.1 :every 2))'
    for name, plain in (("tall", "(ema 0.5 (sgd :lr 0.1) :every 2)"), ("wide", "(ema 0.5 (sgd :lr 0.2) :every 3)")):
        found, wanted = last(tmp_path, text, name), last(tmp_path, plain, name)
        assert np.array_equal(found[0], wanted[0])
        assert np.array_equal(found[1], wanted[1])
    ((code, message),) = reported(tmp_path, '(optimizer-groups (ema 0.5 (sgd)) (group "*.tall" :rate 0.1))')
    assert code == "E-ARG-002"
    assert ":rate" in message


def test_a_wrapper_around_groups_is_groups_of_wrappers(tmp_path: Path) -> None:
    text = (
        '(ema 0.5 (optimizer-groups (adam :lr 0.2) (group "*.tall" (sgd :lr 0.1)) (group "*.wide" :lr 0.3)) :every 2)'
    )
    plain = {"tall": "(sgd :lr 0.1)", "wide": "(adam :lr 0.3)", "vector": "(adam :lr 0.2)"}
    for name, inner in plain.items():
        found, wanted = last(tmp_path, text, name), last(tmp_path, f"(ema 0.5 {inner} :every 2)", name)
        assert np.array_equal(found[0], wanted[0])
        assert np.array_equal(found[1], wanted[1])
    made = compiled_experiment(tmp_path, text)
    assert [g.optimizer for g in made.groups] == ["ema of sgd", "ema of adam", "ema of adam"]
    ((code, _),) = reported(tmp_path, '(ema 0.5 (optimizer-groups (sgd) (group "*.tall" :rate 1)))')
    assert code == "E-ARG-002"


def test_one_graph_for_a_type_and_group(tmp_path: Path) -> None:
    made = compiled_experiment(tmp_path, '(optimizer-groups (ema 0.9 (adam)) (group "*.tall" (sgd)))')
    kinds = {p.path: p.type for p in made.parameters}
    assert sorted(u.params for u in made.updates) == sorted((path,) for path in kinds)
    assert len({u.graph for u in made.updates}) == len(NAMES)
    assert set(made.views) == set(kinds) - {"model.tall"}
    initial = [name for name in made.graphs if name.startswith("init state ")]
    assert len(initial) == len(NAMES) - 1


def test_explain_shows_the_states_of_what_is_wrapped(tmp_path: Path) -> None:
    def work() -> list[dict[str, object]]:
        optimizer = '(optimizer-groups (ema 0.9 (adafactor)) (group "*.vector" (muon-like)))'
        text = "(defoptimizer muon-like () (optimizer-update (param grad ctx) param))"
        with compiled(experiment(tmp_path, defined(text, optimizer), RUN)) as done:
            groups: list[dict[str, object]] = explain(done)["groups"]
            return groups

    vector, default = run_deep(work)
    assert (vector["optimizer"], vector["states"], vector["state_elements"]) == ("muon-like", [], 0)
    assert default["optimizer"] == "ema of adafactor"
    assert default["states"] == ["shadow", "inner.v", "inner.row", "inner.column"]
    sizes = {"scalar": 1 + 1, "tall": 12 + 4 + 3, "wide": 8 + 2 + 4, "kernel": 24 + 12 + 12}
    assert default["state_elements"] == sum(sizes.values())


@pytest.mark.parametrize(
    ("optimizer", "code", "message"),
    [
        ("(sgd :nesterov t)", "E-VALUE-005", "sgd: :nesterov needs a :momentum, and no :dampening"),
        ("(muon)", "E-OPT-011", "`muon` updates matrices, and this parameter is none"),
        ("(sgd :lr (step-schedule 0.1))", "E-VALUE-005", "step-schedule: say either :every n or :at '(n ...)"),
        ("(sgd :lr (step-schedule 0.1 :every 2 :at '(1)))", "E-VALUE-005", "step-schedule: say either"),
        (
            "(sgd :lr (constant-schedule 0.1 :warmup 1.5))",
            "E-VALUE-012",
            "`constant-schedule`: warmup is outside its domain",
        ),
        ("(ema 0.9 (sgd) 3)", "E-ARG-003", ""),
        (
            defined("(defoptimizer mine () (optimizer-updat (p g ctx) p))", "(mine)"),
            "E-VALUE-005",
            "(defoptimizer mine",
        ),
        (
            '(optimizer-groups (sgd) (group "*.kernel" :lr 1.0) (group "*.tall" :lr 1.0)'
            "\n  (group (lambda (p) (= (rank p) 2)) :lr 2.0))",
            "E-OPT-002",
            "two groups claim parameter `model.tall`",
        ),
    ],
)
def test_what_cannot_be_is_said(optimizer: str, code: str, message: str, tmp_path: Path) -> None:
    found = [(c, m) for c, m in reported(tmp_path, optimizer) if c.startswith("E-")]
    assert code in {c for c, _ in found}
    assert any(m.startswith(message) for _, m in found), found


def test_an_error_of_an_update_names_the_parameter(tmp_path: Path) -> None:
    def work() -> None:
        for optimizer in (
            "(muon)",
            defined("(defoptimizer mine () (optimizer-update (p g ctx) (transpose p)))", "(mine)"),
        ):
            with compiled(experiment(tmp_path, optimizer, RUN)) as done:
                found = done.diagnostics.errors[0]
            assert [n.text for n in found.notes if n.text.startswith("the parameter is model.")], found
        with compiled(experiment(tmp_path, "(muon)", RUN)) as done:
            found = done.diagnostics.errors[0]
        assert (found.expected, found.actual) == ("a parameter of rank 2 or more", "f64[]")
        assert found.help == "(optimizer-groups (muon) (group (lambda (p) (< (rank p) 2)) (adamw)))"

    run_deep(work)


def test_muon_beside_an_optimizer_of_vectors_as_the_help_has_it(tmp_path: Path) -> None:
    text = "(optimizer-groups (muon) (group (lambda (p) (< (rank p) 2)) (adamw)))"
    assert reported(tmp_path, text) == []


def test_the_group_that_claims_too_much_is_shown(tmp_path: Path) -> None:
    text = '(optimizer-groups (sgd)\n(group "*.kernel" :lr 1.0)\n(group "*.tall" :lr 1.0)\n(group "*.t*" :lr 2.0))'

    def work() -> tuple[str | None, int]:
        file = experiment(tmp_path, text, RUN)
        with compiled(file) as done:
            (fault,) = done.diagnostics.errors
            assert fault.span is not None
            line = file.read_text().splitlines()[fault.span.line - 1]
            return fault.actual, line.count('"*.t*"')

    assert run_deep(work) == ("*.tall and *.t*", 1)


def test_a_selector_may_list_parameters_themselves(tmp_path: Path) -> None:
    text = '(optimizer-groups (sgd) (group (list (cadr (parameters model)) "*.kernel") :lr 0.0))'
    trained, _, _ = followed(tmp_path, text, RUN)[-1]
    kept = {name for name in NAMES if np.array_equal(trained[f"model.{name}"], STEPS[f"init {name}"])}
    assert kept == {"vector", "kernel"}


def test_a_group_of_nothing_is_a_warning(tmp_path: Path) -> None:
    found = reported(tmp_path, '(optimizer-groups (sgd) (group "*.encoder" :lr 0.0))')
    assert found == [("W-OPT-001", "optimizer group `*.encoder` has no members")]
