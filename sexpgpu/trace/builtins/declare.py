"""Sources, loaders, evaluations and the run: the functions behind the declaring forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from sexpgpu.data import facts
from sexpgpu.data.source import (
    NORMALIZE_KINDS,
    Chars,
    Contexts,
    Csv,
    Declared,
    Idx,
    Lines,
    Normalize,
    Npy,
    Npz,
    Records,
    Scale,
    Source,
    Take,
    Window,
)
from sexpgpu.diag import SxError, error, nearest
from sexpgpu.experiment import RunConfig
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL, Symbol, lisp_list
from sexpgpu.lang.session import current_span
from sexpgpu.tensortype import DTYPES
from sexpgpu.trace import arguments
from sexpgpu.trace.declarations import EvaluationValue, IndexFile, LoaderValue, SourceValue, declarations

library = Library("data and runs")

_FACTS = "shape dtype count vocab from to"


def _path(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise error("E-ARG-010", f"`{what}`: the path must be a string", actual=show(value))
    return declarations().located(value, current_span())


def _declared(what: str, shape: Any, dtype: Any, count: Any, vocab: Any) -> Declared:
    return Declared(
        None if shape is NIL else arguments.shape(what, shape),
        None if dtype is NIL else arguments.dtype(what, dtype, DTYPES[0]),
        None if count is NIL else arguments.integer(what, count, ":count"),
        None if vocab is NIL else arguments.integer(what, vocab, ":vocab"),
    )


def _cut(what: str, value: Any) -> int | float | None:
    return None if value is NIL else value if type(value) is int else arguments.real(what, value, "a cut")


def _leaf(name: str, parameters: str, make: Callable[..., Source], doc: str) -> None:
    """A source that reads a file: the cuts and the declared facts are the same for all."""

    def rule(
        path: Any,
        *rest: Any,
        shape: Any = NIL,
        dtype: Any = NIL,
        count: Any = NIL,
        vocab: Any = NIL,
        from_: Any = NIL,
        to: Any = NIL,
        **options: Any,
    ) -> SourceValue:
        made = make(_path(name, path), *rest, **options)
        known = _declared(name, shape, dtype, count, vocab)
        cut = evolve(made, declared=known, from_=_cut(name, from_), to=_cut(name, to))  # type: ignore[call-arg]
        return SourceValue(cut, current_span())

    rule.__doc__ = doc
    library.builtin(name, f"({parameters} {_FACTS})")(rule)


def _lines(path: str, *, pad: Any = NIL, bos: Any = NIL) -> Lines:
    return Lines(path, None if pad is NIL else arguments.integer("lines", pad, ":pad"), bos is not NIL)


def _csv(path: str, *columns: Any) -> Csv:
    return Csv(path, tuple(c if isinstance(c, int) else arguments.name("csv", c) for c in columns))


_leaf("chars", "path &key", Chars, "A text, one record a character: i32 ids in the order of the sorted characters.")
_leaf("lines", "path &key pad bos", _lines, "A text, one record a line: i32[pad], filled with -1; `:bos t` frames it.")
_leaf("npy", "path &key", Npy, "A NumPy array file; its first axis counts records.")
_leaf("idx", "path &key", Idx, "An IDX file, the format of MNIST; its first axis counts records.")


@library.builtin("npz", f"(path key &key {_FACTS})")
def npz(path: Any, key: Any, **options: Any) -> SourceValue:
    """One array of a NumPy archive."""
    known = _declared("npz", *(options.get(k, NIL) for k in ("shape", "dtype", "count", "vocab")))
    source = Npz(_path("npz", path), arguments.name("npz", key), known)
    cut = evolve(source, from_=_cut("npz", options.get("from_", NIL)), to=_cut("npz", options.get("to", NIL)))
    return SourceValue(cut, current_span())


@library.builtin("csv", "(path &rest columns)")
def csv(path: Any, *columns: Any) -> SourceValue:
    """Numbers from a table: columns by header name or place (from the end when negative); none means all.

    Facts, cuts and `:skip` (lines before the table) are given by keyword after the columns.
    """
    plain: list[Any] = []
    rest = list(columns)
    while rest and not (isinstance(rest[0], Symbol) and rest[0].keyword):
        plain.append(rest.pop(0))
    options: dict[str, Any] = {}
    known = ("shape", "dtype", "count", "vocab", "from", "to", "skip")
    if len(rest) % 2:
        raise error("E-ARG-003", f"`csv`: keyword {show(rest[-1])} has no value")
    for key, value in zip(rest[::2], rest[1::2], strict=True):
        if not isinstance(key, Symbol) or key.name not in known:
            near = nearest(getattr(key, "name", ""), known)
            raise error(
                "E-ARG-002",
                f"`csv` has no keyword {show(key)}; it has " + " ".join(f":{k}" for k in known),
                help=f":{near}" if near else None,
            )
        options.setdefault(key.name, value)
    source = _csv(_path("csv", path), *plain)
    facts_given = _declared("csv", *(options.get(k, NIL) for k in ("shape", "dtype", "count", "vocab")))
    skip = arguments.integer("csv", options.get("skip", 0), ":skip")
    cuts = {"from_": _cut("csv", options.get("from", NIL)), "to": _cut("csv", options.get("to", NIL))}
    return SourceValue(evolve(source, declared=facts_given, skip=skip, **cuts), current_span())


def _source(what: str, value: Any) -> Source:
    if isinstance(value, SourceValue):
        return value.source
    raise error("E-TYPE-014", f"`{what}` needs a source", actual=show(value), help='(chars "data/text.txt")')


def _combined(what: str, source: Source, from_: Any, to: Any) -> SourceValue:
    return SourceValue(evolve(source, from_=_cut(what, from_), to=_cut(what, to)), current_span())


@library.builtin("window", "(source n &key stride from to)")
def window(source: Any, n: Any, *, stride: Any = 1, from_: Any = NIL, to: Any = NIL) -> SourceValue:
    """n consecutive items as one record, every `:stride` items; cuts are taken of the items first."""
    made = Window(
        _source("window", source),
        arguments.integer("window", n, "the length"),
        arguments.integer("window", stride, ":stride"),
    )
    return _combined("window", made, from_, to)


@library.builtin("contexts", "(source n &key from to)")
def contexts(source: Any, n: Any, *, from_: Any = NIL, to: Any = NIL) -> SourceValue:
    """One record for each position of each line: the n ids before it, and it."""
    made = Contexts(_source("contexts", source), arguments.integer("contexts", n, "the length"))
    return _combined("contexts", made, from_, to)


@library.builtin("records", "(source &key from to)")
def records(source: Any, *, from_: Any = NIL, to: Any = NIL) -> SourceValue:
    """The records of a source between two cuts: an integer counts records, a float is floor(n f)."""
    return _combined("records", Records(_source("records", source)), from_, to)


@library.builtin("take", "(source n)")
def take(source: Any, n: Any) -> SourceValue:
    """The first n records."""
    return SourceValue(Take(_source("take", source), arguments.integer("take", n, "the count")), current_span())


@library.builtin("scale", "(source factor &key dtype)")
def scale(source: Any, factor: Any, *, dtype: Any = NIL) -> SourceValue:
    """Every element times a factor, as floats."""
    made = Scale(_source("scale", source), arguments.real("scale", factor, "the factor"), _float("scale", dtype))
    return SourceValue(made, current_span())


@library.builtin("normalize", "(source &optional kind &key fit dtype)")
def normalize(source: Any, kind: Any = "minmax", *, fit: Any = NIL, dtype: Any = NIL) -> SourceValue:
    """Every element position mapped to [0, 1] (:minmax) or to mean 0 and deviation 1 (:zscore), by its records."""
    how: Any = arguments.choice("normalize", kind, "the kind", NORMALIZE_KINDS)
    fitted = None if fit is NIL else _source("normalize", fit)
    made = Normalize(_source("normalize", source), how, fitted, _float("normalize", dtype))
    return SourceValue(made, current_span())


def _float(what: str, dtype: Any) -> Any:
    return None if dtype is NIL else arguments.dtype(what, dtype, DTYPES[0])


@library.builtin("vocab-size", "(source)")
def vocab_size(source: Any) -> int:
    """How many ids a text source uses, a BOS among them."""
    return facts.vocabulary_size(_source("vocab-size", source), declarations().base)


@library.builtin("record-count", "(source)")
def record_count(source: Any) -> int:
    """How many records a source has."""
    return facts.record_count(_source("record-count", source), declarations().base)


@library.builtin("index-file", "(path &key wrap)")
def index_file(path: Any, *, wrap: Any = NIL) -> IndexFile:
    """An order read from a file: absolute record starts, one row a batch, -1 pads a short row."""
    return IndexFile(_path("index-file", path), wrap is not NIL)


_ORDERS = ("sequential", "shuffle", "random")


@library.builtin("%loader", "(name options fields)")
def loader(name: Any, options: Any, fields: Any) -> LoaderValue:
    """What a `defloader` binds; every field's record type is known here (E-LOAD otherwise)."""
    label = arguments.name("defloader", name)
    given = _options("defloader", options, ("batch", "order", "seed"))
    if "batch" not in given:
        raise error("E-LOAD-041", f"loader `{label}` has no batch size", help=f"(defloader {label} (:batch 32) ...)")
    batch = arguments.integer("defloader", given["batch"], ":batch")
    if batch < 1:
        raise error("E-LOAD-041", f"loader `{label}`: the batch size must be positive", actual=str(batch))
    order = given.get("order", "sequential")
    typed: dict[str, Any] = {}
    for pair in arguments.items("defloader", fields, "the fields"):
        key, value = arguments.items("defloader", pair, "a field")
        source = _source(f"field {arguments.name('defloader', key)}", value)
        try:
            typed[arguments.name("defloader", key)] = (source, facts.record_type(source, declarations().base))
        except SxError as fault:
            raise SxError(fault.diagnostic.at(value.span)) from None
    if not typed:
        raise error("E-LOAD-042", f"loader `{label}` has no fields", help=f"(defloader {label} (...) (x SOURCE))")
    return LoaderValue(
        label,
        batch,
        "index-file" if isinstance(order, IndexFile) else arguments.choice("defloader", order, ":order", _ORDERS),
        arguments.integer("defloader", given["seed"], ":seed") if "seed" in given else None,
        typed,
        order if isinstance(order, IndexFile) else None,
        current_span(),
    )


def _options(what: str, plist: Any, known: tuple[str, ...]) -> dict[str, Any]:
    """A plist as a dictionary; E-ARG-002 and E-ARG-003 as for keyword arguments."""
    flat = arguments.items(what, plist, "the options")
    if len(flat) % 2:
        raise error("E-ARG-003", f"`{what}`: the options must come in pairs", actual=show(lisp_list(flat)))
    found: dict[str, Any] = {}
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        label = key.name if isinstance(key, Symbol) else show(key)
        if label not in known:
            near = nearest(label, known)
            raise error(
                "E-ARG-002",
                f"`{what}` has no keyword :{label}; it has " + " ".join(f":{k}" for k in known),
                help=f":{near}" if near else None,
            )
        found.setdefault(label, value)
    return found


@library.builtin("%defeval", "(name &key loader every at batches fixed at-start weights evaluate)")
def defeval(name: Any, **given: Any) -> Any:
    """Declare an evaluation pass."""
    label = arguments.name("defeval", name)
    source = given.get("loader", NIL)
    if not isinstance(source, LoaderValue):
        raise error(
            "E-RUN-020", f"evaluation `{label}` needs a loader", actual=show(source), help=":loader val-loader"
        )
    every = given.get("every", NIL)
    batches = given.get("batches", NIL)
    whole = batches is NIL or (isinstance(batches, Symbol) and batches.name == "all")
    if any(e.name == label for e in declarations().evaluations):
        raise error("E-RUN-021", f"there are two evaluations named `{label}`", help="give one another name")
    declarations().evaluations.append(
        EvaluationValue(
            label,
            source,
            _every("defeval", every),
            arguments.integers("defeval", given.get("at", NIL), ":at"),
            None if whole else _positive("defeval", batches, ":batches"),
            given.get("fixed", NIL) is not NIL,
            given.get("at_start", NIL) is not NIL,
            arguments.choice("defeval", given.get("weights", "view"), ":weights", ("view", "train")),
            given.get("evaluate"),
            current_span(),
        )
    )
    return name


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
    checkpoint = _options("defrun :checkpoint", given.get("checkpoint", NIL), ("every", "keep", "keep-every"))

    def positive(table: dict[str, Any], key: str) -> int | None:
        return _positive("defrun", table[key], f":{key}") if table.get(key, NIL) is not NIL else None

    clip = given.get("clip_norm", NIL)
    precision: Any = arguments.choice("defrun", given.get("precision", "f32"), ":precision", ("f32", "bf16", "f64"))
    if precision == "bf16":
        raise error(
            "E-RUN-013",
            "`:precision :bf16` is not implemented in this version",
            expected=":f32 or :f64",
            actual=":bf16",
            help=":precision :f32",
        )
    declarations().set_run(
        RunConfig(
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
    )
    return NIL
