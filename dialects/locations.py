"""Places: a span of a `.sx` file and a path in the model, as an MLIR location and back.

The form is `fused<"model.path">["f.sx":l:c to l:c]`; every operation carries one. What a form of the user's own calls
for inside a standard module is a call site, `callsite("nn.sx":l:c to l:c at "f.sx":l:c to l:c)`, in the file's stead.
"""

from __future__ import annotations

import re

from mlir import ir

from sexpgpu.diag import CallSite, Span

_spans: dict[ir.Attribute, Span | None] = {}
_paths: dict[ir.Attribute, str] = {}
"""By locations as attributes, which are equal where they say the same: a dozen operations share each."""
_METADATA = re.compile(r'^loc\(fused<"((?:[^"\\]|\\.)*)">')
_BYTES = {0xDC00 + byte: 0x10FE00 + byte for byte in range(0x80, 0x100)}
"""MLIR's names are UTF-8, a file's need not be: each byte of one that Python could not decode is, in MLIR, a character
for private use."""
_BACK = {written: read for read, written in _BYTES.items()}
_ESCAPE = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))")


def encode(span: Span | None, path: str, context: ir.Context) -> ir.Location:
    place = ir.Location.unknown(context) if span is None else _region(span, context)
    if isinstance(span, CallSite):
        place = ir.Location.callsite(_region(span.inside, context), [place], context)
    return ir.Location.fused([place], ir.StringAttr.get(path, context), context) if path else place


def _region(span: Span, context: ir.Context) -> ir.Location:
    file = span.file if span.file.isascii() else span.file.translate(_BYTES)
    return ir.Location.file(file, span.line, span.col, span.end_line, span.end_col, context)


def forget() -> None:
    """Drops what was read so far: what is kept alive keeps its context."""
    _spans.clear()
    _paths.clear()


def span_of(location: ir.Location) -> Span | None:
    """The first source region the location holds, or None; of a call site the caller's, with what it called."""
    key = location.attr
    if key not in _spans:
        _spans[key] = _span(location)
    return _spans[key]


def _span(location: ir.Location) -> Span | None:
    if location.is_a_file():
        file = location.filename
        name = file if file.isascii() else file.translate(_BACK)
        return Span(name, location.start_line, location.start_col, location.end_line, location.end_col)
    if location.is_a_fused():
        return next((span for part in location.locations if (span := span_of(part)) is not None), None)
    if location.is_a_name():
        return span_of(location.child_loc)
    if location.is_a_callsite():
        form, inside = span_of(location.caller), span_of(location.callee)
        if form is None or inside is None:
            return form or inside
        return CallSite(form.file, form.line, form.col, form.end_line, form.end_col, inside)
    return None


def path_of(location: ir.Location) -> str:
    """The model path the location carries; empty when it has none."""
    key = location.attr
    if key not in _paths:
        _paths[key] = _path(location)
    return _paths[key]


def _path(location: ir.Location) -> str:
    if not location.is_a_fused():
        return ""
    # The bindings give no access to a fused location's metadata but its printed form.
    found = _METADATA.match(str(location))
    return _unescape(found[1]) if found else ""


def _unescape(text: str) -> str:
    def byte(match: re.Match[bytes]) -> bytes:
        return bytes.fromhex(match[1].decode()) if match[1] else match[2]

    return _ESCAPE.sub(byte, text.encode()).decode()
