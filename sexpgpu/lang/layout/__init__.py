"""The one layout of `.sx` text: `checked_layout` gives a file's text in it.

Lexemes are never rewritten and line breaks are the author's, save where a line would be too long; what the layout
decides is where a line begins, the blanks within it and where trailing comments stand. `tree` parses the text with
its comments, `styles` says how each operator is indented, `align` finds the columns that neighbouring lines share,
`writer` puts it on lines.
"""

from __future__ import annotations

from sexpgpu.diag import Diagnostic, Diagnostics
from sexpgpu.lang.forms import Source
from sexpgpu.lang.layout.tree import lexemes, parse, same_forms
from sexpgpu.lang.layout.writer import WIDTH, laid_out
from sexpgpu.lang.reader import read_text

__all__ = ["WIDTH", "checked_layout", "laid_out"]


def checked_layout(name: str, text: str, diagnostics: Diagnostics) -> str | None:
    """The text of the file `name` in the layout; None, and its errors reported, where it does not read.

    The result is read back: it has the same lexemes, comments included, and reads as the same forms.
    """
    found: list[Diagnostic] = []
    before = read_text(Source(name, text), found.append)
    errors = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
    for diagnostic in errors:
        diagnostics.report(diagnostic)
    if errors:
        return None
    result = laid_out(text)
    after = read_text(Source(name, result), found.append)
    if not same_forms(before, after) or list(lexemes(parse(text))) != list(lexemes(parse(result))):
        raise AssertionError(f"the layout of {name} changes its meaning")
    return result
