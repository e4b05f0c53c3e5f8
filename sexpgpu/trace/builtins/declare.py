"""Evaluations, generators and the run: the functions behind the declaring forms."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import error
from sexpgpu.experiment import RunConfig
from sexpgpu.lang.active import as_function
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL, Symbol
from sexpgpu.lang.session import current_span
from sexpgpu.trace import arguments
from sexpgpu.trace.builtins.sources import source_argument
from sexpgpu.trace.declarations import (
    EvaluationValue,
    GeneratorValue,
    LoaderValue,
    RunValue,
    declarations,
)

library = Library("evaluations and runs")

RESERVED = ("train", "optim", "runtime")
"""Names that an evaluation pass cannot have: the loop's metrics are under them."""


@library.builtin("%defeval", "(name &key loader every at batches fixed at-start weights evaluate)")
def defeval(name: Any, **given: Any) -> Any:
    """Declare an evaluation pass."""
    label = arguments.name("defeval", name)
    source = given.get("loader", NIL)
    if not isinstance(source, LoaderValue):
        raise error(
            "E-RUN-020",
            f"evaluation `{label}` needs a loader",
            actual=show(source),
            help=":loader val-loader",
        )
    if len(source.stages) > 1:
        raise error(
            "E-LOAD-044",
            f"evaluation `{label}` reads a loader with stages: two evaluations would not be of the same records",
            expected="a loader of its own, without stages",
            help=f"(defloader {label}-loader (:batch {source.batch}) ...)",
        )
    if label in RESERVED:
        raise error("E-RUN-024", f"`{label}` is the loop's own name", help="name the pass val, test, ...")
    every = given.get("every", NIL)
    batches = given.get("batches", NIL)
    at = arguments.integers("defeval", given.get("at", NIL), ":at")
    if any(step < 0 for step in at):
        raise error("E-RUN-012", "`defeval`: :at lists steps from 0 on", actual=show(given["at"]))
    whole = batches is NIL or (isinstance(batches, Symbol) and batches.name == "all")
    if any(e.name == label for e in declarations().evaluations):
        raise error("E-RUN-021", f"there are two evaluations named `{label}`", help="give one another name")
    declarations().evaluations.append(
        EvaluationValue(
            label,
            source,
            _every("defeval", every),
            at,
            None if whole else _positive("defeval", batches, ":batches"),
            given.get("fixed", NIL) is not NIL,
            given.get("at_start", NIL) is not NIL,
            arguments.choice("defeval", given.get("weights", "view"), ":weights", ("view", "train")),
            given.get("evaluate"),
            current_span(),
        )
    )
    return name


@library.builtin("%defgenerator", "(name options init trip emit)")
def generator(name: Any, options: Any, init: Any, trip: Any, emit: Any) -> Any:
    """Declare a generator."""
    label = arguments.name("defgenerator", name)
    given = arguments.options("defgenerator", options, ("trips", "at", "every", "weights", "text"))
    if "trips" not in given:
        raise error("E-RUN-032", f"generator `{label}` does not say how long it goes", help="(:trips 100)")
    text = given.get("text", NIL)
    if any(g.name == label for g in declarations().generators):
        raise error("E-RUN-021", f"there are two generators named `{label}`", help="give one another name")
    declarations().generators.append(
        GeneratorValue(
            label,
            _trips(given["trips"]),
            as_function(init),
            as_function(trip),
            as_function(emit),
            arguments.choice("defgenerator", given.get("at", "eval"), ":at", ("eval", "step")),
            _positive("defgenerator", given.get("every", 1), ":every"),
            arguments.choice("defgenerator", given.get("weights", "view"), ":weights", ("view", "train")),
            None if text is NIL else source_argument("defgenerator :text", text),
            current_span(),
        )
    )
    return name


def _trips(value: Any) -> int:
    trips = arguments.integer("defgenerator", value, ":trips")
    if trips < 0:
        raise error(
            "E-VALUE-012", "`defgenerator`: :trips cannot be negative", expected="0 <= trips", actual=str(trips)
        )
    return trips


def _every(what: str, value: Any) -> Any:
    if value is NIL:
        return None
    if isinstance(value, Symbol) and value.name == "epoch":
        return "epoch"
    return _positive(what, value, ":every")


def _positive(what: str, value: Any, role: str) -> int:
    number = arguments.integer(what, value, role)
    if number < 1:
        raise error("E-RUN-012", f"`{what}`: {role} must be at least 1", actual=str(number))
    return number


@library.builtin(
    "%defrun",
    "(&key steps epochs microbatches precision seed clip-norm log-every checkpoint deterministic max-skipped)",
)
def defrun(**given: Any) -> Any:
    """Declare the run; E-RUN-010 unless exactly one of :steps and :epochs is given."""
    if ("steps" in given) == ("epochs" in given):
        raise error(
            "E-RUN-010",
            "`defrun` needs exactly one of :steps and :epochs",
            actual="both" if "steps" in given else "neither",
            help="(defrun :steps 1000 :seed 1)",
        )
    checkpoint = arguments.options("defrun :checkpoint", given.get("checkpoint", NIL), ("every", "keep", "keep-every"))

    def positive(table: dict[str, Any], key: str) -> int | None:
        return _positive("defrun", table[key], ":" + key.replace("_", "-")) if table.get(key, NIL) is not NIL else None

    clip = given.get("clip_norm", NIL)
    if clip is not NIL and not arguments.real("defrun", clip, ":clip-norm") > 0:
        raise error("E-RUN-012", "`defrun`: :clip-norm must be greater than 0", actual=show(clip))
    precision: Any = arguments.choice("defrun", given.get("precision", "f32"), ":precision", arguments.PRECISIONS)
    run = RunConfig(
        positive(given, "steps"),
        positive(given, "epochs"),
        positive(given, "microbatches") or 1,
        precision,
        arguments.integer("defrun", given.get("seed", 0), ":seed"),
        None if clip is NIL else arguments.real("defrun", clip, ":clip-norm"),
        positive(given, "log_every") or 1,
        positive(checkpoint, "every"),
        positive(checkpoint, "keep"),
        positive(checkpoint, "keep-every"),
        positive(given, "max_skipped") or 3,
        given.get("deterministic", NIL) is not NIL,
        current_span(),
    )
    declarations().set_run(run)
    return RunValue(run)
