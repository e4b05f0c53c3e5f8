"""Loaders: the function behind `defloader`."""

from __future__ import annotations

from functools import partial
from typing import Any

from sexpgpu.data import facts
from sexpgpu.data.source import ByStep
from sexpgpu.diag import Culprit, Note, SxError, error
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import NIL
from sexpgpu.lang.session import current_span
from sexpgpu.tensortype import TensorType
from sexpgpu.trace import arguments
from sexpgpu.trace.arguments import ORDERS
from sexpgpu.trace.builtins.sources import field_argument, located
from sexpgpu.trace.checks import Checks
from sexpgpu.trace.declarations import IndexFile, LoaderValue, SourceValue, StageValue, declarations

library = Library("loaders")


@library.builtin("%defloader", "(name options stages)")
def loader(name: Any, options: Any, stages: Any) -> LoaderValue:
    """What a `defloader` binds; every field's record type is known here (E-LOAD otherwise).

    `stages` is a list of (name ((field source) ...)); a loader without stages has one that has no name.
    """
    label = arguments.name("defloader", name)
    checks = Checks()
    given = arguments.options("defloader", options, ("batch", "order", "seed"), checks)
    batch = checks.of(1, lambda: _batch(label, given))
    order = given.get("order", "sequential")
    chosen = "index-file"
    if not isinstance(order, IndexFile):
        chosen = checks.of(chosen, lambda: arguments.choice("defloader", order, ":order", ORDERS))
    seed = checks.of(None, lambda: arguments.integer("defloader", given["seed"], ":seed") if "seed" in given else None)
    made: list[StageValue] = []
    for stage in arguments.items("defloader", stages, "the stages"):
        key, fields = arguments.items("defloader", stage, "a stage")
        title = None if key is NIL else arguments.name("defloader", key)
        made.append(StageValue(title, checks.of({}, partial(_fields, label, fields))))
    checks.end()
    for stage in made[1:]:
        _require_alike(label, made[0], stage)
    return LoaderValue(
        label,
        batch,
        chosen,
        seed,
        tuple(made),
        order if isinstance(order, IndexFile) else None,
        current_span(),
    )


def _batch(label: str, given: dict[str, Any]) -> int:
    """The batch size; E-LOAD-041 where there is none."""
    if "batch" not in given:
        raise error("E-LOAD-041", f"loader `{label}` has no batch size", help=f"(defloader {label} (:batch 32) ...)")
    batch = arguments.integer("defloader", given["batch"], ":batch")
    if batch < 1:
        message, at = f"loader `{label}`: the batch size must be positive", arguments.behind(":batch")
        raise error("E-LOAD-041", message, actual=str(batch), culprit=at)
    return batch


def _fields(label: str, fields: Any) -> dict[str, tuple[SourceValue, TensorType]]:
    """The sources of a stage by field, each with the type of a record; E-LOAD-042 without a field of records."""
    typed: dict[str, tuple[SourceValue, TensorType]] = {}
    for pair in arguments.items("defloader", fields, "the fields"):
        key, value = arguments.items("defloader", pair, "a field")
        field = arguments.name("defloader", key)
        source = field_argument(f"field {field}", value, Culprit(key=field, value=True))
        inner = source.source if isinstance(source, ByStep) else source
        try:
            typed[field] = (value, facts.record_type(inner, declarations().base))
        except SxError as fault:
            raise SxError(fault.diagnostic.at(value.span)) from None
    if not typed:
        raise error("E-LOAD-042", f"loader `{label}` has no fields", help=f"(defloader {label} (...) (x SOURCE))")
    if all(isinstance(value.source, ByStep) for value, _ in typed.values()):
        raise error(
            "E-LOAD-042",
            f"loader `{label}` has no field of records: rows of `by-step` belong to steps",
            help=f"(defloader {label} (...) (x SOURCE) (noise (by-step SOURCE)))",
        )
    return typed


def _require_alike(label: str, first: StageValue, other: StageValue) -> None:
    """E-LOAD-043 unless both stages have fields of the same names and types."""
    expected, actual = first.described(), other.described()
    if expected == actual:
        return
    span = next((value.span for value, _ in first.fields.values()), None)
    raise error(
        "E-LOAD-043",
        f"the stages of loader `{label}` are not alike: one graph reads all of them",
        next((value.span for value, _ in other.fields.values()), None),
        expected=f"{first.name}: {', '.join(expected)}",
        actual=f"{other.name}: {', '.join(actual)}",
        notes=[Note(f"stage {first.name}", span)] if span else [],
    )


@library.builtin("index-file", "(path &key wrap)")
def index_file(path: Any, *, wrap: Any = NIL) -> IndexFile:
    """An order read from a file: absolute record starts, one row a batch, -1 pads a short row."""
    return IndexFile(located("index-file", path), wrap is not NIL)
