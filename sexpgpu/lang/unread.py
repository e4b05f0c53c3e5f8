"""Definitions of the library that are read when something first calls them; their names are known at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from attrs import frozen

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.lang.active import activated
from sexpgpu.lang.analyze.core import Analyzer
from sexpgpu.lang.analyze.grammar import SPECIALS, Items, items_of
from sexpgpu.lang.builtin import show
from sexpgpu.lang.compiler import bare_scope
from sexpgpu.lang.forms import Cons, Source, Symbol, symbol
from sexpgpu.lang.module import Module, call_shape
from sexpgpu.lang.outline import Part, outline
from sexpgpu.lang.place import Place
from sexpgpu.lang.reader import Reader
from sexpgpu.lang.readform import ReadForm

if TYPE_CHECKING:
    from sexpgpu.lang.session import Session

DEFUN: Final = symbol("defun")
DEFMACRO: Final = symbol("defmacro")
WRITES_DEFUN: Final = frozenset((symbol("defmodel"), symbol("defoptimizer")))
"""Macros of the library that a call `(macro name ...)` expands into one `(defun name ...)`."""


@frozen
class Unread:
    """A top-level form of the library, `(head name ...)`, of which nothing else is known yet."""

    head: Symbol
    name: Symbol
    source: Source
    start: int
    end: int

    @property
    def place(self) -> Place:
        return Place(self.source, self.start, self.end)


def unread(session: Session, module: Module, source: Source) -> list[ReadForm | Unread] | None:
    """The forms of a file of the library, its functions and macros unread; None where the text has to be read whole.

    That is so of a file of a user's, whose mistakes are looked for, and of a text that an editor holds.
    """
    if not (module.internal or module.standard) or module.file in session.modules.overlay:
        return None
    parts = outline(source.text)
    if parts is None:
        return None
    session.modules.library_texts[source.file] = source
    return [_waiting(source, part) or _read(session, module, source, part.start) for part in parts]


def enter(session: Session, module: Module, form: Unread) -> None:
    """Define the name of a form. The form is read, and what it defines is analysed and compiled, at the first call."""
    name, place = form.name, form.place

    def parts() -> Items:
        return _items(session, module, form)

    if form.head is DEFMACRO:
        expander = session.defer(module, name, name, parts, place, macro=True)
        session.define_macro(module, name, expander, lambda: call_shape(name, show(parts()[1][0])), place)
    else:
        session.define_function(module, name, session.defer(module, name, name, parts, place, macro=False), place)


def _waiting(source: Source, part: Part) -> Unread | None:
    head, name = symbol(part.head), symbol(part.name)
    if (head is DEFUN or head is DEFMACRO or head in WRITES_DEFUN) and name not in SPECIALS:
        return Unread(head, name, source, part.start, part.end)
    return None


def _read(session: Session, module: Module, source: Source, start: int) -> ReadForm:
    told: list[Diagnostic] = []
    form = next(Reader(source, told.append, module.aliases).forms(start))
    for diagnostic in told:
        session.diagnostics.report(diagnostic)
    return form


def _items(session: Session, module: Module, unread: Unread) -> Items:
    """What stands behind `defun` or `defmacro` in the form, or in what its macro makes of it."""
    place = unread.place
    with _inside(session, module):
        read = _read(session, module, unread.source, unread.start)
        if read.fault is not None:
            raise SxError(read.fault)
        form = read.datum
        analyzer = Analyzer(session, module)
        macro = module.macro(unread.head) if unread.head in WRITES_DEFUN else None
        if macro is not None:
            form = analyzer.expand(macro, form, bare_scope(), place)
        assert isinstance(form, Cons)
        special = SPECIALS[DEFMACRO if unread.head is DEFMACRO else DEFUN]
        items = items_of(form.cdr, place, special.shape)
        analyzer.check_count(form, items, special.least, special.most, special.shape, place)
    return items


@contextmanager
def _inside(session: Session, module: Module) -> Iterator[None]:
    """As while the file is evaluated: names mean what they mean there."""
    outer, session.module = session.module, module
    try:
        with activated(session):
            yield
    finally:
        session.module = outer
