"""Emission: analysed nodes to Python `ast` whose lines and columns are those of the `.sx` file.

Nodes that Python can say as an expression have an entry in `EXPRESSIONS`, the others in `STATEMENTS`
(`core`); each module but `core` and `code` fills in the entries of one subject when imported.
"""
