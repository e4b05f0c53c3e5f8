"""The names that the language promises, and the documentation of each.

`CHAPTERS` is our own copy of the tables of the language's design: a name once promised stays. What is added here is
checked by test_surface.py with no more said: each name exists, is documented with shapes, dtypes, errors and source,
and is used by a golden, or by the test that `USED_IN` names.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from sexpgpu.lang.forms import Cons, Source, Symbol
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.reader import read_text
from sexpgpu.trace.builtins import LIBRARIES
from sexpgpu.trace.builtins.meanings import MEANINGS
from tests.docs.blocks import ROOT

DEFINING = tuple(ROOT / "sexpgpu" / "library" / name for name in ("forms.sx", "losses.sx"))


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
    return found | dict(_defined())


def _defined() -> Iterator[tuple[str, Documented]]:
    texts = [Source(str(file), file.read_text("utf-8")) for file in DEFINING]
    for read in (form for text in texts for form in read_text(text, lambda _: None)):
        kind, name, *rest = read.datum
        if kind.name in ("defun", "defmacro") and isinstance(name, Symbol) and len(rest) > 1:
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
