"""What a call of a graph was reading when it failed: the step, the records, the number at fault in its field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress

import numpy as np
from attrs import frozen

from sexpgpu.data.source import ByStep
from sexpgpu.diag import Diagnostic, Note, Span, SxError
from sexpgpu.experiment import Loader
from sexpgpu.runtime.engine import Array, Engine

_RECORDS_SHOWN = 8


@frozen
class Reading:
    """A batch that a graph is called with; `when` says where in the run: "step 3, microbatch 1"."""

    graph: str
    loader: Loader
    records: Sequence[int]
    fields: Mapping[str, Array]
    when: str


@contextmanager
def reading(engine: Engine, read: Reading) -> Iterator[None]:
    """An index outside its axis, met within, is told with the field, the number, the records and the moment."""
    try:
        yield
    except SxError as fault:
        if fault.diagnostic.index is None:
            raise
        raise SxError(fault.diagnostic.noting(*_notes(fault.diagnostic, engine, read))) from None


@contextmanager
def during(what: str, span: Span | None = None) -> Iterator[None]:
    """An index outside its axis, met within, is told with what went on; `span` is where that stands."""
    try:
        yield
    except SxError as fault:
        if fault.diagnostic.index is None:
            raise
        raise SxError(fault.diagnostic.noting(Note(what, span))) from None


def _notes(fault: Diagnostic, engine: Engine, read: Reading) -> Iterator[Note]:
    names = engine.index_fields(read.graph, fault.span) if fault.span is not None else ()
    held = [note for name in names if (note := _held(name, fault, read)) is not None]
    yield from held
    if not held:
        spans = {field.name: field.span for field in read.loader.fields}
        yield from (Note(f"the index is computed from field `{name}`", spans.get(name)) for name in names)
    records = "" if held else f", records {shown(read.records)}"
    yield Note(f"at {read.when}{records}")


def _held(name: str, fault: Diagnostic, read: Reading) -> Note | None:
    """Where a field of the batch has the number at fault; None where it has it nowhere."""
    at = np.asarray(read.fields[name]) == fault.index
    if not at.any():
        return None
    field = next(field for field in read.loader.fields if field.name == name)
    where = ""
    if not isinstance(field.source, ByStep):
        rows = at.reshape(len(read.records), -1).any(axis=1).tolist()
        records = list(compress(read.records, rows))
        where = f" in record{'s' if len(records) > 1 else ''} {shown(records)}"
    return Note(f"field `{name}` has the number {fault.index}{where}", field.span)


def shown(records: Sequence[int]) -> str:
    """The first few of the records, and how many more there are."""
    more = len(records) - _RECORDS_SHOWN
    return ", ".join(map(str, records[:_RECORDS_SHOWN])) + (f" and {more} more" if more > 0 else "")
