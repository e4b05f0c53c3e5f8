"""The names that the language promises, and the documentation of each.

`CHAPTERS` is our own copy of the tables of the language's design: a name once promised stays. What is added here is
checked by test_surface.py with no more said: each name exists, is documented with shapes, dtypes, errors and source,
and is used by a golden, or by the test that `USED_IN` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

from sexpgpu.lang.forms import Cons, Source, Symbol
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.reader import read_text
from sexpgpu.trace.builtins import LIBRARIES
from sexpgpu.trace.builtins.meanings import MEANINGS
from tests.docs.blocks import ROOT

LIBRARY = ROOT / "sexpgpu" / "library"
DEFINING = (LIBRARY / "forms.sx", LIBRARY / "losses.sx")
MODULE_FILES = (LIBRARY / "optim.sx", *sorted((LIBRARY / "nn").glob("*.sx")))


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CHAPTERS: dict[str, tuple[str, ...]] = {
    "Making": _names("zeros ones full arange eye one-hot constant"),
    "Random": _names("random-uniform random-normal random-integer dropout random-shift random-crop random-flip"),
    "Shape": _names(
        "reshape transpose broadcast-to squeeze unsqueeze concat stack split slice pad flip tile repeat-axis"
    ),
    "Elementwise": _names(
        "+ - * / expt sqrt rsqrt exp log log1p expm1 sin cos tanh sigmoid erf abs sign floor ceiling round min max"
        " clip lerp where relu gelu silu softplus = /= < <= > >= logical-and logical-or logical-not cast isfinite"
    ),
    "Reductions": _names("sum mean amax amin prod var logsumexp softmax log-softmax cumsum argmax argmin any all"),
    "Products": _names("matmul einsum outer conv pool-max pool-avg attend"),
    "Indexing": _names("gather take-along-axis scatter-add embed top-k sort index-update tril triu causal-mask"),
    "Control": _names("scan associative-scan stop-gradient checkpoint grad"),
    "Losses": _names("cross-entropy mse huber bce kl accuracy perplexity bits-per-byte"),
    "Observation": _names("metric sample step-sum step-mean"),
}
"""The tables of tensor operations."""

BESIDE: dict[str, tuple[str, ...]] = {
    "Shape": _names("shape dim rank size dtype reverse length"),
    "Elementwise": _names("1+ 1- mod signum square"),
    "Indexing": ("stable-sort",),
    "Observation": _names("training-p counter field"),
}
"""What there is besides, listed on the same page."""

USED_IN: dict[str, str] = dict.fromkeys(CHAPTERS["Random"], "tests/trace/test_random.py") | {
    "metric": "tests/trace/test_metrics.py",
    "sample": "tests/cli/test_generate.py",
    "step-sum": "tests/trace/test_accumulation.py",
    "step-mean": "tests/trace/test_accumulation.py",
}
"""Tests of values, for the names that no golden can have."""

MODULES: dict[str, tuple[str, ...]] = {
    "Models": _names(
        "defmodel defparam defbuffer defsub forward repeat parameters part frozen parameter-path set-buffer"
    ),
    "Initializers": _names(
        "zeros-init ones-init constant-init normal uniform truncated-normal xavier-uniform xavier-normal"
        " kaiming-uniform kaiming-normal orthogonal fan-in-uniform init-by"
    ),
    "Layers": _names(
        "linear embedding layer-norm rms-norm batch-norm group-norm conv1d conv2d attention causal-attention gelu-mlp"
        " relu-mlp swiglu-mlp transformer-block lstm gru min-gru rnn ssm moe"
    ),
    "Optimizers": _names("sgd adam adamw rmsprop adagrad adadelta adafactor lion muon lamb schedule-free-adamw ema"),
    "Schedules": _names(
        "constant-schedule linear-schedule cosine-schedule step-schedule wsd-schedule one-cycle-schedule"
        " inverse-sqrt-schedule"
    ),
    "Forms": _names(
        "defoptimizer defstate optimizer-update optimizer-view set-state optimizer-groups group inner-update run-steps"
        " with-numerics defrun defeval defgenerator next-token"
    ),
}
"""The tables of models, optimizers, precision, runs and generators."""

_EXPECTED = "E-VALUE-012, E-ARG-010, E-ARG-011 what the definition does not expect"
STATED: dict[str, dict[str, str]] = {
    "Models": {"Shapes": "as declared", "Dtypes": "as declared"},
    "Initializers": {
        "Shapes": "a shape -> a tensor of it",
        "Dtypes": "the run's float",
        "Errors": f"{_EXPECTED}; E-PARAM-008 a tensor of another shape",
    },
    "Layers": {"Dtypes": "the run's float", "Errors": f"E-SHAPE-047 another width; {_EXPECTED}"},
    "Optimizers": {
        "Shapes": "a parameter -> the same",
        "Dtypes": "f32, f64 under :f64",
        "Errors": f"{_EXPECTED}; E-OPT-001; E-VALUE-005 a parameter or options that the method is not for",
    },
    "Schedules": {"Shapes": "the step, [] -> []", "Dtypes": "the run's float", "Errors": _EXPECTED},
    "Forms": {"Shapes": "none", "Dtypes": "none"},
}
"""What holds for all of a chapter, where a documentation string says nothing of its own."""

NAMED_SOURCE = r"\b(19|20)\d\d\b|[Tt]orch|[Jj][Aa][Xx]"
"""A paper's year, or the library that has the same."""

VALUES_IN: dict[str, str] = dict.fromkeys(MODULES["Initializers"], "tests/trace/test_models.py") | {
    "defmodel": "tests/trace/test_models.py",
    "defparam": "tests/optim/following.py",
    "defbuffer": "tests/trace/test_streams.py",
    "defsub": "tests/trace/test_models.py",
    "forward": "tests/trace/test_models.py",
    "repeat": "tests/trace/test_models.py",
    "parameters": "tests/trace/test_models.py",
    "part": "tests/trace/test_models.py",
    "frozen": "tests/trace/test_models.py",
    "parameter-path": "tests/trace/test_models.py",
    "set-buffer": "tests/trace/test_streams.py",
    "defoptimizer": "tests/optim/test_mechanism.py",
    "defstate": "tests/optim/test_mechanism.py",
    "optimizer-update": "tests/optim/test_mechanism.py",
    "optimizer-view": "tests/optim/test_mechanism.py",
    "set-state": "tests/optim/test_mechanism.py",
    "optimizer-groups": "tests/optim/test_mechanism.py",
    "group": "tests/optim/test_mechanism.py",
    "inner-update": "tests/optim/test_mechanism.py",
    "run-steps": "tests/trace/test_standard_modules.py",
    "with-numerics": "tests/trace/test_standard_modules.py",
    "defrun": "tests/optim/test_runs.py",
    "defeval": "tests/trace/test_metrics.py",
    "defgenerator": "tests/cli/test_generate.py",
    "next-token": "tests/cli/test_generate.py",
}
"""Tests of values, for the names of modules that no golden has."""


@frozen
class Documented:
    """How a call looks, and the documentation string behind it."""

    call: str
    doc: str


def documentation() -> dict[str, Documented]:
    """Of each public function of tensors: of the libraries, of `DEFINING`, and of what Common Lisp has by that name."""
    found = {name: Documented(meaning.call, meaning.doc) for name, meaning in MEANINGS.items()}
    for library in LIBRARIES:
        for builtin in library:
            if not builtin.name.startswith("%"):
                call = f"({builtin.name} {builtin.parameters.text[1:-1]}".rstrip() + ")"
                found[builtin.name] = Documented(call, builtin.doc)
    return found | dict(_defined(DEFINING))


def module_documentation() -> dict[str, Documented]:
    """The same of what the standard modules define, too."""
    return documentation() | dict(_defined(MODULE_FILES))


def _defined(files: Iterable[Path]) -> Iterator[tuple[str, Documented]]:
    texts = [Source(str(file), file.read_text("utf-8")) for file in files]
    for read in (form for text in texts for form in read_text(text, lambda _: None)):
        kind, name, *rest = read.datum
        if (
            kind.name in ("defun", "defmacro", "defmodel", "defoptimizer")
            and isinstance(name, Symbol)
            and len(rest) > 1
        ):
            parameters = print_form(rest[0])[1:-1] if isinstance(rest[0], Cons) else ""
            doc = rest[1] if isinstance(rest[1], str) else ""
            yield name.name, Documented(f"({name.name} {parameters}".rstrip() + ")", doc)


def paragraphs(doc: str) -> tuple[str, dict[str, str]]:
    """A documentation string as its text and what stands behind `Shapes:`, `Dtypes:`, `Errors:` and `Source:`."""
    text: list[str] = []
    labelled: dict[str, str] = {}
    last = ""
    for line in (line.strip() for line in doc.splitlines()):
        label, colon, rest = line.partition(": ")
        if colon and label in LABELS:
            last = label
            labelled[label] = rest
        elif last:
            labelled[last] += " " + line if line else ""
        else:
            text.append(line)
    return " ".join(filter(None, text)), {label: said.strip() for label, said in labelled.items()}


LABELS = ("Shapes", "Dtypes", "Errors", "Source")
