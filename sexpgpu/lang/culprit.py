"""From the culprit that an error names to its own place in the source, and to the edit that mends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from attrs import evolve, frozen

from sexpgpu.diag import Culprit, Diagnostic, Edit, Note, Span
from sexpgpu.lang.bound import binding_of
from sexpgpu.lang.forms import NIL, Cons, Source, SourceCons, Symbol
from sexpgpu.lang.place import EVALUATED
from sexpgpu.lang.reader import Reader


@frozen
class Written:
    """A datum and where the text has it."""

    datum: Any
    start: int
    end: int


def pinpointed(diagnostic: Diagnostic, text: str | None, aliases: Iterable[str] = ()) -> Diagnostic:
    """The diagnostic at its culprit, with the fix; as it is where the text does not show the culprit.

    `text` is that of the file of its span. What a macro wrote is left alone: the edit would be elsewhere.
    """
    culprit, span = diagnostic.culprit, diagnostic.span
    if culprit is None:
        return diagnostic
    bare = evolve(diagnostic, culprit=None)
    if span is None or text is None or span.file in ("", EVALUATED) or diagnostic.trail:
        return bare
    source = Source(span.file, text)
    start = source.offset(span.line, span.col)
    if culprit.head is not None and culprit.instead is not None:
        beside = text.startswith(culprit.head, start)
        return bare.fixed_by(_edit(source, start, start + len(culprit.head), culprit.instead)) if beside else bare
    form = form_at(source, start, set(aliases))
    if form is None:
        return bare
    if culprit.key is not None:
        found = _behind(form, culprit.key)
    elif culprit.function is not None:
        found = _argument(source, form, culprit)
    else:
        found = form if culprit.word is None else _word(source, form, culprit.word)
    if found is None:
        return bare
    made = evolve(bare, span=source.span(found.start, found.end))
    return _mended(made, culprit, found, source, set(aliases))


def form_at(source: Source, start: int, aliases: set[str]) -> Written | None:
    """The form that begins at an offset; None when it does not read."""
    form = next(Reader(source, lambda _: None, aliases).forms(start), None)
    return None if form is None or form.fault is not None else Written(form.datum, form.start, form.end)


def elements(form: Written) -> list[Written]:
    """The elements of a list, as far as the text has them."""
    found = []
    cell = form.datum
    while isinstance(cell, SourceCons):
        found.append(Written(cell.car, cell.car_start, cell.car_end))
        cell = cell.cdr
    return found


def _word(source: Source, form: Written, word: str) -> Written | None:
    """The atom spelt `word`: the form itself, its one element of that spelling, or else the one inside it."""

    def spelt(part: Written) -> bool:
        return not isinstance(part.datum, Cons) and source.text[part.start : part.end].lower() == word.lower()

    if spelt(form):
        return form
    for parts in (elements(form), list(_atoms(form))):
        found = [part for part in parts if spelt(part)]
        if len(found) == 1:
            return found[0]
    return None


def _behind(form: Written, key: str) -> Written | None:
    """What follows a keyword in a form or, where it is not there, in a list of options that the form has. Any other
    name begins a clause, (name value), of the form or of a clause of its own.
    """
    clauses = _lists(form)
    if not key.startswith(":"):
        deeper = [inner for clause in clauses for inner in _lists(clause)]
        parts = [elements(clause) for clause in (*clauses, *deeper)]
        return next(
            (p[1] for p in parts if len(p) > 1 and isinstance(p[0].datum, Symbol) and _spelt(p[0].datum) == key), None
        )
    for lists in ([form], clauses):
        pairs = [pair for found in lists for pair in pairwise(elements(found))]
        values = [value for word, value in pairs if isinstance(word.datum, Symbol) and _spelt(word.datum) == key]
        if values:
            return values[0]
    return None


def _lists(form: Written) -> list[Written]:
    return [part for part in elements(form) if isinstance(part.datum, Cons)]


def _spelt(name: Symbol) -> str:
    return f":{name.name}" if name.keyword else name.name


def _atoms(form: Written) -> Iterator[Written]:
    pending = [form]
    while pending:
        part = pending.pop()
        if isinstance(part.datum, Cons):
            pending += elements(part)
        else:
            yield part


def _argument(source: Source, form: Written, culprit: Culprit) -> Written | None:
    """The argument of a call, where the form is written as that call."""
    parts = elements(form)
    if not parts or source.text[parts[0].start : parts[0].end].lower() != culprit.function:
        return None
    if not 0 < culprit.argument < len(parts) or culprit.of not in (None, len(parts) - 1):
        return None
    first = parts[culprit.argument]
    return Written(first.datum, first.start, parts[-1].end) if culprit.away else first


def _mended(diagnostic: Diagnostic, culprit: Culprit, found: Written, source: Source, aliases: set[str]) -> Diagnostic:
    """With the edit: `instead` for a literal (a variable's is where it is bound), else the texts around it."""
    if culprit.away:
        before, behind = source.text[: found.start], source.text[found.end :]
        if before.endswith("\n") and behind.startswith("\n"):
            return diagnostic.fixed_by(_edit(source, found.start, found.end + 1, ""))
        return diagnostic.fixed_by(_edit(source, len(before.rstrip()), found.end, ""))
    if culprit.instead is not None and (not culprit.value or is_literal(found.datum)):
        return diagnostic.fixed_by(_edit(source, found.start, found.end, culprit.instead))
    if culprit.value and isinstance(found.datum, Symbol):
        bound = binding_of(source, found.datum, found.start, aliases)
        if bound is not None:
            note = Note(f"`{found.datum.name}` is bound here", source.span(bound.start, bound.end))
            diagnostic = evolve(diagnostic, notes=(note, *diagnostic.notes))
            if culprit.instead is not None and culprit.around is None and is_literal(bound.value):
                return diagnostic.fixed_by(_edit(source, bound.value_start, bound.value_end, culprit.instead))
        given = _given(diagnostic, culprit, source, aliases)
        if bound is None and given is not None:
            return diagnostic.fixed_by(given)
    if culprit.around is None or (not culprit.literal and is_literal(found.datum)):
        return diagnostic
    before, after = culprit.around
    edits = (_edit(source, found.start, found.start, before), _edit(source, found.end, found.end, after))
    return diagnostic.fixed_by(*edits)


def _given(diagnostic: Diagnostic, culprit: Culprit, source: Source, aliases: set[str]) -> Edit | None:
    """The edit where one of the calls that led here gives the value as a literal."""
    if culprit.word is None or culprit.instead is None:
        return None
    for note in diagnostic.notes:
        if note.span is None or note.span.file != source.file or not note.text.startswith("in the call of"):
            continue
        form = form_at(source, source.offset(note.span.line, note.span.col), aliases)
        found = _word(source, form, culprit.word) if form is not None else None
        if found is not None:
            return _edit(source, found.start, found.end, culprit.instead)
    return None


def is_literal(datum: Any) -> bool:
    """Whether a form's text is its value's: a number, a string, a keyword, nil."""
    return not isinstance(datum, Symbol | Cons) or (isinstance(datum, Symbol) and (datum.keyword or datum is NIL))


def _edit(source: Source, start: int, end: int, text: str) -> Edit:
    return Edit(source.span(start, end), text)


def word(name: str, instead: str | None = None) -> Culprit:
    """The atom `name` of the form at fault, to be written `instead`."""
    return Culprit(word=name, instead=instead)


def span_of_word(span: Span, text: str, name: str) -> Span | None:
    """Where the form at `span` writes the atom `name`."""
    source = Source(span.file, text)
    form = form_at(source, source.offset(span.line, span.col), set())
    found = _word(source, form, name) if form is not None else None
    return source.span(found.start, found.end) if found is not None else None
