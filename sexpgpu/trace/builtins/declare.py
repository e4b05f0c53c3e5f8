"""Evaluations, generators and the run: the functions behind the declaring forms."""

from __future__ import annotations

from typing import Any, Literal

from sexpgpu import knobs
from sexpgpu.diag import Culprit, error
from sexpgpu.experiment import RunConfig
from sexpgpu.lang.active import as_function
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list
from sexpgpu.lang.session import current_span
from sexpgpu.trace import arguments
from sexpgpu.trace.builtins.sources import source_argument
from sexpgpu.trace.checks import Checks
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


@library.builtin("%require-keywords", "(definition options known)")
def require_keywords(definition: Symbol, written: Any, known: Any) -> Any:
    """nil; E-ARG-002 where the options of a form, as they are written, name a keyword without its colon."""
    names = {key.name for key in known}
    for option in (list(written) if isinstance(written, Cons) else [])[::2]:
        if isinstance(option, Symbol) and not option.keyword and option.name in names:
            raise error(
                "E-ARG-002",
                f"`{definition.name}`: the option `{option.name}` is a keyword",
                help=f"write :{option.name}",
                culprit=Culprit(word=option.name, instead=f":{option.name}"),
            )
    return NIL


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
            None if text is NIL else source_argument("defgenerator :text", text, ":text"),
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
        message = f"`{what}`: {role} must be at least 1"
        raise error("E-RUN-012", message, actual=str(number), culprit=arguments.behind(role))
    return number


_OF_RUN = (
    "steps", "epochs", "microbatches", "precision", "seed", "clip-norm", "log-every", "checkpoint", "deterministic",
    "max-skipped", "memory", "recompute",
)  # fmt: skip


@library.builtin("%defrun", f"(&rest options &key {' '.join(_OF_RUN)} &allow-other-keys)")
def defrun(*options: Any, **_: Any) -> Any:
    """Declare the run; E-RUN-010 unless exactly one of :steps and :epochs is given."""
    checks = Checks()
    given = arguments.options("defrun", lisp_list(options), _OF_RUN, checks)
    checks.of(None, lambda: _require_length(given))
    saved = given.get("checkpoint", NIL)
    known = ("every", "keep", "keep-every")
    nothing: dict[str, Any] = {}
    checkpoint = checks.of(nothing, lambda: arguments.options("defrun :checkpoint", saved, known, checks))

    def positive(table: dict[str, Any], key: str) -> int | None:
        value = table.get(key, NIL)
        return None if value is NIL else checks.of(None, lambda: _positive("defrun", value, f":{key}"))

    precision: Any = given.get("precision", "f32")
    precision = checks.of("f32", lambda: arguments.choice("defrun", precision, ":precision", arguments.PRECISIONS))
    memory = checks.of(None, lambda: _memory(given.get("memory", NIL)))
    run = RunConfig(
        positive(given, "steps"),
        positive(given, "epochs"),
        positive(given, "microbatches") or 1,
        precision,
        checks.of(0, lambda: arguments.integer("defrun", given.get("seed", 0), ":seed")),
        checks.of(None, lambda: _clip_norm(given.get("clip-norm", NIL))),
        positive(given, "log-every") or 1,
        positive(checkpoint, "every"),
        positive(checkpoint, "keep"),
        positive(checkpoint, "keep-every"),
        positive(given, "max-skipped") or 3,
        given.get("deterministic", NIL) is not NIL,
        memory,
        checks.of(None, lambda: _recompute(given.get("recompute", NIL), given.get("memory", NIL) is not NIL)),
        current_span(),
    )
    checks.end()
    declarations().set_run(run)
    return RunValue(run)


def _require_length(given: dict[str, Any]) -> None:
    if ("steps" in given) == ("epochs" in given):
        raise error(
            "E-RUN-010",
            "`defrun` needs exactly one of :steps and :epochs",
            actual="both" if "steps" in given else "neither",
            help="(defrun :steps 1000 :seed 1)",
        )


def _clip_norm(value: Any) -> float | None:
    if value is NIL:
        return None
    norm, role = arguments.real("defrun", value, ":clip-norm"), ":clip-norm"
    if not norm > 0:
        message = f"`defrun`: {role} must be greater than 0"
        raise error("E-RUN-012", message, actual=show(value), culprit=arguments.behind(role))
    return norm


def _memory(value: Any) -> int | None:
    """Bytes: a whole number, or a string as SEXPGPU_MEMORY takes it."""
    if value is NIL:
        return None
    try:
        return knobs.size(value if isinstance(value, str) else str(_positive("defrun", value, ":memory")))
    except ValueError:
        raise error(
            "E-ARG-010",
            "`defrun`: :memory must be a size",
            expected=f"bytes, or {knobs.SIZE}",
            actual=show(value),
            culprit=arguments.behind(":memory"),
        ) from None


def _recompute(value: Any, limited: bool) -> Literal["auto"] | None:
    """Whether to recompute, of a run whose memory the form says to be `limited`, if only by a size that is none."""
    if value is NIL:
        return None
    arguments.choice("defrun", value, ":recompute", ("auto",))
    if not limited and knobs.MEMORY.get() is None:
        raise error(
            "E-RUN-013",
            "`defrun`: :recompute :auto without a limit of memory",
            expected="what the run may hold at once",
            help='(defrun ... :recompute :auto :memory "8GiB"), or SEXPGPU_MEMORY',
            culprit=arguments.behind(":recompute"),
        )
    return "auto"
