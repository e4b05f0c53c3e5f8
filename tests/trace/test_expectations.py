"""Numbers and shapes outside what a definition expects: refused at the caller's form, by the definition's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sexpgpu.diag import Diagnostic, Diagnostics, SxError
from sexpgpu.driver.compile import new_session
from sexpgpu.lang.builtin import show
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.session import Session
from tests.golden.tracing import Case, Outcome, outcomes
from tests.trace.experiments import compiled, text_of, write

OPTIMIZERS = (
    "sgd",
    "lion",
    "muon",
    "adam",
    "adamw",
    "rmsprop",
    "adagrad",
    "adadelta",
    "adafactor",
    "lamb",
    "schedule-free-adamw",
)

MADE: dict[str, tuple[str, ...]] = {
    "0 <= lr": tuple(f"({name} :lr -1e-3)" for name in OPTIMIZERS),
    "0 <= weight-decay": tuple(f"({name} :weight-decay -0.1)" for name in OPTIMIZERS),
    "0 <= momentum < 1": ("(sgd :momentum 1)", "(muon :momentum -0.1)", "(rmsprop :momentum 1.0)"),
    "0 <= dampening <= 1": ("(sgd :dampening 2)",),
    "0 <= beta1 < 1": ("(adam :beta1 1)", "(adamw :beta1 -1)", "(lion :beta1 1)", "(lamb :beta1 1.5)"),
    "0 < beta1 < 1": ("(schedule-free-adamw :beta1 0)",),
    "0 <= beta2 < 1": ("(adam :beta2 1)", "(adamw :beta2 99)", "(lion :beta2 1)", "(schedule-free-adamw :beta2 1)"),
    "0 <= eps": ("(adam :eps -1e-8)", "(adamw :eps -1)", "(layer-norm 4 :eps -1)", "(batch-norm 4 :eps -1)"),
    "0 <= eps1": ("(adafactor :eps1 -1)",),
    "0 <= alpha < 1": ("(rmsprop :alpha 1)",),
    "0 <= rho < 1": ("(adadelta :rho 1)",),
    "0 <= initial": ("(adagrad :initial -1)",),
    "0 <= lr-decay": ("(adagrad :lr-decay -1)",),
    "0 < decay": ("(adafactor :decay 0)",),
    "0 < clip <= infinity": ("(adafactor :clip 0)",),
    "0 <= decay <= 1": ("(ema 2 (adam))", "(ema -0.1 (adam))"),
    "an integer: 1 <= every <= 2147483647": ("(ema 0.9 (adam) :every 0)",),
    "an integer: 1 <= rounds": ("(muon :rounds 0)",),
    "0 <= peak": tuple(
        f"({name}-schedule -1.0)" for name in ("constant", "linear", "cosine", "wsd", "one-cycle", "inverse-sqrt")
    ),
    "0 <= final": ("(linear-schedule 1.0 :final -1)", "(cosine-schedule 1.0 :final -1)"),
    "0 <= start": ("(one-cycle-schedule 1.0 :start -1)",),
    "0 <= factor": ("(step-schedule 1.0 :every 2 :factor -0.1)",),
    "whole steps or a fraction of all: 0 <= warmup": (
        "(constant-schedule 1.0 :warmup -1)",
        "(cosine-schedule 1.0 :warmup -1)",
        "(linear-schedule 1.0 :warmup 1.5)",
        "(inverse-sqrt-schedule 1.0 :warmup -0.5)",
        "(one-cycle-schedule 1.0 :warmup 2.5)",
    ),
    "whole steps or a fraction of all: 0 < every": ("(step-schedule 1.0 :every 0)",),
    "whole steps or a fraction of all: 0 <= step": ("(step-schedule 1.0 :at '(2 -3))",),
    "whole steps or a fraction of all: 0 < decay": ("(wsd-schedule 1.0 :decay 0)",),
    "an integer: 1 <= steps": ("(cosine-schedule 1.0 :steps 0)",),
    "an integer: 1 <= width": (
        "(layer-norm 0)",
        "(rms-norm -1)",
        "(embedding 4 0)",
        "(attention 0 1)",
        "(gelu-mlp 0 4)",
        "(relu-mlp 0 4)",
        "(swiglu-mlp 0 4)",
        "(moe 0 4)",
        "(ssm 0 4)",
    ),
    "an integer: 1 <= hidden": (
        "(rnn 3 0)",
        "(lstm 3 0)",
        "(gru 3 0)",
        "(min-gru 3 0)",
        "(transformer-block 4 2 :hidden 0)",
    ),
    "an integer: 1 <= in": ("(linear 0 4)", "(conv1d 0 4 :kernel 3)", "(conv2d -1 4 :kernel 3)"),
    "an integer: 1 <= groups": ("(group-norm 0 4)", "(conv1d 4 4 :kernel 3 :groups 0)"),
    "an integer: 1 <= channels": ("(batch-norm 0)",),
    "0 <= momentum <= 1": ("(batch-norm 4 :momentum 1.5)",),
    "an integer: 1 <= kv-heads": ("(attention 8 4 :kv-heads 0)", "(causal-attention 8 4 :kv-heads -1)"),
    "an integer: 1 <= window": ("(attention 8 4 :window 0)",),
    "0 <= dropout < 1": ("(attention 8 4 :dropout 1)", "(transformer-block 8 4 :dropout 20)"),
    "an integer: 1 <= top-k <= experts (4)": ("(moe 8 8 :experts 4 :top-k 5)", "(moe 8 8 :experts 4 :top-k 0)"),
    "0 <= std": ("(normal -1)", "(truncated-normal -0.5)"),
    "low <= high (0)": ("(uniform 1 0)",),
    "0 < fan-in": ("(fan-in-uniform 0)",),
}
"""The domain that is told, and calls outside of it."""

OTHER_KINDS: dict[str, tuple[str, str]] = {
    "(ema (adam) 0.9)": ("E-ARG-010", "`ema`: decay must be a number or a schedule"),
    "(ema 0.9 0.99)": ("E-OPT-001", "`ema`: inner must be an optimizer"),
    "(adamw :weight-decay nil)": ("E-ARG-010", "`adamw`: weight-decay must be a number or a schedule"),
    "(layer-norm 4.0)": ("E-ARG-010", "`layer-norm`: width must be an integer"),
    "(layer-norm 4 :eps '(1))": ("E-ARG-010", "`layer-norm`: eps must be a number"),
    "(cosine-schedule (adam))": ("E-ARG-010", "`cosine-schedule`: peak must be a number"),
    "(transformer-block 8 2 :norm :batch)": ("E-ARG-011", "`transformer-block`: norm cannot be :batch"),
    "(transformer-block 8 2 :mlp :glu)": ("E-ARG-011", "`transformer-block`: mlp cannot be :glu"),
    "(muon :scale :orignal)": ("E-ARG-011", "`muon`: scale cannot be :orignal"),
    "(wsd-schedule 1.0 :shape :square)": ("E-ARG-011", "`wsd-schedule`: shape cannot be :square"),
}

INPUTS: dict[str, NDArray[Any]] = {"x": np.ones((4, 3)), "i": np.array([0, 1, 1, 0], np.int32)}

TRACED: tuple[tuple[str, str, str], ...] = (
    ("E-VALUE-012", "(cross-entropy x i :label-smoothing 1.5)", "0 <= label-smoothing <= 1"),
    ("E-VALUE-012", "(cross-entropy x i :z-loss -1)", "0 <= z-loss"),
    ("E-VALUE-012", "(cross-entropy x i :weights '(1 -2 1))", "0 <= weight"),
    ("E-SHAPE-047", "(cross-entropy x i :weights '(1 2))", "[classes = 3]"),
    ("E-SHAPE-047", "(cross-entropy x i :weights (ones '(4)))", "[classes = 3]"),
    ("E-VALUE-012", "(pad (cast i :u8) '((1 1)) :value -1)", "0 to 255"),
    ("E-VALUE-012", "(pad (> i 0) '((1 1)) :value 2)", "0 to 1"),
    ("E-VALUE-012", "(huber x x :delta 0)", "0 < delta <= infinity"),
    ("E-VALUE-012", "(bits-per-byte (mean x) 0)", "0 < bytes-per-token"),
    ("E-VALUE-012", "(next-token x :temperature -1)", "0 <= temperature"),
    ("E-VALUE-012", "(next-token x :top-k 0)", "an integer: 1 <= top-k"),
    ("E-VALUE-012", "(next-token x :top-p 0)", "0 < top-p <= 1"),
    ("E-VALUE-012", "(next-token x :top-p 1.5)", "0 < top-p <= 1"),
)

LAYERS: tuple[tuple[str, str, str], ...] = (
    ("(layer-norm 4)", "(layer x)", "[..., width = 4]"),
    ("(layer-norm 1)", "(layer x)", "[..., width = 1]"),
    ("(rms-norm 1)", "(layer x)", "[..., width = 1]"),
    ("(group-norm 1 6)", "(layer x)", "[any, channels = 6, ...]"),
    ("(batch-norm 1)", "(layer x)", "[any, channels = 1, ...]"),
    ("(attention 8 2)", "(layer (unsqueeze x 1))", "[any, any, width = 8]"),
    ("(moe 6 8)", "(layer (unsqueeze x 1))", "[..., width = 6]"),
    ("(ssm 4 2)", "(layer (unsqueeze x 1))", "[any, any, width = 4]"),
    ("(gru 3 5)", "(layer x)", "[any, any, in = 3]"),
    ("(rnn 2 5)", "(layer (unsqueeze x 1))", "[any, any, in = 2]"),
    ("(lstm 2 5)", "(layer (unsqueeze x 1))", "[any, any, in = 2]"),
    ("(min-gru 2 5)", "(layer (unsqueeze x 1))", "[any, any, in = 2]"),
    ("(rnn 3 5)", "(layer (unsqueeze x 1) (zeros '(4 4)))", "[4, hidden = 5]"),
    ("(gru 3 5)", "(layer (unsqueeze x 1) (zeros '(1 5)))", "[4, hidden = 5]"),
    ("(min-gru 3 5)", "(layer (unsqueeze x 1) (zeros '(4 1)))", "[4, hidden = 5]"),
    ("(lstm 3 5)", "(layer (unsqueeze x 1) (list (zeros '(4 5)) (zeros '(4 1))))", "[4, hidden = 5]"),
)
"""A layer, a call of it, and the shape that is told."""


@pytest.fixture(scope="module")
def session() -> Session:
    made = new_session(Diagnostics())
    made.evaluate_text('(require "sexpgpu/nn") (require "sexpgpu/optim")', "modules.sx")
    return made


def refused(session: Session, form: str) -> Diagnostic:
    """The one error of a form."""
    before = len(session.diagnostics.errors)
    session.evaluate_text(form, "form.sx")
    (found,) = session.diagnostics.errors[before:]
    assert found.span is not None
    assert found.span.file == "form.sx"
    return found


@pytest.mark.parametrize(("domain", "form"), [(domain, form) for domain, forms in MADE.items() for form in forms])
def test_a_number_outside_its_domain_is_refused_where_it_is_given(session: Session, domain: str, form: str) -> None:
    found = refused(session, form)
    name = form[1:].partition(" ")[0].replace("causal-", "")
    variable = next(word for word in domain.split(": ")[-1].split() if word[0].isalpha())
    assert (found.code, found.message) == ("E-VALUE-012", f"`{name}`: {variable} is outside its domain")
    assert found.expected == domain
    assert found.actual is not None
    assert found.actual in form.replace("1e-3", "0.001").replace("1e-8", "1.0e-8")


@pytest.mark.parametrize(("form", "told"), OTHER_KINDS.items())
def test_an_argument_of_another_kind_is_refused(session: Session, form: str, told: tuple[str, str]) -> None:
    found = refused(session, form)
    assert (found.code, found.message) == told


def test_not_a_number_is_in_no_domain_and_an_infinite_one_only_where_it_is_said(session: Session) -> None:
    assert refused(session, "(adam :lr (- infinity infinity))").expected == "0 <= lr"
    assert refused(session, "(adam :lr infinity)").expected == "0 <= lr"
    before = len(session.diagnostics.errors)
    session.evaluate_text("(adafactor :clip infinity)", "form.sx")
    assert session.diagnostics.errors[before:] == []


@pytest.mark.parametrize(
    "form",
    [
        "(adam :lr 0 :beta1 0 :beta2 0 :eps 0 :weight-decay 0)",
        "(sgd :lr (cosine-schedule 1/2 :warmup 0.5) :momentum (lambda (step) step))",
        "(adafactor :beta1 nil :clip 2)",
        '(ema 1 (optimizer-groups (adam) (group "*" :lr 1)) :every 1)',
        "(step-schedule 1 :at '(0 0.5 2))",
        "(attention 8 2 :window nil :kv-heads nil :dropout 0)",
        "(uniform 1 1)",
    ],
)
def test_the_ends_of_a_domain_schedules_and_what_may_be_left_out_are_taken(session: Session, form: str) -> None:
    before = len(session.diagnostics.errors)
    session.evaluate_text(form, "form.sx")
    assert session.diagnostics.errors[before:] == []


@pytest.fixture(scope="module")
def traced() -> dict[str, Outcome | Exception]:
    return outcomes([Case(form, form, INPUTS) for _, form, _ in TRACED])


@pytest.mark.parametrize(("code", "form", "expected"), TRACED)
def test_a_traced_function_refuses_what_it_does_not_expect(
    code: str, form: str, expected: str, traced: dict[str, Outcome | Exception]
) -> None:
    fault = traced[form]
    assert isinstance(fault, SxError), fault
    assert (fault.diagnostic.code, fault.diagnostic.expected) == (code, expected)
    assert fault.diagnostic.message.startswith(f"`{form[1:].partition(' ')[0]}`")


def model_of(layer: str, call: str) -> str:
    return (
        f"(defmodel net () (defsub layer {layer}) (defsub out (linear width 2))"
        f" (forward (x) (+ (out x) (* 0.0 (mean {call})))))"
    )


def faults(file: Path) -> list[Diagnostic]:
    def look() -> list[Diagnostic]:
        with compiled(file) as done:
            return done.diagnostics.errors

    return run_deep(look)


@pytest.mark.parametrize(("layer", "call", "expected"), LAYERS)
def test_a_layer_names_itself_and_the_shape_it_takes(layer: str, call: str, expected: str, tmp_path: Path) -> None:
    file = write(tmp_path, model=model_of(layer, call))
    (found,) = faults(file)
    assert (found.code, found.expected) == ("E-SHAPE-047", expected)
    assert found.message.startswith(f"`{layer[1:].partition(' ')[0]}` cannot take ")
    assert found.span is not None
    assert file.read_text("utf-8").splitlines()[found.span.line - 1][found.span.col - 1 :].startswith(call)


def test_the_state_of_an_lstm_is_two_tensors(tmp_path: Path) -> None:
    (found,) = faults(write(tmp_path, model=model_of("(lstm 3 5)", "(layer (unsqueeze x 1) (zeros '(4 5)))")))
    assert found.message == "lstm: the state is a list (h c), not #<tensor f32[4, 5]>"


def test_batch_norm_trains_on_two_values_a_channel_or_more(tmp_path: Path) -> None:
    one, two = (model_of("(batch-norm 3)", f"(layer (slice x 0 0 {n}))") for n in (1, 2))
    (found,) = faults(write(tmp_path, model=one))
    assert "batch-norm: training needs two values of each channel" in found.message
    assert faults(write(tmp_path, model=two)) == []
    evaluated = model_of("(batch-norm 3)", "(if (training-p) (layer x) (layer (slice x 0 0 1)))")
    assert faults(write(tmp_path, model=evaluated)) == []


@pytest.mark.parametrize(
    ("schedule", "fits"),
    [
        ("(wsd-schedule 1 :warmup 3 :decay 2)", False),
        ("(wsd-schedule 1 :warmup 2 :decay 2)", True),
        ("(wsd-schedule 1 :decay 5)", False),
        ("(wsd-schedule 1 :warmup 4 :decay 2)", True),
        ("(wsd-schedule 1 :warmup 0.75 :decay 0.5)", False),
    ],
)
def test_the_stages_of_a_wsd_schedule_do_not_overlap(schedule: str, fits: bool, tmp_path: Path) -> None:
    found = faults(write(tmp_path, optimizer=f"(def optimizer (sgd :lr {schedule}))"))
    assert [(d.code, d.message) for d in found] == (
        [] if fits else [("E-VALUE-012", "`wsd-schedule`: decay is outside its domain")]
    )


def test_the_arguments_of_ema_in_the_other_order_are_told_with_the_right_one(tmp_path: Path) -> None:
    (found,) = faults(write(tmp_path, optimizer="(def optimizer (ema (adam) 0.9))"))
    assert found.help == "`0.9` comes first"
    assert [edit.text for edit in found.fix] == ["0.9", "(adam)"]


def test_the_base_of_a_rotation_is_a_positive_number(tmp_path: Path) -> None:
    (found,) = faults(write(tmp_path, model=model_of("(attention 4 2 :rope 0)", "(layer (zeros '(4 1 4)))")))
    assert (found.message, found.expected) == ("`attention`: rope is outside its domain", "0 < rope")


def test_a_group_overrides_within_the_domain(tmp_path: Path) -> None:
    groups = '(def optimizer (optimizer-groups (adam) (group "*weight" :lr -1)))'
    (found,) = faults(write(tmp_path, optimizer=groups))
    assert found.message == "`adam`: lr is outside its domain"
    assert found.span is not None
    assert text_of(optimizer=groups).splitlines()[found.span.line - 1][found.span.col - 1 :].startswith("-1)")


def test_a_definition_of_the_users_own_can_expect(session: Session) -> None:
    session.evaluate_text("(defun warmed (n &key (share 1/2)) (expect (integer 1 <= n) (0 < share < 1)) n)", "own.sx")
    assert refused(session, "(warmed 0)").expected == "an integer: 1 <= n"
    assert refused(session, "(warmed 2 :share 1)").message == "`warmed`: share is outside its domain"
    assert refused(session, '(warmed "2")').help == "(warmed n &key (share 1/2))"


@pytest.mark.parametrize("form", ["(expect 3)", "(expect (0 <= 1))", "(expect (0 <= x < 1 < 2))", "(expect-shape x)"])
def test_a_clause_that_says_nothing_is_refused(session: Session, form: str) -> None:
    assert refused(session, f"(let ((x 1)) {form} x)").code == "E-MACRO-001"


def test_a_group_selects_parameters(session: Session) -> None:
    for selector in ("3", "nil", '\'("*.bias" 3)'):
        found = refused(session, f"(group {selector} :lr 1.0)")
        assert found.code == "E-ARG-010"
        assert found.message.startswith("`group`: ")
    assert refused(session, "(defmodel m () (forward (x) x)) (parameters (m) 3)").message.startswith("`parameters`: 3 ")


EASY = "(x (records xs :to 4)) (y (records ys :to 4))"
STAGED = f"(defloader train-loader (:batch 2) (stage easy {EASY}) (stage all (x xs) (y ys)))"


@pytest.mark.parametrize(
    ("metric", "help", "fix"),
    [
        (":val/lsos", "there is no :val/lsos: did you mean :val/loss?", [":val/loss"]),
        (":accuracy", "there is no :accuracy; there are :val/loss", []),
    ],
)
def test_a_misspelt_metric_is_told_with_those_there_are(metric: str, help: str, fix: list[str], tmp_path: Path) -> None:
    curriculum = f"(defun curriculum (ctx) (where (< (getf (getf ctx :metrics) {metric}) 2.0) 1 0))"
    passes = "(defloader val-loader (:batch 4) (x xs) (y ys)) (defeval val (:loader val-loader :every 2))"
    (found,) = faults(write(tmp_path, loader=STAGED, eval=f"{passes} {curriculum}"))
    assert (found.help, [edit.text for edit in found.fix]) == (help, fix)


@pytest.mark.parametrize("clip", ["0", "-1.0", "(- infinity infinity)"])
def test_a_norm_is_clipped_to_more_than_nothing(clip: str, tmp_path: Path) -> None:
    (found,) = faults(write(tmp_path, run=f"(defrun :steps 3 :clip-norm {clip})"))
    assert found.code == "E-RUN-012"


def test_a_generator_makes_no_negative_number_of_trips(tmp_path: Path) -> None:
    clauses = "(:init (ctx) (zeros '(2))) (:trip (s i ctx) s) (:emit (s) (sample 'x s))"
    (found,) = faults(write(tmp_path, eval=f"(defgenerator g (:trips -1) {clauses})"))
    assert found.message == "`defgenerator`: :trips cannot be negative"


def test_the_fields_of_an_f64_run_are_as_wide_as_it_is(tmp_path: Path) -> None:
    prepare = (
        "(defun prepare (batch) (let ((x (field batch 'x))) (assert (eq (dtype x) {})) (values x (field batch 'y))))"
    )
    f64 = {"run": "(defrun :steps 2 :precision :f64)"}
    assert faults(write(tmp_path, prepare=prepare.format(":f64"), **f64)) == []
    assert faults(write(tmp_path, prepare=prepare.format(":f32"))) == []
    declared = '(def xs (npy "x.npy" :dtype :f32)) (def ys (npy "y.npy"))'
    assert faults(write(tmp_path, data=declared, prepare=prepare.format(":f64"), **f64)) == []


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("(let ((n 2)) (repeat (* n 2) 7))", "(7 7 7 7)"),
        ("(repeat (i 3) i)", "(0 1 2)"),
        ("(repeat 0 (car 3))", "nil"),
        ("(repeat (list 2) list)", "(0 1)"),
    ],
)
def test_a_count_may_be_a_form(session: Session, form: str, value: str) -> None:
    (result,) = session.evaluate_text(form, "form.sx")
    assert [show(given) for given in result.values] == [value]


def test_a_count_that_would_bind_a_function_is_refused(session: Session) -> None:
    assert refused(session, "(let ((n 2)) (repeat (1+ n) 7))").message.startswith("repeat: (1+ n) binds the name of a ")
