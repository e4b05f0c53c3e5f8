"""The one layout of `.sx` text: `laid_out` gives a file's text in it.

Lexemes are never rewritten and line breaks are the author's, save where a line would be too long; what the layout
decides is where a line begins, the blanks within it and where trailing comments stand. `tree` parses the text with
its comments, `styles` says how each operator is indented, `align` finds the columns that neighbouring lines share,
`writer` puts it on lines.
"""

from sexpgpu.lang.layout.writer import WIDTH, laid_out

__all__ = ["WIDTH", "laid_out"]
