"""Data sources: the functions that name files, and those that work on another source."""

from __future__ import annotations

import math
from typing import Any

from attrs import evolve

from sexpgpu.data import counts, facts
from sexpgpu.data.files import present
from sexpgpu.data.source import (
    NORMALIZE_KINDS,
    TOKEN_TYPES,
    Bpe,
    ByStep,
    Bytes,
    Chars,
    Concat,
    Contexts,
    Csv,
    Declared,
    FieldSource,
    File,
    Idx,
    Jsonl,
    Lines,
    Mix,
    Normalize,
    Npy,
    Npz,
    Parquet,
    Records,
    Scale,
    Source,
    Take,
    Tokens,
    Window,
)
from sexpgpu.diag import Culprit, error
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL, Symbol, lisp_list
from sexpgpu.lang.session import current_span
from sexpgpu.tensortype import DTYPES
from sexpgpu.trace import arguments
from sexpgpu.trace.declarations import SourceValue, declarations

library = Library("sources")

FACTS = ("shape", "dtype", "count", "vocab", "from", "to")
_FACTS = " ".join(FACTS)


def located(what: str, value: Any) -> str:
    """The absolute path that a string of the file being evaluated means."""
    if not isinstance(value, str):
        raise error("E-ARG-010", f"`{what}`: the path must be a string", actual=show(value))
    return declarations().located(value, current_span())


def source_argument(what: str, value: Any, place: int | str = 1) -> Source:
    """A source of records (E-TYPE-014 for anything else), at a place among the arguments of `what` or behind a
    keyword.
    """
    at = Culprit(key=place, value=True) if isinstance(place, str) else Culprit(function=what, argument=place)
    found = field_argument(what, value, at)
    if isinstance(found, ByStep):
        raise error(
            "E-TYPE-014",
            f"`{what}` needs a source of records, and (by-step ...) has one row a step",
            actual=show(value),
            help="(by-step (window ...)): by-step comes last",
            culprit=at,
        )
    return found


def field_argument(what: str, value: Any, at: Culprit | None) -> FieldSource:
    """What a field of a loader may read (E-TYPE-014 for anything else, `at` where it is written)."""
    if isinstance(value, SourceValue):
        return value.source
    message = f"`{what}` needs a source"
    raise error("E-TYPE-014", message, actual=show(value), help='(chars "data/text.txt")', culprit=at)


def _cut(what: str, value: Any, role: str) -> int | float | None:
    return None if value is NIL else value if type(value) is int else _finite(what, value, role)


def _finite(what: str, value: Any, role: str) -> float:
    """A number as a float; E-VALUE-012 for one that is not finite."""
    found = arguments.real(what, value, role)
    if not math.isfinite(found):
        at = arguments.behind(role)
        message = f"`{what}`: {role} is outside its domain"
        raise error("E-VALUE-012", message, expected="a finite number", actual=show(value), culprit=at)
    return found


def _leaf(what: str, source: File, given: dict[str, Any]) -> SourceValue:
    """A source that reads a file, with what the call declares of it and where it cuts it."""
    known = {key: value for key, value in given.items() if value is not NIL}
    declared = Declared(
        arguments.shape(what, known["shape"]) if "shape" in known else None,
        arguments.dtype(what, known["dtype"], DTYPES[0]) if "dtype" in known else None,
        arguments.integer(what, known["count"], ":count") if "count" in known else None,
        arguments.integer(what, known["vocab"], ":vocab") if "vocab" in known else None,
    )
    from_, to = _cut(what, known.get("from_", NIL), ":from"), _cut(what, known.get("to", NIL), ":to")
    return SourceValue(evolve(source, declared=declared, from_=from_, to=to), current_span())


@library.builtin("chars", f"(path &key {_FACTS})")
def chars(path: Any, **given: Any) -> SourceValue:
    """A text, one record a character: i32 ids in the order of the sorted characters."""
    return _leaf("chars", Chars(located("chars", path)), given)


@library.builtin("lines", f"(path &key pad bos {_FACTS})")
def lines(path: Any, *, pad: Any = NIL, bos: Any = NIL, **given: Any) -> SourceValue:
    """A text, one record a line: i32[pad] ids, filled with -1; `:bos t` frames each line with one id more."""
    length = None if pad is NIL else arguments.positive("lines", pad, ":pad")
    return _leaf("lines", Lines(located("lines", path), length, arguments.flag(bos)), given)


@library.builtin("npy", f"(path &key {_FACTS})")
def npy(path: Any, **given: Any) -> SourceValue:
    """A NumPy array file; its first axis counts records."""
    return _leaf("npy", Npy(located("npy", path)), given)


@library.builtin("npz", f"(path key &key {_FACTS})")
def npz(path: Any, key: Any, **given: Any) -> SourceValue:
    """One array of a NumPy archive; its first axis counts records."""
    return _leaf("npz", Npz(located("npz", path), arguments.name("npz", key)), given)


@library.builtin("idx", f"(path &key {_FACTS})")
def idx(path: Any, **given: Any) -> SourceValue:
    """An IDX file, the format of MNIST; its first axis counts records."""
    return _leaf("idx", Idx(located("idx", path)), given)


def _named(what: str, given: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Names and places in front, then options: what `(csv path x 2 :skip 1)` has behind its path."""
    plain: list[Any] = []
    rest = list(given)
    while rest and not (isinstance(rest[0], Symbol) and rest[0].keyword):
        name = rest.pop(0)
        plain.append(name if type(name) is int else arguments.name(what, name))
    options = arguments.options(what, lisp_list(rest), (*FACTS, "skip") if what == "csv" else FACTS)
    return plain, {"from_" if key == "from" else key: value for key, value in options.items()}


@library.builtin("csv", "(path &rest columns)")
def csv(path: Any, *columns: Any) -> SourceValue:
    """Numbers from a table: columns by header name or place (from the end when negative); none means all.

    Facts, cuts and `:skip` (lines before the table) follow the columns by keyword.
    """
    plain, given = _named("csv", columns)
    skip = arguments.integer("csv", given.pop("skip", 0), ":skip")
    made = Csv(located("csv", path), tuple(plain), skip)
    if plain and present(made.path, declarations().base):
        from sexpgpu.data.table import require_columns

        require_columns(made, declarations().base)
    return _leaf("csv", made, given)


@library.builtin("parquet", "(path &rest columns)")
def parquet(path: Any, *columns: Any) -> SourceValue:
    """Columns of a Parquet file by name, one record a row; none means all. Facts and cuts follow by keyword."""
    plain, given = _named("parquet", columns)
    names = tuple(arguments.name("parquet", column) for column in plain)
    return _leaf("parquet", Parquet(located("parquet", path), names), given)


@library.builtin("jsonl", "(path key &rest keys)")
def jsonl(path: Any, key: Any, *keys: Any) -> SourceValue:
    """The numbers under keys of JSON objects, one object a line and a record. Facts and cuts follow by keyword."""
    plain, given = _named("jsonl", (key, *keys))
    names = tuple(arguments.name("jsonl", name) for name in plain)
    if not names:
        raise error("E-ARG-001", "`jsonl` needs a key", help='(jsonl "data.jsonl" "label")')
    return _leaf("jsonl", Jsonl(located("jsonl", path), names), given)


@library.builtin("bytes", f"(path &key {_FACTS})")
def bytes_(path: Any, **given: Any) -> SourceValue:
    """Any file, one record a byte: i32 ids from 0 to 255."""
    return _leaf("bytes", Bytes(located("bytes", path)), given)


@library.builtin("tokens", f"(path &key {_FACTS})")
def tokens(path: Any, *, dtype: Any = "u16", **given: Any) -> SourceValue:
    """A file of nothing but little-endian integers of `:dtype` (u16 if it is not said), one record each."""
    stored: Any = arguments.choice("tokens", dtype, ":dtype", TOKEN_TYPES)
    return _leaf("tokens", Tokens(located("tokens", path), stored), given)


@library.builtin("bpe", f"(path tokenizer &key {_FACTS})")
def bpe(path: Any, tokenizer: Any, **given: Any) -> SourceValue:
    """A text cut into tokens by the byte-pair encoding of a Hugging Face tokenizer.json: i32 ids."""
    return _leaf("bpe", Bpe(located("bpe", path), located("bpe", tokenizer)), given)


def _combined(what: str, source: Source, from_: Any, to: Any) -> SourceValue:
    return SourceValue(evolve(source, from_=_cut(what, from_, ":from"), to=_cut(what, to, ":to")), current_span())


@library.builtin("window", "(source n &key stride from to)")
def window(source: Any, n: Any, *, stride: Any = 1, from_: Any = NIL, to: Any = NIL) -> SourceValue:
    """n consecutive items as one record, every `:stride` items; cuts are taken of the items first."""
    made = Window(
        source_argument("window", source),
        arguments.positive("window", n, "n"),
        arguments.positive("window", stride, ":stride"),
    )
    return _combined("window", made, from_, to)


@library.builtin("contexts", "(source n &key count from to)")
def contexts(source: Any, n: Any, *, count: Any = NIL, from_: Any = NIL, to: Any = NIL) -> SourceValue:
    """One record for each position of each line: the n ids before it, and it."""
    counted = None if count is NIL else arguments.integer("contexts", count, ":count")
    made = Contexts(source_argument("contexts", source), arguments.positive("contexts", n, "n"), counted)
    return _combined("contexts", made, from_, to)


@library.builtin("records", "(source &key from to)")
def records(source: Any, *, from_: Any = NIL, to: Any = NIL) -> SourceValue:
    """The records of a source between two cuts: an integer counts records, a float is floor(n f)."""
    return _combined("records", Records(source_argument("records", source)), from_, to)


@library.builtin("take", "(source n &key from to)")
def take(source: Any, n: Any, *, from_: Any = NIL, to: Any = NIL) -> SourceValue:
    """The first n records."""
    made = Take(source_argument("take", source), arguments.positive("take", n, "n"))
    return _combined("take", made, from_, to)


@library.builtin("scale", "(source factor &key dtype from to)")
def scale(source: Any, factor: Any, *, dtype: Any = NIL, from_: Any = NIL, to: Any = NIL) -> SourceValue:
    """Every element times a factor, as floats."""
    inner, by = source_argument("scale", source), _finite("scale", factor, "factor")
    return _combined("scale", Scale(inner, by, _float("scale", dtype)), from_, to)


@library.builtin("normalize", "(source &optional kind &key fit dtype from to)")
def normalize(
    source: Any, kind: Any = "minmax", *, fit: Any = NIL, dtype: Any = NIL, from_: Any = NIL, to: Any = NIL
) -> SourceValue:
    """Every element position mapped to [0, 1] (:minmax) or to mean 0 and deviation 1 (:zscore), by its records."""
    how: Any = arguments.choice("normalize", kind, "the kind", NORMALIZE_KINDS)
    fitted = None if fit is NIL else source_argument("normalize", fit, ":fit")
    made = Normalize(source_argument("normalize", source), how, fitted, _float("normalize", dtype))
    return _combined("normalize", made, from_, to)


@library.builtin("concat-sources", "(source &rest sources)")
def concat_sources(source: Any, *sources: Any) -> SourceValue:
    """The records of one source after those of another; all have records of one type."""
    parts = (source_argument("concat-sources", each, place) for place, each in enumerate((source, *sources), 1))
    return SourceValue(Concat(tuple(parts)), current_span())


@library.builtin("%mix-sources", "(sources weights)")
def mix(sources: Any, weights: Any) -> SourceValue:
    """What the macro `mix` calls."""
    parts = tuple(source_argument("mix", source) for source in arguments.items("mix", sources, "the sources"))
    shares = tuple(arguments.real("mix", weight, "a weight") for weight in arguments.items("mix", weights, "weights"))
    if not parts:
        raise error("E-ARG-001", "`mix` needs a source", help="(mix (a 0.7) (b 0.3))")
    return SourceValue(Mix(parts, shares), current_span())


@library.builtin("by-step", "(source)")
def by_step(source: Any) -> SourceValue:
    """Record k for the whole of step k, or of evaluation k: a field without an axis of records."""
    return SourceValue(ByStep(source_argument("by-step", source)), current_span())


def _float(what: str, dtype: Any) -> Any:
    return None if dtype is NIL else arguments.dtype(what, dtype, DTYPES[0])


@library.builtin("vocab-size", "(source)")
def vocab_size(source: Any) -> int:
    """How many ids a text source uses, a BOS among them."""
    return facts.vocabulary_size(source_argument("vocab-size", source), declarations().base)


@library.builtin("record-count", "(source)")
def record_count(source: Any) -> int:
    """How many records a source has."""
    return counts.record_count(source_argument("record-count", source), declarations().base)
