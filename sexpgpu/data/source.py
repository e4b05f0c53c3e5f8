"""Sources: where the records of a field come from, as plain frozen data.

A closed sum. The leaves name files (or count), the combinators work on other sources; each can cut the records
that it starts from with `from_` and `to`. Nothing here opens a file: `facts` tells what is known of a source,
`opening` reads it. A relative path is looked up under the directory that those modules are given; one with the
wildcards `* ? [` means all files that match, in the order of their names, one after the other.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from attrs import field, frozen

from sexpgpu.diag import error
from sexpgpu.tensortype import DType

Cut = int | float | None
"""Where a cut starts or ends: an int counts records, a float f stands for floor(n * f), None for the end of
the data.
"""


def _at_least(lowest: int) -> Any:
    """A validator of a number, or of each in a tuple: `E-LOAD-010` below `lowest`; None stands for no number."""

    def validate(instance: object, attribute: Any, value: int | tuple[int, ...] | None) -> None:
        for number in value if isinstance(value, tuple) else () if value is None else (value,):
            if number < lowest:
                owner = "the facts" if isinstance(instance, Declared) else kind(instance)
                raise error(
                    "E-LOAD-010",
                    f"{_said(attribute)} of {owner} is below {lowest}",
                    expected=f"{lowest} or more",
                    actual=str(number),
                )

    return validate


def _said(attribute: Any) -> str:
    """What a message calls the attribute: its name, or the argument that it is where that has another."""
    return str(attribute.metadata.get("said", attribute.name))


def _at_most(greatest: int) -> Any:
    """A validator of a number: `E-LOAD-010` above `greatest`."""

    def validate(instance: object, attribute: Any, value: int) -> None:
        if value > greatest:
            message = f"{_said(attribute)} of {kind(instance)} is above {greatest:,}"
            raise error("E-LOAD-010", message, expected=f"{greatest:,} or less", actual=str(value))

    return validate


def _proportions(instance: object, attribute: Any, value: tuple[float, ...]) -> None:
    """`E-LOAD-010` for a weight that is not a finite number above 0, or next to nothing beside the others."""
    total = sum(value)
    for number in value:
        if not (0 < number < math.inf and number >= total * 1e-6):
            raise error(
                "E-LOAD-010",
                "a weight of mix gives its source no share",
                expected="numbers above 0, none below a millionth of their sum",
                actual=str(number),
            )


@frozen
class Declared:
    """What a file promises of its data, so that it compiles without them; `run` verifies each.

    `shape` is the whole file's, its first axis the records. `vocab` bounds the integers: 0 <= id < vocab.
    """

    shape: tuple[int, ...] | None = field(default=None, validator=_at_least(1))
    dtype: DType | None = None
    count: int | None = field(default=None, validator=_at_least(1))
    vocab: int | None = field(default=None, validator=_at_least(1))


NOTHING = Declared()


@frozen
class Chars:
    """A UTF-8 text, one record a character: i32[], the character's place among the sorted distinct ones."""

    path: str
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


@frozen
class Lines:
    """A UTF-8 text, one record a line: i32[pad] of character ids, cut or filled with -1 to `pad`.

    Ids count the sorted distinct characters of the text. With `bos` one more id, the last, opens and closes
    each line. Blank lines are no records. As the fill is -1, targets cut from a record suit `:ignore-index
    -1`; an input cut from it needs a valid id instead, `(max tokens 0)`: under a causal model nothing that
    counts sees it.
    """

    path: str
    pad: int | None = field(default=None, validator=_at_least(1))
    bos: bool = False
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


@frozen
class Bytes:
    """Any file, one record a byte: i32[], 0 to 255."""

    path: str
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


TokenType = Literal["u8", "u16", "u32", "i16", "i32", "i64"]
TOKEN_TYPES: tuple[TokenType, ...] = get_args(TokenType)


@frozen
class Tokens:
    """A file of nothing but little-endian integers of `dtype`, one record each, in the type that holds them."""

    path: str
    dtype: TokenType = "u16"
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


@frozen
class Bpe:
    """A UTF-8 text cut into tokens by byte-pair encoding: i32[], ids of a Hugging Face `tokenizer.json`."""

    path: str
    tokenizer: str
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


@frozen
class Npy:
    """A NumPy array file; its first axis counts the records. Narrow integers and halves are widened."""

    path: str
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


@frozen
class Npz:
    """One array, `key`, of a NumPy archive."""

    path: str
    key: str
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


@frozen
class Idx:
    """An array in the IDX format of the MNIST files."""

    path: str
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


@frozen
class Csv:
    """Numbers separated by commas, one record a row.

    `columns` are names from the header or places from 0 (negative from the end); none means all. One column
    gives a scalar, several a vector, of `declared.dtype` or f32. The first row is a header when one of its
    cells is not a number. `skip` lines before it are left out.
    """

    path: str
    columns: tuple[str | int, ...] = ()
    skip: int = field(default=0, validator=_at_least(0))
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


@frozen
class Parquet:
    """Columns of a Parquet file, one record a row.

    One column gives a scalar, or a vector where its cells are lists of one length; several give a vector, and must
    be scalars of one type. None means all.
    """

    path: str
    columns: tuple[str, ...] = ()
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


@frozen
class Jsonl:
    """A file of JSON objects, one a line and a record; blank lines are none.

    One key gives its number or its nested lists of numbers, several give a vector of their numbers, of
    `declared.dtype` or f32.
    """

    path: str
    keys: tuple[str, ...]
    declared: Declared = NOTHING
    from_: Cut = None
    to: Cut = None


@frozen
class Arange:
    """The numbers 0 to n - 1: i32[]. `E-LOAD-010` for more than there are numbers of i32 from 0 on."""

    n: int = field(validator=[_at_least(1), _at_most(1 << 31)], metadata={"said": "start (the count)"})
    from_: Cut = None
    to: Cut = None


@frozen
class Window:
    """`n` consecutive records as one, every `stride` records."""

    source: Source
    n: int = field(validator=_at_least(1))
    stride: int = field(default=1, validator=_at_least(1))
    from_: Cut = None
    to: Cut = None


@frozen
class Contexts:
    """One record for each position of each line of a `Lines` with `bos`: the `n` ids before it, and it.

    A line's end is a position too, its id the BOS; what lies before a line's start is BOS. `count` declares
    how many positions there are.
    """

    source: Source
    n: int = field(validator=_at_least(1))
    count: int | None = field(default=None, validator=_at_least(1))
    from_: Cut = None
    to: Cut = None


@frozen
class Records:
    """The records of a source between two cuts."""

    source: Source
    from_: Cut = None
    to: Cut = None


@frozen
class Take:
    """The first `n` records of a source."""

    source: Source
    n: int = field(validator=_at_least(1))
    from_: Cut = None
    to: Cut = None


@frozen
class Scale:
    """Each element times `factor`, in `dtype` (default: the source's float type, f32 for integers)."""

    source: Source
    factor: float
    dtype: DType | None = None
    from_: Cut = None
    to: Cut = None


NormalizeKind = Literal["minmax", "zscore"]
NORMALIZE_KINDS: tuple[NormalizeKind, ...] = get_args(NormalizeKind)


@frozen
class Normalize:
    """Each element position mapped by statistics over the records: minmax to [0, 1], zscore to mean 0,
    deviation 1.

    The statistics are those of the records left by the cuts, or of `fit` where it is given (training records,
    say, for a test set). The deviation is the biased one; a position that never varies becomes 0.
    """

    source: Source
    kind: NormalizeKind
    fit: Source | None = None
    dtype: DType | None = None
    from_: Cut = None
    to: Cut = None


@frozen
class Concat:
    """The records of one source after those of another."""

    parts: tuple[Source, ...]
    from_: Cut = None
    to: Cut = None


@frozen
class Mix:
    """Records of several sources in fixed proportions; `mixing` has the formula.

    A pass goes on until each source was read to its end; those that end sooner start over.
    """

    parts: tuple[Source, ...]
    weights: tuple[float, ...] = field(validator=_proportions)
    from_: Cut = None
    to: Cut = None


@frozen
class ByStep:
    """Record k of a source for the whole of step k, or of evaluation k: a field without an axis of records."""

    source: Source


def shape_of(source: File) -> tuple[int, ...] | None:
    """The declared shape of a file; `E-LOAD-010` when it has no axis for the records, or not a table's two."""
    shape = source.declared.shape
    if shape is None or (len(shape) == 2 if isinstance(source, Csv) else shape):
        return shape
    raise error(
        "E-LOAD-010",
        f"the :shape of {kind(source)} needs {'2 axes' if isinstance(source, Csv) else '1 axis or more'}",
        expected="(rows columns)" if isinstance(source, Csv) else "(records ...)",
        actual=f"({' '.join(map(str, shape))})",
    )


TextLeaf = Chars | Lines
ArrayLeaf = Npy | Npz | Idx
File = TextLeaf | Bytes | Tokens | Bpe | ArrayLeaf | Csv | Parquet | Jsonl
Leaf = File | Arange
Combinator = Window | Contexts | Records | Take | Scale | Normalize
Joined = Concat | Mix
Source = Leaf | Combinator | Joined
FieldSource = Source | ByStep


def source_leaves(source: FieldSource) -> tuple[Leaf, ...]:
    """What a source reads at the bottom, from left to right."""
    if isinstance(source, Leaf):
        return (source,)
    if isinstance(source, Joined):
        return tuple(leaf for part in source.parts for leaf in source_leaves(part))
    return source_leaves(source.source)


_KINDS = {"ByStep": "by-step", "Concat": "concat-sources"}


def kind(source: object) -> str:
    """The source's Lisp name, `chars`."""
    name = type(source).__name__
    return _KINDS.get(name, name.lower())
