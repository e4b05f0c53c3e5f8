"""The diagnostic record and the collection a compilation reports into."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Literal

from attrs import evolve, field, frozen

Severity = Literal["error", "warning"]


@frozen(slots=True, cache_hash=True)
class Span:
    """A region of a source file: lines and columns count from 1, in characters; the end is exclusive."""

    file: str
    line: int
    col: int
    end_line: int
    end_col: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"


@frozen(slots=True, cache_hash=True)
class CallSite(Span):
    """A form of the user's own whose execution led to the place `inside` a standard module."""

    inside: Span

    @property
    def form(self) -> Span:
        return Span(self.file, self.line, self.col, self.end_line, self.end_col)


@frozen
class Note:
    """A further fact beside a diagnostic, with its own place where it has one."""

    text: str
    span: Span | None = None


@frozen
class Edit:
    """The text that a region of a source file is to be replaced by; an empty region inserts."""

    span: Span
    text: str


@frozen
class Culprit:
    """Which part of the form at a diagnostic's span is at fault, said by those who do not see the source.

    It is the form itself; an atom as the form writes it (`word`); or an argument, counted from 1, of a call of
    `function` (with `of` arguments, where that is known). What mends it: `instead` for the atom or literal, the
    two texts of `around` at its sides, or that it goes (`away`), with the arguments behind it. `value` says that
    the argument's value is at fault, `word` as it is written where it comes from, so that a variable's binding and
    the calls are of interest; one that is written as a `literal` may have to stay as it is. Where only its `head` is
    to be replaced, that is what it begins with. `key` is a keyword of the form or of an option list in it, or
    the name of a clause: what is written behind that is at fault.
    """

    word: str | None = None
    function: str | None = None
    argument: int = 0
    of: int | None = None
    instead: str | None = None
    around: tuple[str, str] | None = None
    away: bool = False
    value: bool = False
    head: str | None = None
    key: str | None = None
    literal: bool = True


@frozen
class Diagnostic:
    """One thing a user is told.

    `message` says what happened in the author's words; `expected` and `actual` are facts, not prose; `help`
    says in words what would mend it and `fix` is that as edits of the source, where they are known: made as they
    stand, the fault is gone. `trail` lists macro expansions, innermost first. `culprit` waits for whoever has the
    source to make a narrower span and a fix of it. `index` is a place that lies outside an axis, for whoever knows
    the data that it may come from.
    """

    code: str
    message: str
    span: Span | None = None
    expected: str | None = None
    actual: str | None = None
    help: str | None = None
    fix: tuple[Edit, ...] = ()
    notes: tuple[Note, ...] = ()
    trail: tuple[Note, ...] = ()
    severity: Severity = "error"
    culprit: Culprit | None = None
    index: int | None = None

    def at(self, span: Span | None) -> Diagnostic:
        """This diagnostic with a place, unless it has one already; what lies inside a standard module is a note."""
        if self.span is not None or span is None:
            return self
        if isinstance(span, CallSite):
            return evolve(self, span=span.form).noting(inside_note(span.inside))
        return evolve(self, span=span)

    def noting(self, *notes: Note) -> Diagnostic:
        """This diagnostic with more notes behind those it has."""
        return evolve(self, notes=self.notes + notes)

    def fixed_by(self, *edits: Edit) -> Diagnostic:
        """This diagnostic with edits that mend it, unless it has some already."""
        return self if self.fix else evolve(self, fix=edits)


def inside_note(place: Span) -> Note:
    """Where in a standard module a form led."""
    return Note("inside the standard module", place)


def error(
    code: str,
    message: str,
    span: Span | None = None,
    *,
    expected: str | None = None,
    actual: str | None = None,
    help: str | None = None,
    fix: Iterable[Edit] = (),
    notes: Iterable[Note] = (),
    culprit: Culprit | None = None,
    index: int | None = None,
) -> SxError:
    """The exception for one error: `raise error("E-NAME-001", ...)`."""
    facts = Diagnostic(
        code, message, None, expected, actual, help, tuple(fix), tuple(notes), culprit=culprit, index=index
    )
    return SxError(facts.at(span))


def warning(
    code: str, message: str, span: Span | None = None, help: str | None = None, *, fix: Iterable[Edit] = ()
) -> Diagnostic:
    return Diagnostic(code, message, span, help=help, fix=tuple(fix), severity="warning")


class SxError(Exception):
    """A user's fault on its way to the place that reports it."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(f"{diagnostic.code}: {diagnostic.message}")
        self.diagnostic = diagnostic
        self.others: tuple[Diagnostic, ...] = ()  # further faults that were found together with this one


@frozen
class Diagnostics:
    """What one compilation has reported so far, in order, each thing once."""

    records: list[Diagnostic] = field(factory=list)

    def report(self, diagnostic: Diagnostic) -> None:
        """Add one. Of two whose fixes cannot both be made, the later, or the one that only warns, loses its own."""
        for i, known in enumerate(self.records):
            if known != diagnostic and _clash(known.fix, diagnostic.fix):
                if (known.severity, diagnostic.severity) == ("warning", "error"):
                    self.records[i] = evolve(known, fix=())
                else:
                    diagnostic = evolve(diagnostic, fix=())
        if diagnostic not in self.records:
            self.records.append(diagnostic)

    def arrange(self) -> None:
        """Put them in the order of the text: file by file as first met, from its top; those without a place last."""
        spans = [d.span for d in self.records if d.span is not None]
        rank = {file: number for number, file in enumerate(dict.fromkeys(span.file for span in spans))}
        self.records.sort(
            key=lambda d: (rank[d.span.file], d.span.line, d.span.col) if d.span is not None else (len(rank), 0, 0)
        )

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.records)

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.records if d.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [d for d in self.records if d.severity == "warning"]


def _clash(some: tuple[Edit, ...], others: tuple[Edit, ...]) -> bool:
    """Whether an edit of the one fix and a different one of the other change the same text."""
    return any(a != b and _overlap(a.span, b.span) for a in some for b in others)


def _overlap(a: Span, b: Span) -> bool:
    first, then = sorted((a, b), key=lambda span: (span.line, span.col, span.end_line, span.end_col))
    return a.file == b.file and (then.line, then.col) < (first.end_line, first.end_col)


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate a misspelt `name` most likely meant, if one is near: two letters swapped, or few of them wrong.

    Of three letters or fewer only one is: `foo` is not `floor`.
    """
    known = [c for c in candidates if min(len(c), len(name)) > 3 or abs(len(c) - len(name)) < 2]
    swapped = {name[:i] + name[i + 1] + name[i] + name[i + 2 :] for i in range(len(name) - 1)} - {name}
    found = [c for c in known if c in swapped] or difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return found[0] if found else None
