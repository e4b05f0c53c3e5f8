"""The outline of a file: what the forms in its first column define."""

from __future__ import annotations

from lsprotocol import types as lsp

from sexpgpu.editor.text import Text
from sexpgpu.lang.forms import Cons, SourceCons, Symbol
from sexpgpu.lang.reader import read_text

KINDS = {
    "defconstant": lsp.SymbolKind.Constant,
    "defmacro": lsp.SymbolKind.Function,
    "defmodel": lsp.SymbolKind.Class,
    "defoptimizer": lsp.SymbolKind.Class,
    "defstruct": lsp.SymbolKind.Struct,
    "defsweep": lsp.SymbolKind.Enum,
    "defun": lsp.SymbolKind.Function,
    "defvariant": lsp.SymbolKind.Enum,
}


def outline(text: Text) -> list[lsp.DocumentSymbol]:
    """A symbol for each definition that reads, and for each knob of a `defknobs`."""
    found = []
    for form in read_text(text.source, lambda _: None):
        datum = form.datum
        if (
            not isinstance(datum, SourceCons)
            or not isinstance(datum.car, Symbol)
            or not datum.car.name.startswith("def")
        ):
            continue
        head = datum.car.name
        kind = KINDS.get(head, lsp.SymbolKind.Variable)
        if head == "defknobs":
            knobs = [_symbol(text, head, datum, lsp.SymbolKind.Property, part) for part in _cells(datum.cdr)]
            whole = text.range(form.start, form.end)
            named = text.range(datum.car_start, datum.car_end)
            children = [knob for knob in knobs if knob is not None]
            found.append(lsp.DocumentSymbol("defknobs", lsp.SymbolKind.Object, whole, named, children=children))
        elif isinstance(datum.cdr, SourceCons) and (one := _symbol(text, head, datum, kind, datum.cdr)) is not None:
            found.append(one)
    return found


def _cells(cell: object) -> list[SourceCons]:
    found = []
    while isinstance(cell, SourceCons):
        found.append(cell)
        cell = cell.cdr
    return found


def _symbol(
    text: Text, head: str, form: SourceCons, kind: lsp.SymbolKind, cell: SourceCons
) -> lsp.DocumentSymbol | None:
    """The symbol of the name that stands in a cell, or first in the list there, as knobs and structures have it."""
    name, start, end = cell.car, cell.car_start, cell.car_end
    whole = form
    if isinstance(name, Cons):
        if not isinstance(name, SourceCons):
            return None
        whole = name if head == "defknobs" else form
        name, start, end = name.car, name.car_start, name.car_end
    if not isinstance(name, Symbol):
        return None
    return lsp.DocumentSymbol(
        text.text[start:end], kind, text.range(whole.start, whole.end), text.range(start, end), detail=head
    )
